"""The two sentences that hold the house: a module imports only from its left, and the pure rooms
touch nothing but values."""

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "backstory"

# From left to right; what stands together on a line may import one another.
LINE = [
    {"errors"},
    {"collector"},
    {"messages"},
    {"events"},
    {"replay"},
    {"wire"},
    {"conversation"},
    {"words", "compare"},
    {"names"},
    {"backends"},
    {"log"},
    {"agent"},
    {"verify"},
    {"references", "search", "stats", "transfer"},
    {"store"},
    {"aio"},
    {"deferring"},
    {"tools"},
    {"models"},
    {"loop"},
    {"cli", "chat"},
]
PURE = {"errors", "collector", "events", "replay", "messages", "wire", "conversation", "words", "compare"}
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


def room(path):
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
def test_a_module_imports_only_from_its_left(path):
    places = {name: place for place, names in enumerate(LINE) for name in names}
    here = places[room(path)]
    for module in imports(path):
        if module.startswith("backstory."):
            there = module.split(".")[1]
            assert places[there] <= here, f"{room(path)} imports {there}"


@pytest.mark.parametrize(
    "path", [p for p in MODULES if room(p) in PURE], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_a_pure_room_imports_only_pure_rooms_and_does_no_io(path):
    for module in imports(path):
        package, *rest = module.split(".")
        if package == "backstory":
            assert rest[0] in PURE
        assert package not in IMPURE_MODULES
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input")


def test_every_room_is_on_the_line():
    assert {room(path) for path in MODULES} <= set().union(*LINE)


def test_importing_backstory_imports_no_database_and_no_asyncio():
    import subprocess

    code = "import sys, backstory; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"apsw", "sqlite3", "psycopg", "asyncio", "logging"} & set(loaded)
