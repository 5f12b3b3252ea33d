"""The page as one file: readable without a script, and the whole page with one; it asks for nothing."""

import base64
import re
import subprocess
import sys

import pytest

import backstory
from backstory.web.saved import build_file, collect_answers
from tests.processes import PATIENCE
from tests.web.conftest import fill
from tools.browser import axe

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


@pytest.fixture
def file(filled, tmp_path):
    main = filled.agent("main")
    main.user("</script><script>alert(1)</script><!-- a comment", images=[base64.b64decode(PNG)])
    path = tmp_path / "main.html"
    path.write_text(build_file(filled, filled.resolve("main")))
    return path


@pytest.fixture
def opened(browser, file):
    """Opens the file; whatever it asks for or complains about fails the test."""
    contexts, problems = [], []

    def opened(*, rest="", **options):
        context = browser.new_context(viewport={"width": 1440, "height": 900}, **options)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{file.as_uri()}{rest}")
        return page

    asked = []
    yield opened
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith((file.as_uri(), "data:"))] == []
    assert problems == []


def at(page, name):
    page.locator(".position b").filter(has_text=name).wait_for()


def test_without_a_script_the_file_can_be_read(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("pre").get_by_text("Which Python files are here?").is_visible()
    assert page.get_by_text("</script><script>alert(1)</script>").is_visible()
    assert page.locator("nav").get_by_text("reviewer").is_visible()


def test_with_a_script_it_is_the_page_at_the_position(opened):
    page = opened()
    at(page, "main@11")
    page.locator(".message .body").filter(has_text="two").first.wait_for()
    page.locator(".message img").wait_for()
    page.keyboard.press("[")
    at(page, "main@6")
    page.keyboard.press("2")
    page.locator(".reason").filter(has_text="left behind by the rewind at 9").wait_for()
    page.keyboard.press("l")
    at(page, "reviewer@1")
    page.go_back()
    at(page, "main@6")
    page.keyboard.press("o")
    page.locator(".overview td").filter(has_text="rewind").wait_for()


def test_requests_search_find_and_diff_come_out_of_the_file(opened, filled):
    page = opened()
    at(page, "main@11")
    page.keyboard.press("3")
    page.locator(".request .message pre").filter(has_text="Which Python files").wait_for()
    page.keyboard.press("k")
    page.locator(".request .problem").filter(has_text="position 11").wait_for()
    page.get_by_role("button", name="Copy", exact=True).click()  # it would be another request
    page.locator(".alert").filter(has_text="position 11").wait_for()
    page.keyboard.press("/")
    page.locator(".search-box input").fill("rename main.py")
    page.locator(".result").filter(has_text="idea@5").click()
    at(page, "idea@5")
    main = filled.agent("main")
    page.keyboard.press("4")
    page.locator("select").select_option(main.id)
    page.locator(".diff p").filter(has_text="part after 4").wait_for()
    page.locator(".side.newer").filter(has_text="Rename a.py").wait_for()
    page.keyboard.press("Control+f")
    page.locator(".find input").fill("glob")
    page.locator(".find [role=status]").filter(has_text="of 1").wait_for()


def test_a_fork_whose_root_was_deleted_keeps_what_it_inherited(filled):
    filled.delete("main")
    idea = filled.agent("idea")
    answers = collect_answers(filled, idea, idea.head)
    assert list(answers["logs"][idea.id]["events"]) == [1, 2, 3, 4, 5]
    assert answers["title"] == "Which Python files are here?"


def test_a_link_into_the_file_opens_what_it_names(opened, filled):
    idea = filled.agent("idea")
    page = opened(rest=f"#/s/{idea.session}/a/{idea.id}@3")
    at(page, "idea@3")


def test_axe_finds_nothing_in_the_file(opened):
    page = opened()
    page.locator(".message .body").first.wait_for()
    page.evaluate(axe())
    assert (
        page.evaluate("async () => (await axe.run(document)).violations.map((one) => one.id)") == []
    )


def test_the_command_writes_it(tmp_path):
    url = str(tmp_path / "history.db")
    with backstory.open(url) as store:
        fill(store)
        wanted = build_file(store, store.resolve("main@4"))
    out = tmp_path / "main.html"
    written = ("--store", url, "export", "main@4", "--to", "html", "-o", out)
    subprocess.run([sys.executable, "-m", "backstory", *written], check=True, timeout=PATIENCE)
    nonce = re.compile("nonce-?=?[\"']?[\\w-]{22}")
    assert nonce.sub("", out.read_text()) == nonce.sub("", wanted)


REASONS = """async ([agent, head]) => {
  const { ask } = await import("page/state.js");
  const reasons = [];
  for (let seq = 1; seq <= head; seq++) {
    const { reason, by, live } = await ask(`/agents/${agent}/explain/${seq}?at=${head}`);
    reasons.push({ reason, by, live });
  }
  return reasons;
}"""


def test_the_file_explains_events_as_a_server_does(opened, file):
    with backstory.open(":memory:") as store:
        main = store.start("main", system="Be careful.")
        main.user("Before the compaction.")
        main.compact("A summary.")
        main.append("jump", None, {"target_message_id": 999})
        main.mark("here")
        main.user("Left behind.")
        main.rewind()
        main.user("The last one.")
        file.write_text(build_file(store, store.resolve("main")))
        wanted = []
        for seq in range(1, main.head + 1):
            why = main.explain(seq)
            wanted.append({"reason": why.reason, "by": why.by, "live": why.live})
        page = opened()
        at(page, f"main@{main.head}")
        assert page.evaluate(REASONS, [main.id, main.head]) == wanted
        assert len({why["reason"].partition(") ")[2] for why in wanted}) >= 5
