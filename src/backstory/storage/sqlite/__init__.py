"""The SQLite backend: one file, through apsw.

    sql.SqlReader                        the reads of both databases
    rows.SqliteReader                    the statements of all reads
        backend.SqliteBackend            the Backend: connections, locks, commits
        transaction.SqliteTransaction    the Transaction: every write

Read the modules in this order: `schema` (the tables), `listing` and `rows`, `transaction`, `file`
(opens connections, translates errors), `backend`. Then what can be left out at first: `frames`
(compressed rows), `migrations` (older stores), `index` (search), `stamp` (the write-ahead log) and
`replacement` (backups), `watch`.
"""
