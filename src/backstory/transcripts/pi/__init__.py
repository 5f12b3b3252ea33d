"""pi and omp: JSON lines that are a tree. Read `messages`, then `sessions`, then `writer`."""

from backstory.transcripts.pi.sessions import PiFormat

__all__ = ["PiFormat"]
