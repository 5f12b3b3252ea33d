"""How far an import is: bytes of files that are done, and of those that are being read. Pure."""

from collections.abc import Callable
from functools import partial

Progress = Callable[[int, int], object]  # bytes done, bytes in all
Heard = Callable[
    [int, bool], object
]  # a position in a file; whether its records are being fetched again


class Meter:
    """Adds up what is done, and tells it; what was told never becomes less."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._sizes: dict[str, int] = {}  # of the files that are not done
        self._done = 0
        self._told = 0

    def begin(self, path: str, size: int, *, passes: int) -> Heard | None:
        """What hears how far a file is being read. `passes`: 2 if its records are fetched once more."""
        self._sizes[path] = size
        return None if self._progress is None else partial(self._hear, path, passes)

    def _hear(self, path: str, passes: int, position: int, again: bool) -> None:
        size = self._sizes.get(path, 0)
        within = min(position, size)
        self._tell(self._done + (within + size * again) // passes)

    def finish(self, path: str) -> None:
        """A file is done."""
        if path in self._sizes:
            self._done += self._sizes.pop(path)
            self._tell(self._done)

    def _tell(self, done: int) -> None:
        self._told = max(self._told, min(done, self._total))
        if self._progress is not None:
            self._progress(self._told, self._total)
