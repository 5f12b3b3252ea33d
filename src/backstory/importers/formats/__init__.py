"""One module for each tool; the order is the order in which they are asked whether a source is theirs."""

from backstory.importers.format import Format
from backstory.importers.formats.aider import FORMAT as AIDER
from backstory.importers.formats.atif import FORMAT as ATIF
from backstory.importers.formats.chatgpt import FORMAT as CHATGPT
from backstory.importers.formats.claude_ai import FORMAT as CLAUDE_AI
from backstory.importers.formats.claude_code import FORMAT as CLAUDE_CODE
from backstory.importers.formats.codex import FORMAT as CODEX
from backstory.importers.formats.crush import FORMAT as CRUSH
from backstory.importers.formats.gemini import FORMAT as GEMINI
from backstory.importers.formats.goose import FORMAT as GOOSE
from backstory.importers.formats.llm import FORMAT as LLM
from backstory.importers.formats.openai_chat import FORMAT as OPENAI_CHAT
from backstory.importers.formats.opencode import FORMAT as OPENCODE
from backstory.importers.formats.pi import FORMAT as PI
from backstory.importers.formats.swe_agent import FORMAT as SWE_AGENT

FORMATS: tuple[Format, ...] = (
    CLAUDE_CODE,
    CODEX,
    PI,
    GEMINI,
    OPENCODE,
    LLM,
    GOOSE,
    CRUSH,
    AIDER,
    CHATGPT,
    CLAUDE_AI,
    ATIF,
    SWE_AGENT,
    OPENAI_CHAT,
)
