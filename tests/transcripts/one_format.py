"""What the tests ask of one format: which files it recognizes, how it reads tails, and what it writes."""

import backstory
from backstory.transcripts import ImportReport, SourceTail, export_transcript, load_format
from backstory.transcripts.sources import FileSource


def is_recognized(path, format):
    """Return True if a format recognizes a file."""
    return load_format(format).recognize(FileSource(path, str(path)).read_head())


class TailSource(FileSource):
    """A file whose first lines were read before."""

    def __init__(self, path, first_line, state):
        super().__init__(path, str(path))
        self._first_line = first_line
        self.tail = SourceTail(first_line - 1, 0, state)

    def lines(self, report):
        for line in super().lines(report):
            if line.number == 1 or line.number >= self._first_line:
                yield line


def read_tail(path, format, first_line, state):
    """Return the thread of a file that is read from a line on."""
    [session] = load_format(format).read([TailSource(path, first_line, state)], ImportReport())
    [thread] = session.threads
    return thread


def write_file(path, format, events):
    """Write a new agent with these events to a file of a format."""
    with backstory.open(":memory:") as store:
        agent = store.start(events=events)
        path.write_text(export_transcript(store, store.resolve(agent.id), format).text)
    return path
