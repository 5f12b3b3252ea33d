"""Claude Code's transcripts. Read `records` first, then `tree`, `sessions` and `files`."""

from backstory.transcripts.claude_code.files import ClaudeCodeFormat
from backstory.transcripts.claude_code.records import read_entries
from backstory.transcripts.claude_code.tree import ClaudeTree, LineUnits, index_lines

__all__ = ["ClaudeCodeFormat", "ClaudeTree", "LineUnits", "index_lines", "read_entries"]
