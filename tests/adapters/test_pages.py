"""The pages about adapters tell the truth: their code runs, and they begin with what happens to old items."""

import re
from pathlib import Path

import pytest

from tests.adapters.conftest import is_here

PAGES = sorted((Path(__file__).parents[2] / "docs" / "adapters").glob("*.md"))
MODULES = {"adk": "google.adk", "openai_agents": "agents", "claude": "claude_agent_sdk"}
OVERVIEW = "README"


def needs(page):
    return [] if page.stem == OVERVIEW else [MODULES.get(page.stem, page.stem)]


def code_of(page):
    return "\n".join(
        re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    )


@pytest.mark.parametrize("page", [p for p in PAGES if code_of(p)], ids=lambda page: page.stem)
def test_the_python_on_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    for module in needs(page):
        if not is_here(module):
            pytest.skip(f"{module} is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of(page), page.name, "exec"), {"__name__": "page"})


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.stem != OVERVIEW], ids=lambda page: page.stem
)
def test_a_page_begins_with_what_is_kept_and_what_is_deleted(page):
    beginning = " ".join(page.read_text()[:400].split())
    assert "log keeps" in beginning
    assert "delete" in beginning
