"""Work on whole stores. Every function takes a `Backend`, and `Store` has a method for each of
them; `restore` takes the paths of two files.

`search` finds events, `verify` checks rows and `seals` proves that none is missing, `stats` counts,
`backup` copies and restores, `exporter` and `importer` transfer sessions, `removal` deletes
agents, and `expiry` old sessions.
"""
