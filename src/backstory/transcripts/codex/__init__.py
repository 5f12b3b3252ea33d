"""Codex: rollouts, one file for each thread. Read `items`, then `rollouts`, then `files`."""

from backstory.transcripts.codex.files import CodexFormat

__all__ = ["CodexFormat"]
