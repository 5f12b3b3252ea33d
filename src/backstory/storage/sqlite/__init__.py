"""The SQLite backend: one file, through apsw.

    rows.SqliteReader                    every read, each with its statement
        backend.SqliteBackend            the Backend: connections, locks, commits
        transaction.SqliteTransaction    the Transaction: every write

Read the modules in this order: `schema` (the tables), `listing` and `rows`, `transaction`, `file`
(opens connections, translates errors), `backend`. Then what can be left out at first: `frames`
(compressed rows), `migrations` (older stores), `index` (search), `wal` and `replacement` (backups),
`watch`.
"""
