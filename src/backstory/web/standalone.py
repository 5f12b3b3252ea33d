"""The page as one file: what an exporter wrote for reading without a script, and the page with its answers.

Whoever opens it sees the text at once. Where scripts run, the page takes its place: it asks the file instead
of a server. Only this script may run and only these styles count, by their digests; nothing is asked for
anywhere.
"""

import base64
import hashlib
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from backstory.agent import Agent
from backstory.log.events import to_json
from backstory.present import html
from backstory.present.event_text import gist
from backstory.references import Reference
from backstory.store import Store
from backstory.web.api import LONGEST_LINE, event_for_page
from backstory.web.api import agents as session_agents
from backstory.web.api_call import ApiCall
from backstory.web.images import images_of
from backstory.web.outline import outline_json
from backstory.web.request import request_at
from backstory.web.sessions import agents_of, curve_of, session_for_page
from backstory.wire import FORMATS


def standalone(store: Store, found: Reference) -> str:
    """The session that an agent belongs to as one file, opened at a position."""
    agent = found.agent
    at = agent.head if found.at is None else found.at
    text = html.written(found, store.agents(session=found.agent.session))
    scripts, style = [_static("file.js"), _static("page.js")], _static("page.css")
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; "
        f"style-src {_digest(html.STYLE)} {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    state = escape(to_json({"root": "", "write": False, "user": None}), quote=True)
    # A "<" in the answers could end the element that holds them.
    answers = to_json(_answers(store, agent, at)).replace("<", "\\u003c")
    head = f'<meta name="backstory" content="{state}"><style id="page" media="not all">{style}</style></head>'
    tail = (
        f'<script type="application/json" id="answers">{answers}</script>\n'
        + "".join(f'<script type="module">{script}</script>\n' for script in scripts)
        + "</body></html>"
    )
    text = text.replace(f'content="{html.POLICY}"', f'content="{policy}"', 1).replace(
        "</head>", head, 1
    )
    body, _, end = text.rpartition("</body></html>")
    return body + tail + end


@cache
def _static(name: str) -> str:
    text = (files("backstory.web") / "static" / name).read_text("utf-8")
    if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
        raise AssertionError(f"{name} cannot stand in an element")
    return text


def _digest(text: str) -> str:
    found = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(found).decode()}'"


def _answers(store: Store, agent: Agent, at: int) -> dict[str, Any]:
    """What the page would ask a server for."""
    agents = store.agents(session=agent.session)
    asked = ApiCall(store, {"id": agent.session}, {})
    root = agents_of(store, agent.session)[0]
    return {
        "open": {"session": agent.session, "agent": agent.id, "at": at},
        "session": session_for_page(store, agent.session),
        "curve": curve_of(root, root.head),
        **session_agents(asked),
        "logs": {one.id: _log(one) for one in agents},
        "requests": {format: request_at(agent, at, format) for format in FORMATS},
    }


def _log(agent: Agent) -> dict[str, Any]:
    """The outline of an agent, and the events that are its own."""
    outline = outline_json(agent, 0)
    own = [
        event
        for owner, low, high in outline["pieces"]
        if owner == agent.id
        for event in agent.events(after=low - 1, until=high)
    ]
    return {
        "outline": outline,
        "lines": {event.seq: gist(event)[:LONGEST_LINE] for event in own},
        "events": {
            event.seq: event_for_page(event, full=True) | _pictures(event.data) for event in own
        },
    }


def _pictures(data: Any) -> dict[str, list[str]]:
    found = [
        f"data:{one.type};base64,{base64.b64encode(one.content).decode()}"
        for one in images_of(data)
    ]
    return {"pictures": found} if found else {}
