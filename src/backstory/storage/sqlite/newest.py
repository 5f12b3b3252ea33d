"""The newest event of the agent that was appended to last: the next append mostly goes behind it.

SQLite counts the changes of a file that a connection has seen, its own and those of everyone else. While the
count is the one from behind the last commit, nobody has written anything, and nothing has to be looked up.
"""

import apsw

End = tuple[int, int, bytes]  # a position, a time, and the digest there


class Newest:
    """What one append left for the next one. Used only by whoever may write."""

    def __init__(self) -> None:
        self._db: apsw.Connection | None = None
        self._version = 0
        self._agent = 0
        self._end: End | None = None

    def of(self, db: apsw.Connection, agent: int) -> End | None:
        """The end of an agent's log, within a transaction; None if it has to be looked up."""
        if db is self._db and agent == self._agent and db.data_version() == self._version:
            return self._end
        return None

    def written(self, agent: int, end: End) -> None:
        """Where the log ends when the transaction is committed."""
        self._db, self._agent, self._end = None, agent, end

    def committed(self, db: apsw.Connection) -> None:
        """The transaction was committed."""
        self._db, self._version = db, db.data_version()
