"""The SQLite backend: one file, through apsw.

Three classes read and write, each on top of the one before:

    rows.SqliteReader                every read
        index.SqliteIndexReader      and searches
            backend.SqliteBackend            the Backend: connections, locks, commits
            index.SqliteIndexWriter          writes the search index
                transaction.SqliteTransaction    the Transaction: every other write

Read the modules in this order: `schema` (the tables), `listing` and `rows`, `transaction`, `file`
(opens connections, translates errors), `backend`. Then what can be left out at first: `frames`
(compressed rows), `index` (search), `stamp` and `replacement` (backups), `watch`.
"""
