"""What is public is stated in docs/reference.md, is there, and is all that the documentation uses."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import backstory

ROOT = Path(__file__).parents[2]
SECTION = (
    (ROOT / "docs" / "reference.md")
    .read_text()
    .partition("## What is public")[2]
    .partition("\n## ")[0]
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


def documented(section, pattern):
    """The names in the first column of a section's table in the reference."""
    text = (ROOT / "docs" / "reference.md").read_text()
    rows = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    first_columns = re.findall(r"^\| (.+?) \| ", rows, re.MULTILINE)
    return set(re.findall(pattern, " ".join(first_columns)))


def attributes(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("Agent", r"`\.?(\w+)(?:\(.*?\))?`"),
        ("Store", r"`store\.(\w+)"),
        ("Intake", r"`(\w+)\("),
    ],
)
def test_the_reference_has_every_attribute(kind, pattern):
    assert documented(kind, pattern) == attributes(getattr(backstory, kind))


@pytest.mark.parametrize("kind", ["Agent", "Store", "Intake", "HeadWatch"])
def test_async_callers_have_the_same_attributes(kind):
    asynchronous = getattr(backstory.aio, f"Async{kind}")
    assert attributes(asynchronous) == attributes(getattr(backstory, kind))


def test_programs_in_the_documentation_are_seen():
    assert sum(len(list(imports(code))) for page in PAGES for code in programs(page)) >= 4
