"""Partitions at every call: a proxy in front of PostgreSQL that goes silent at the nth message.

Every operation runs once for each message that it needs. It has to end within its timeout, with
ConnectionLost or Busy, and afterwards nothing that was acknowledged is lost. See "Races, faults and
partitions" in CONTRIBUTING.md.
"""
