"""The SQLite backend: one file, through apsw."""
