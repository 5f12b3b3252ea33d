"""One module for each tool; the order is the order in which they are asked whether a source is theirs."""

from backstory.importers.format import Format
from backstory.importers.formats.claude_code import FORMAT as CLAUDE_CODE
from backstory.importers.formats.codex import FORMAT as CODEX
from backstory.importers.formats.gemini import FORMAT as GEMINI
from backstory.importers.formats.opencode import FORMAT as OPENCODE
from backstory.importers.formats.pi import FORMAT as PI

FORMATS: tuple[Format, ...] = (CLAUDE_CODE, CODEX, PI, GEMINI, OPENCODE)
