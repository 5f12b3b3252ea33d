"""The chat in the terminal: an agent that remembers, drawn from its log.

The turn loop does the work (`backstory.runtime.loop`), the log keeps it; the rooms here only draw, read keys
and turn commands into calls. Nothing that matters is kept in memory: after a restart, or a crash, the
screen and the model see the same context again.
"""
