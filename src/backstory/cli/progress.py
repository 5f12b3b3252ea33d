"""Progress on standard error, for work that may take a while. Only for terminals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told (done, total); it appears when it is first told something."""
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

        def tell(done: int, total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(what, total=total))
            bar.update(bar.task_ids[0], completed=done, total=total)

        yield tell
