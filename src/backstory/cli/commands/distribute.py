"""distribute: from one server to many."""

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.progress import progress_bar
from backstory.cli.stores import opened
from backstory.present.measures import count


@command("distribute", example="backstory --store postgresql://coordinator/history distribute")
def distribute_command(url: str | None, as_json: bool) -> None:
    """The database needs the Citus extension and its workers first. A store created there is distributed from
    the start; this command is for one that existed before. Sessions are spread over the workers. Other
    processes wait until it is done, and then go on."""
    with opened(url) as store, progress_bar("distributing", "rows") as progress:
        done = store.distribute(progress)
    if as_json:
        screen.answer_json(done._asdict())
    elif done.rows:
        screen.answer(
            f"moved {count(done.rows, 'row')}; the store is on {count(done.servers, 'server')}"
        )
    else:
        screen.answer(f"nothing to move; the store is on {count(done.servers, 'server')}")
