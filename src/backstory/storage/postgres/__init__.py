"""The PostgreSQL backend: a server, through psycopg.

Two classes have the same reads, and differ in the connection that runs them:

    rows.PostgresReader                      every read
        backend.PostgresBackend              the Backend: connections, retries, transactions
        transaction.PostgresTransaction      the Transaction: locks, and every write of events

Read the modules in this order: `schema` (the tables, and the functions in the database), `listing`
and `rows`, `transaction`, `server` (connections, settings, the meaning of errors), `backend`. Then
what can be left out at first: `migrations` (older stores), `index` (search), `watch`, `citus` (a
store on many servers).
"""
