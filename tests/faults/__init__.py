"""Faults of the disk at every call: an SQLite file system in which the nth call fails.

A script runs all operations on a store, once for each write, sync, truncation and lock that it
needs. In each run one of these fails, is torn or is delayed. Afterwards nothing that was
acknowledged is lost, and every error says the truth, whether the program continues, is killed, or
the power fails. See "Races, faults and partitions" in CONTRIBUTING.md.
"""
