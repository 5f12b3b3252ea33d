"""The PostgreSQL backend: a server, through psycopg.

Each class adds to the one above it. All reads are the same; the classes differ in the connection
that runs them:

    sql.SqlReader                                the reads of both databases
    rows.PostgresReader                          the statements of all reads
        backend.PostgresBackend                  the Backend: connections, retries, transactions
        writer.PostgresWriter                    appends and new agents, over one connection
            transaction.PostgresTransaction      the Transaction: locks, and all other writes

Read the modules in this order: `schema` (the tables, and the functions in the database), `listing`
and `rows`, `writer`, `transaction`, `server` (connections, settings, the meaning of errors),
`backend`. Then what can be left out at first: `migrations` (older stores), `index` (search),
`watch`, and `citus` (a store on many servers), whose classes replace some steps of these.
"""
