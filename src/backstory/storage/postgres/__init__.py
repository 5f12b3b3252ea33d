"""The PostgreSQL backend: a server, through psycopg."""
