"""Pure values and the rules of the log: events, messages, replay, diff, search terms.

No I/O, no clock, no randomness.
"""
