"""The page as one file: text for reading without a script, and the page with its answers.

Whoever opens it sees the text at once. Where scripts run, the page takes its place and asks the
file instead of a server. Only its scripts may run and only its styles count; it loads nothing.
"""

import base64
import secrets
from html import escape
from importlib.resources import files
from typing import Any

from backstory.agent import Agent
from backstory.log.events import to_json
from backstory.present import html
from backstory.references import Reference
from backstory.store import Store
from backstory.web.api import build_event, read_agents, sum_usage
from backstory.web.document import (
    LIBRARIES,
    compute_digest,
    find_modules,
    find_styles,
    load_files,
)
from backstory.web.images import find_images
from backstory.web.outline import build_block, build_frame
from backstory.web.query import Query
from backstory.web.render import write_line
from backstory.web.request import build_request
from backstory.web.sessions import build_rows_of
from backstory.wire import FORMATS


def build_file(store: Store, reference: Reference) -> str:
    """Return the session of an agent as one file, opened at a position."""
    agent = reference.agent
    at = agent.head if reference.at is None else reference.at
    nonce = secrets.token_urlsafe(16)
    style = "".join(load_files()[path].content.decode() for path in find_styles())
    state = escape(to_json({"root": "", "write": False, "user": None}), quote=True)
    # A "<" in the answers could end the element that contains them.
    answers = to_json(collect_answers(store, agent, at)).replace("<", "\\u003c")
    head = (
        f'<meta name="backstory" content="{state}">'
        f'<style id="page" media="not all">{style}</style></head>'
    )
    tail = (
        f'<script type="application/json" id="answers">{answers}</script>\n'
        f"{_write_scripts(nonce)}</body></html>"
    )
    text = html.build_page(reference, store.agents(session=agent.session))
    policy = _write_policy(nonce, style)
    text = text.replace(f'content="{html.POLICY}"', f'content="{policy}"', 1)
    text = text.replace("</head>", head, 1)
    body, _, end = text.rpartition("</body></html>")
    return body + tail + end


def _write_policy(nonce: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; "
        f"style-src {compute_digest(html.STYLE)} {compute_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _write_scripts(nonce: str) -> str:
    """Return the scripts of the file: an import map with every module inside, and two imports.

    A nonce, not digests: a module inherits the nonce of the script that imports it, but not a
    digest. It is random for each file, and every text in the file is older.
    """
    names = {path: name for name, path in LIBRARIES.items()}
    imports = {}
    for path in find_modules():
        code = _encode(load_files()[path].content)
        imports[names.get(path, f"page/{path}")] = f"data:text/javascript;base64,{code}"
    code = _encode((files("backstory.web") / "saved.js").read_bytes())
    imports["page/saved.js"] = f"data:text/javascript;base64,{code}"
    return (
        f'<script type="importmap" nonce="{nonce}">{to_json({"imports": imports})}</script>\n'
        f'<script type="module" nonce="{nonce}">'
        'import "page/saved.js"; import "page/main.js";</script>\n'
    )


def collect_answers(store: Store, agent: Agent, at: int) -> dict[str, Any]:
    """Return what the page would ask a server for."""
    requests = {format: build_request(agent, at, format).build_page() for format in FORMATS}
    return {
        "open": {"session": agent.session, "agent": agent.id, "at": at},
        "session": build_rows_of(store, [agent.session])[0],
        **read_agents(Query(store, {"id": agent.session}, {})),
        "logs": {one.id: _collect_log(one) for one in store.agents(session=agent.session)},
        "requests": requests,
    }


def _collect_log(agent: Agent) -> dict[str, Any]:
    """Return the outline of an agent, and the events that are its own."""
    frame = build_frame(agent)
    events = agent.events()
    own: set[int] = set()
    for part in agent.lineage():
        if part.agent_id == agent.id:
            own.update(range(part.first, part.last + 1))
    lines = {}
    found = {}
    for event in events:
        if event.seq in own:
            lines[event.seq] = write_line(event)
            found[event.seq] = build_event(event, full=True) | _find_pictures(event.data)
    return {
        "frame": frame,
        "outline": build_block(agent, 0, frame["head"]),
        "models": sum_usage(events),
        "lines": lines,
        "events": found,
    }


def _find_pictures(data: Any) -> dict[str, list[str]]:
    images = find_images(data)
    if not images:
        return {}
    return {"pictures": [f"data:{one.type};base64,{_encode(one.content)}" for one in images]}


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
