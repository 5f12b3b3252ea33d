"""Gemini CLI: chats as documents or JSON lines. Read `messages`, then `sessions`."""

from backstory.transcripts.gemini.sessions import GeminiCliFormat

__all__ = ["GeminiCliFormat"]
