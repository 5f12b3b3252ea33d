"""The chat in the terminal: an agent that remembers, drawn from its log.

The turn loop does the work (`backstory.runtime.loop`), and the log keeps it. The modules here only
draw, read keys and run commands. Nothing that matters is kept in memory: after a restart or a
crash, the screen and the model have the same context again.
"""
