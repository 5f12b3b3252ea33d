"""What is public is stated in ARCHITECTURE.md, is there, and is all that the documentation uses."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECTION = (
    (ROOT / "ARCHITECTURE.md").read_text().partition("## What is public")[2].partition("\n## ")[0]
)
PUBLIC = [
    name
    for row in re.findall(r"^\| (`.*?) \|", SECTION, re.MULTILINE)
    for name in re.findall(r"`(.+?)`", row)
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def imports(code):
    """What a program imports of backstory: (module, name)."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "backstory":
            yield from ((node.module, alias.name) for alias in node.names)


def programs(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def imported(module):
    """A public module; an adapter's test is skipped where its framework is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not module.startswith("backstory.adapters."):
            raise
        pytest.skip(f"{error.name} is not installed")


def test_the_section_names_the_modules():
    assert PUBLIC[0] == "backstory"
    assert {"backstory.aio", "backstory.wire", "backstory.transcripts"} < set(PUBLIC)


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_module_says_what_is_public_in_it(module):
    public = imported(module)
    assert public.__doc__
    assert len(set(public.__all__)) == len(public.__all__)
    for name in public.__all__:
        assert not name.startswith("_")
        assert hasattr(public, name), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_documentation_imports_only_what_is_public(page):
    for code in programs(page):
        for module, name in imports(code):
            if f"{module}.{name}" not in PUBLIC:
                assert module in PUBLIC, module
                assert name in import_module(module).__all__, f"{module}.{name}"


def test_programs_in_the_documentation_are_seen():
    assert sum(len(list(imports(code))) for page in PAGES for code in programs(page)) >= 4
