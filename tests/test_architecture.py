"""The two sentences of ARCHITECTURE.md: a module imports only from the floors below it, and the pure
floors do no I/O."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "backstory"

# From the bottom up. What stands on one floor may import its own kind, and only modules below.
FLOORS = [
    {"errors"},
    {"core"},
    {"wire"},
    {"storage"},
    {"identity"},
    {"agent"},
    {"intake", "jobs", "references"},
    {"store"},
    {"aio"},
    {"runtime", "importers"},
    {"present"},
    {"chat"},
    {"cli"},
    {"__main__"},
]
PURE = {"errors", "core", "wire"}
# Within a floor that reads: what only thinks. It may import itself and the pure floors.
PURE_PARTS = {
    f"importers/{name}"
    for name in (
        *("transcript", "linear", "entries", "answers", "forest", "chain"),
        *("format", "decode", "formats"),
    )
}
IMPURE_MODULES = {
    "os",
    "io",
    "sys",
    "time",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "asyncio",
}


def floor(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    """The modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "backstory":
                yield from (f"backstory.{name.name}" for name in node.names if name.name != "__version__")
            else:
                yield node.module


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_the_floors_below(path):
    places = {name: place for place, names in enumerate(FLOORS) for name in names}
    here = places[floor(path)]
    for module in imports(path):
        if module.startswith("backstory."):
            there = module.split(".")[1]
            assert places[there] <= here, f"{floor(path)} imports {there}"


def part(module):
    """The first two steps below the package, such as importers/formats."""
    return "/".join(module.removesuffix(".py").split("/")[:2])


def is_pure(path):
    return floor(path) in PURE or part(path.relative_to(SOURCE).as_posix()) in PURE_PARTS


@pytest.mark.parametrize("path", [p for p in MODULES if is_pure(p)], ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_pure_module_imports_only_pure_modules_and_does_no_io(path):
    for module in imports(path):
        package, *rest = module.split(".")
        if package == "backstory":
            assert rest[0] in PURE or (floor(path) not in PURE and part("/".join(rest)) in PURE_PARTS)
        assert package not in IMPURE_MODULES
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input")


def test_every_module_has_a_floor():
    assert {floor(path) for path in MODULES} <= set().union(*FLOORS)


def test_importing_backstory_imports_no_database_and_no_asyncio():
    import subprocess

    code = "import sys, backstory; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"apsw", "sqlite3", "psycopg", "asyncio", "logging"} & set(loaded)
