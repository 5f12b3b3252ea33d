"""The documents tell the truth: their code runs, their links lead somewhere, the names are there."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import backstory
from tests.wire.stub_server import stub_server
from tools import llms

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "commands.md"  # by tools.manual, which tests/cli/test_docs.py tests
DECISIONS = sorted(ROOT.glob("decisions/*.md"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *DECISIONS]
PAGES = [path for path in PAGES if path != GENERATED]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


ADAPTERS = (
    ROOT / "docs" / "adapters"
)  # their pages are run in tests/adapters, where the frameworks are


def code_of(page):
    return "\n".join(
        body for language, body in FENCE.findall(page.read_text()) if language == "python"
    )


SHOWN_ELSEWHERE = {"own-loop.md", "web-server.md"}  # test_examples.py, test_web_server.py


# What each extra installs, as far as a page could import it.
EXTRAS = {
    "postgres": "psycopg",
    "chat": "prompt_toolkit",
    "gemini": "google.genai",
    "openai": "openai",
    "anthropic": "anthropic",
    "embedded": "xllamacpp",
    "tokens": "splintr",
    "web": "starlette uvicorn",
    "mcp": "mcp",
    "prices": "genai_prices",
}
# Runs a page as if only some extras were installed.
RUN = """
import gc, sys
missing, code = sys.argv[1].split(), sys.argv[2]
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in missing:
            raise ModuleNotFoundError(f"the page does not say that it needs {name}", name=name)
sys.meta_path.insert(0, Missing())
exec(compile(code, "page", "exec"), {"__name__": "page"})
gc.collect()  # clients that nobody closed
"""


def list_missing_modules(page):
    """Return the modules of the extras that a page does not name at its top."""
    named = {"anthropic"}  # the README says which SDK its program uses
    if page.name != "README.md":
        needs = re.search(r"^Needs: (.+(?:\n.+)*)", page.read_text(), re.MULTILINE)[1]
        named = set(",".join(re.findall(r"backstory\[([\w,]+)\]", needs)).split(","))
    return [module for extra in EXTRAS if extra not in named for module in EXTRAS[extra].split()]


def test_every_extra_but_those_of_frameworks_is_known_here():
    text = (ROOT / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    frameworks = extras["adapters"][0].partition("[")[2].rstrip("]").split(",")
    assert set(EXTRAS) == set(extras) - {*frameworks, "adapters", "all"}


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if code_of(page) and page.parent != ADAPTERS and page.name not in SHOWN_ELSEWHERE
    ],
    ids=lambda page: page.name,
)
def test_the_python_on_a_page_runs_with_the_extras_that_it_names(page, tmp_path):
    with stub_server() as server:  # the README asks a model
        variables = {"ANTHROPIC_API_KEY": "none", "NO_PROXY": "*", "ANTHROPIC_BASE_URL": server.url}
        missing = " ".join(list_missing_modules(page))
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", RUN, missing, code_of(page)],
            cwd=tmp_path,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert [exchange.refused_for for exchange in server.exchanges if exchange.refused_for] == []
    assert len(server.exchanges) == (page.name == "README.md")


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


def test_the_site_leads_to_every_page():
    nav = (ROOT / "mkdocs.yml").read_text()
    pages = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in PAGES
        if ROOT / "docs" in path.parents
    }
    listed = set(re.findall(r": (\S+\.md)$", nav, re.MULTILINE))
    assert pages == listed - {GENERATED.name}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_test_that_a_page_names_exists(page):
    for path, _, name in re.findall(r"`(tests/[\w/]+\.py)(::(\w+))?`", page.read_text()):
        assert (ROOT / path).exists(), path
        assert f"def {name}" in (ROOT / path).read_text(), f"{path}::{name}"


def test_the_public_names_are_there_and_documented():
    for name in sorted({*backstory.__all__} - {"EventKind"}):  # a Literal
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
    assert DECISIONS
    for page in DECISIONS:
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


def test_every_message_in_troubleshooting_is_one_of_the_program():
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE):
        for message in re.findall(r"`([^`]+)`", row):
            for part in message.split("…"):
                assert part.strip(" '") in source, message


def test_every_page_says_what_it_needs():
    nav = (ROOT / "mkdocs.yml").read_text()
    for name in re.findall(r": (\S+\.md)$", nav, re.MULTILINE):
        if name == GENERATED.name:
            continue
        beginning = (ROOT / "docs" / name).read_text()[:200]
        assert name == "index.md" or re.search(r"^# .+\n\nNeeds: ", beginning), name


def test_the_readme_is_short_and_its_figures_are_those_of_the_page_about_performance():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) <= 700
    page = (ROOT / "docs" / "performance.md").read_text()
    section = readme.partition("## What it costs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|(.+)\|$", section, re.MULTILINE)[2:]
    assert len(rows) == 6
    for what, figures in rows:
        assert f"| {what} |{figures}|" in page, what


def test_every_file_that_a_page_for_maintainers_names_exists():
    for page in ("CONTRIBUTING.md", "ARCHITECTURE.md"):
        text = FENCE.sub("", (ROOT / page).read_text())
        for path in re.findall(r"`((?:\w+/)+\w+\.\w+)`", text):
            assert (ROOT / path).exists() or (ROOT / "src" / "backstory" / path).exists(), path


def test_llms_txt_has_the_first_sentence_of_each_page():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = [page for page in llms.list_pages(config["nav"]) if page[1] != "commands.md"]
    lines = [llms.describe_page(*page) for page in pages]
    assert lines[0].startswith("- [Home](index.md): backstory is an append-only log")
    assert not [line for line in lines if "Needs:" in line]
