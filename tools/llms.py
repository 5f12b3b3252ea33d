"""Writes llms.txt into the documentation site: one line for each page, for programs that read it.

    python -m tools.llms SITE

A page's line is its title, its address in the source, and its first sentence.
"""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent


def main(site: Path) -> None:
    """Write `site`/llms.txt from the navigation of mkdocs.yml."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    lines += [describe_page(title, path) for title, path in list_pages(config["nav"])]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def list_pages(nav: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the title and the path of each page of a navigation, in its order."""
    pages = []
    for entry in nav:
        for title, target in entry.items():
            pages += list_pages(target) if isinstance(target, list) else [(title, target)]
    return pages


def describe_page(title: str, path: str) -> str:
    """Return the line of a page: its title, its path and its first sentence."""
    text = (ROOT / "docs" / path).read_text(encoding="utf-8")
    paragraphs = [
        part for part in text.split("\n\n") if re.match(r"(?!Needs:|```)[A-Za-z`*]", part)
    ]
    words = " ".join(paragraphs[0].split()) if paragraphs else title
    return f"- [{title}]({path}): {re.split(r'(?<=[.:]) ', words)[0]}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
