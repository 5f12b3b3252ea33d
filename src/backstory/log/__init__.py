"""Pure values and the rules of the log: events, messages, replay, diff and search terms. No I/O, no clock."""
