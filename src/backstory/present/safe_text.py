"""Makes text from a log safe for a terminal: characters that would control it are made visible. Control
characters become Unicode's symbols for them, others their code point. Pure.
"""

import re

from backstory.log.json_text import UNSEEN

# In many scripts and in emoji, they join or separate letters. Elsewhere they are only invisible.
_LETTER = "[^\x00-\xad\u2000-\u206f\ufeff]"
_JOINERS = re.compile(f"(?<={_LETTER})([\u200c\u200d])(?={_LETTER})")

_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
_NUMBERS = {code: f"<U+{code:04X}>" for code in UNSEEN}
_TABLE = _NUMBERS | _PICTURES
_TABLES = {
    keep: {code: shown for code, shown in _TABLE.items() if chr(code) not in keep}
    for keep in ("", "\n", "\n\t")
}


def visible(text: str, keep: str = "\n\t") -> str:
    """The text with every character that would control a terminal made visible. Lines and tabs may stay."""
    table = _TABLES[keep]
    if "\u200c" not in text and "\u200d" not in text:
        return text.translate(table)
    parts = _JOINERS.split(text)  # every second part is a joiner between letters
    return "".join(part if index % 2 else part.translate(table) for index, part in enumerate(parts))


def one_line(text: str) -> str:
    """The text on one line: line ends and tabs are spaces, everything else is visible."""
    return visible(" ".join(text.split()), keep="")
