"""The documents tell the truth: their code runs, their links lead somewhere, the names are there."""

import re
from pathlib import Path

import pytest

import backstory

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


ADAPTERS = (
    ROOT / "docs" / "adapters"
)  # their pages are run in tests/adapters, where the frameworks are


def code_of(page):
    return "\n".join(
        body for language, body in FENCE.findall(page.read_text()) if language == "python"
    )


@pytest.mark.parametrize(
    "page", [p for p in PAGES if code_of(p) and p.parent != ADAPTERS], ids=lambda p: p.name
)
def test_the_python_on_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of(page), page.name, "exec"), {"__name__": "page"})


def headings_of(page):
    """The anchors that a forge makes of a page's headings."""
    text = FENCE.sub("", page.read_text())
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_leads_somewhere(page):
    for target, _, anchor in re.findall(r"\]\(([^)#]*)(#([^)]+))?\)", page.read_text()):
        if "://" not in target:
            there = page.parent / target if target else page
            assert there.exists(), target
            assert not anchor or anchor in headings_of(there), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_test_that_a_page_names_exists(page):
    for path, _, name in re.findall(r"`(tests/[\w/]+\.py)(::(\w+))?`", page.read_text()):
        assert (ROOT / path).exists(), path
        assert f"def {name}" in (ROOT / path).read_text(), f"{path}::{name}"


def test_the_public_names_are_there_and_documented():
    for name in backstory.__all__:
        assert getattr(backstory, name).__doc__, name


def test_the_commands_in_the_readme_are_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^\$ make ([\w-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands
    for command in commands:
        assert f"\n{command}:" in makefile


def test_the_changelog_has_versions_with_dates_and_the_kinds_of_change_that_people_know():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version), version
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds


def test_every_decision_is_short_and_says_what_would_change_our_mind():
    pages = list((ROOT / "docs" / "decisions").glob("*.md"))
    assert pages
    for page in pages:
        text = page.read_text()
        assert len(text.splitlines()) <= 25, page.name
        for heading in (
            "**Context.**",
            "**Choice.**",
            "**What we give up.**",
            "**What would change our mind.**",
        ):
            assert heading in text, page.name


def test_every_public_method_is_in_the_reference():
    reference = (ROOT / "docs" / "reference.md").read_text()
    for kind in (backstory.Store, backstory.Agent):
        for name in vars(kind):
            if not name.startswith("_"):
                assert re.search(rf"\b{name}\b", reference), f"{kind.__name__}.{name}"
    for name in backstory.__all__:
        assert re.search(rf"\b{name}\b", reference), name


def test_no_page_is_empty():
    for page in PAGES:
        assert len(page.read_text()) > 200, page.name
