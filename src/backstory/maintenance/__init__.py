"""Work on whole stores. Every function takes a `Backend`; `Store` has a method for each of them.

`search` finds events, `verify` checks rows and `seals` proves that none is missing, `stats` counts,
`backup` copies, `transfer` exports and imports, `removal` deletes.
"""
