"""One module for each tool; the order is the order in which they are asked whether a source is theirs."""

from backstory.transcripts.aider import FORMAT as AIDER
from backstory.transcripts.atif.trajectories import FORMAT as ATIF
from backstory.transcripts.chatgpt import FORMAT as CHATGPT
from backstory.transcripts.claude_ai import FORMAT as CLAUDE_AI
from backstory.transcripts.claude_code.sessions import FORMAT as CLAUDE_CODE
from backstory.transcripts.codex.rollouts import FORMAT as CODEX
from backstory.transcripts.crush import FORMAT as CRUSH
from backstory.transcripts.format import Format
from backstory.transcripts.gemini.sessions import FORMAT as GEMINI
from backstory.transcripts.goose import FORMAT as GOOSE
from backstory.transcripts.llm import FORMAT as LLM
from backstory.transcripts.openai_chat import FORMAT as OPENAI_CHAT
from backstory.transcripts.opencode.sessions import FORMAT as OPENCODE
from backstory.transcripts.pi.sessions import FORMAT as PI
from backstory.transcripts.swe_agent import FORMAT as SWE_AGENT

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
