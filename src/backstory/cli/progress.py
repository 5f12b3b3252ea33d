"""Progress on standard error, for work that may take a while; only on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from backstory.cli import output as screen

Progress = Callable[[int, int], None]


def progress_bar(what: str, unit: str) -> AbstractContextManager[Progress | None]:
    """A bar that is told (done, total), and appears when it is first told something; None without a
    terminal."""
    return _bar(what, unit) if screen.talks_to_terminal() else nullcontext()


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: list[object] = []

        def progress(done: int, total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(what, total=total))
            bar.update(bar.task_ids[0], completed=done, total=total)

        yield progress
