"""Where each numbered contract of an adapter is tested: a list without gaps."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CONTRACTS = {
    "openai_agents": [
        "it_is_what_the_sdk_calls_a_session",
        "an_item_comes_back_equal_as_json",
        "a_limit_gives_the_newest_in_order",
        "twenty_pops_at_once_give_twenty_items",
        "clearing_one_session_leaves_the_others_alone",
        "a_closed_session_refuses_everything",
        "ids_of_any_text_are_sessions_of_their_own",
        "batches_of_two_processes_stay_together_and_the_store_is_sound",
        "what_is_not_json_writes_nothing",
        "a_cancelled_write_is_seen_through",
        "the_model_is_given_the_same_as_with_the_sdks_own_session",
        "an_approval_is_given_in_another_process",
        "a_retry_takes_back_its_own_items_and_puts_back_those_of_others",
        "the_compacting_wrapper_works_around_it",
        "the_request_of_the_stored_items_is_the_items",
        "what_the_chat_wrote_is_an_item",
    ],
    "claude": [
        "a_batch_repeated_whole_or_in_part_changes_nothing",
        "two_processes_append_whole_batches",
        "five_hundred_lines_in_one_append",
        "it_works_under_trio",
        "the_helpers_of_the_sdk_work_on_it",  # with the materialized resume
        "the_helpers_of_the_sdk_work_on_it",
        "after_a_rewind_by_a_person_the_lines_end_there_and_hang_together",
        "what_the_model_sees_of_a_mirrored_history_is_what_an_import_gives",
        "deleting_a_session_leaves_no_event_of_it_and_of_its_subagents",
    ],
    "pydantic_ai": [
        "a_save_stores_only_what_is_new",
        "a_stale_save_a_second_creation_and_an_unknown_head_conflict",
        "the_same_happens_as_with_the_store_in_memory",  # branches, and the way back
        "a_fork_shares_and_survives_the_deletion_of_its_source",
        "scopes_keep_conversations_to_their_owners",
        "the_same_happens_as_with_the_store_in_memory",  # a windowed load that goes on
        "the_same_happens_as_with_the_store_in_memory",  # deferred requests
        "every_part_comes_back_equal",
        "a_thousand_messages_are_loaded_by_as_many_queries_as_four",
    ],
    "langgraph": [
        "writes_may_come_before_their_checkpoint",
        "of_ordinary_writes_the_first_stays_and_of_special_ones_the_last",
        "writes_are_in_the_order_of_path_task_and_number",
        "an_interrupted_run_is_resumed_in_another_process",
        "going_on_from_an_older_checkpoint_leaves_both_branches_readable",
        "the_same_states_as_with_the_saver_in_memory",  # RemoveMessage, and one replaced by its id
        "a_message_that_is_changed_in_place_is_seen",
        "thread_ids_may_be_numbers_and_without_a_namespace_it_is_the_empty_one",
        "all_threads_are_listed_without_a_config",
        "after_a_deletion_nothing_late_brings_a_checkpoint_back",
        "a_copied_saver_works_on_the_same_store",
        "with_an_encrypting_serializer_no_text_is_in_the_clear",
        "pruning_keeps_what_the_kept_checkpoint_refers_to",
        "values_of_any_type_come_back",
        "two_processes_on_one_thread_lose_nothing",
    ],
    "adk": [
        "unknown_existing_and_deleted_sessions",
        "the_same_happens_as_with_the_service_in_memory",
        "state_belongs_to_the_app_the_user_or_the_session",
        "state_belongs_to_the_app_the_user_or_the_session",  # temp:
        "events_come_back_equal_and_the_last_one_dates_the_session",  # partial ones are not stored
        "events_come_back_equal_and_the_last_one_dates_the_session",
        "events_come_back_equal_and_the_last_one_dates_the_session",  # last_update_time
        "a_part_of_the_events_is_read_by_number_and_time",
        "the_same_happens_as_with_the_service_in_memory",  # the order of the list
        "unknown_existing_and_deleted_sessions",  # blanks around an id
        "of_two_stale_writers_one_wins_and_nothing_of_the_other_is_written",
        "a_session_object_without_a_marker_is_judged_by_what_it_holds",
        "the_same_event_delivered_again_is_stored_once",
        "state_belongs_to_the_app_the_user_or_the_session",  # of a user without a session
        "unknown_existing_and_deleted_sessions",  # the same id, two users
        "many_sessions_are_listed_by_a_few_queries",
    ],
    "agent_framework": [
        "messages_come_back_equal",
        "a_transcript_handed_in_again_adds_only_what_is_new",
        "without_a_session_it_is_the_default_one_and_ids_are_any_text",
        "a_crash_between_call_and_result_leaves_a_session_that_goes_on",
        "excluded_messages_can_be_skipped",
        "messages_come_back_equal",  # approvals
    ],
}
NUMBERS = {
    "openai_agents": 16,
    "claude": 9,
    "pydantic_ai": 9,
    "langgraph": 15,
    "adk": 16,
    "agent_framework": 6,
}


def names_in(adapter):
    trees = (ast.parse(path.read_text()) for path in HERE.glob(f"test_{adapter}*.py"))
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("adapter", CONTRACTS)
def test_every_contract_has_a_test(adapter):
    assert len(CONTRACTS[adapter]) == NUMBERS[adapter]
    assert {f"test_{name}" for name in CONTRACTS[adapter]} <= names_in(adapter)
