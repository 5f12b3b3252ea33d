"""A deterministic scheduler for races between clients of one store.

Two or three clients, each a thread with its own store handle, run a few random operations. Each
statement is a step, and only one client takes a step at a time; the seed decides which. So a seed
is a schedule that can be replayed. See "Races, faults and partitions" in CONTRIBUTING.md.

- `turns`: clients, their turns, and the hooks in the database drivers.
- `operations`: the random operations, and the ledger of what was acknowledged.
- `audit`: what must be true after each schedule.
- `run`: runs the schedule of a seed on a database.
"""
