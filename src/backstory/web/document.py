"""The page's document and files: no build, the files in the repository are those the browser runs.

An import map says where the modules are, so that the same imports work below any path and in a
saved file. Addresses of files contain a digest of all of them: a browser may keep them for ever.
"""

import base64
import gzip
import hashlib
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from backstory.log.events import to_json
from backstory.web.guard import PAGE_POLICY

TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
LIBRARIES = {
    "preact": "vendor/preact.js",
    "preact/hooks": "vendor/hooks.js",
    "@preact/signals": "vendor/signals.js",
    "@preact/signals-core": "vendor/signals-core.js",
    "htm": "vendor/htm.js",
}
TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="backstory" content="{{state}}">
<title>backstory</title>
<link rel="icon" href="{base}icon.svg">
<script type="importmap">{imports}</script>
{links}
<script type="module" src="{base}main.js"></script>
</head>
<body><noscript>This page needs JavaScript.</noscript><div id="app"></div></body>
</html>
"""


class StaticFile(NamedTuple):
    """A file that is served as it is in the repository. `packed` is its content with gzip."""

    type: str
    content: bytes
    packed: bytes


class PageDocument(NamedTuple):
    """The HTML of the page below `root`, without its state, and the policy for it."""

    root: str
    html: str
    policy: str


@cache
def load_files() -> dict[str, StaticFile]:
    """Return every file of the page by its path."""
    return dict(_find_files(files("backstory.web") / "page", ""))


def _find_files(folder: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        suffix = entry.name.rpartition(".")[2]
        if entry.is_dir():
            yield from _find_files(entry, f"{prefix}{entry.name}/")
        elif suffix in TYPES:
            content = entry.read_bytes()
            yield prefix + entry.name, StaticFile(TYPES[suffix], content, gzip.compress(content, 9))


def find_modules() -> list[str]:
    """Return the paths of the scripts."""
    return [path for path in load_files() if path.endswith(".js")]


def find_styles() -> list[str]:
    """Return the paths of the style sheets, in the order in which they count."""
    return [path for path in load_files() if path.endswith(".css")]


@cache
def compute_version() -> str:
    """Return a digest of all files."""
    digest = hashlib.sha256()
    for path, file in load_files().items():
        digest.update(f"{path} {len(file.content)}\n".encode() + file.content)
    return digest.hexdigest()[:12]


@cache
def build_document(root: str) -> PageDocument:
    """Return the page below `root`, with a policy that allows its import map by digest."""
    base = f"{root}/static/{compute_version()}/"
    names = {name: base + path for name, path in LIBRARIES.items()}
    imports = to_json({"imports": {**names, "page/": base}}).replace("<", "\\u003c")
    href = escape(base)
    styles = [f'<link rel="stylesheet" href="{href}{path}">' for path in find_styles()]
    modules = [f'<link rel="modulepreload" href="{href}{path}">' for path in find_modules()]
    links = "\n".join([*styles, *modules])
    html = TEMPLATE.format(base=href, imports=imports, links=links)
    source = f"script-src 'self' {compute_digest(imports)}"
    return PageDocument(root, html, PAGE_POLICY.replace("script-src 'self'", source))


def compute_digest(text: str) -> str:
    """Return the digest of an inline script or style as a policy names it."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
