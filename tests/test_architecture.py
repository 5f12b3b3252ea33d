"""What ARCHITECTURE.md says: a module imports only from the layers below its own, and the pure layers do no
I/O."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import backstory

SOURCE = Path(__file__).parent.parent / "src" / "backstory"

# From the bottom up. A module may import from its own entry and from the layers below.
LAYERS = [
    {"errors"},
    {"log"},
    {"wire"},
    {"storage"},
    {"reading", "comparing", "agent", "intake", "attachments"},
    {"references", "listings", "maintenance"},
    {"present"},
    {"transcripts"},
    {"store"},
    {"aio", "threads"},
    {"runtime", "adapters"},
    {"chat", "web", "mcp"},
    {"cli"},
    {"__main__"},
]
PURE = {"errors", "log", "wire"}
# Pure modules within a layer that does I/O. They may import one another and the pure layers.
PURE_PARTS = {
    *("storage/protocol", "storage/agent_errors", "storage/positions", "maintenance/checker"),
} | {
    f"transcripts/{name}"
    for name in (
        *("model", "format", "content", "decoding", "unit_tree", "matching", "masks"),
        *("claude_code", "codex", "pi", "gemini", "opencode", "goose", "llm", "crush", "atif"),
        *("chatgpt", "claude_ai", "openai_chat", "swe_agent", "aider"),
    )
}
# What adapters import from the package itself, as users do; its modules have layers of their own.
FACE = set(backstory.__all__) - {"aio", "wire"}
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


def layer(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    """The modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module in ("backstory", "backstory.transcripts"):
                yield from (
                    f"{node.module}.{name.name}"
                    for name in node.names
                    if name.name != "__version__"
                )
            else:
                yield node.module


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_the_layers_below(path):
    places = {name: place for place, names in enumerate(LAYERS) for name in names}
    here = places[layer(path)]
    for module in imports(path):
        if module.removeprefix("backstory.") in FACE:
            assert layer(path) == "adapters", f"{layer(path)} imports {module}"
        elif module.startswith("backstory."):
            there = module.split(".")[1]
            assert places[there] <= here, f"{layer(path)} imports {there}"


def part(module):
    """The first two steps below the package, such as transcripts/codex."""
    return "/".join(module.removesuffix(".py").split("/")[:2])


def is_pure(path):
    if path.name == "export.py":  # it reads an agent, and asks for the time
        return False
    return layer(path) in PURE or part(path.relative_to(SOURCE).as_posix()) in PURE_PARTS


HARMLESS = {"os.register_at_fork", "threading.Lock"}  # they read and write nothing


def names_of(package, path):
    """The names that a module uses of a package."""
    found = (
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
    )
    return {ast.unparse(node) for node in found if ast.unparse(node.value) == package}


@pytest.mark.parametrize(
    "path", [p for p in MODULES if is_pure(p)], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_a_pure_module_imports_only_pure_modules_and_does_no_io(path):
    for module in imports(path):
        package, *rest = module.split(".")
        if package == "backstory":
            assert rest[0] in PURE or (
                layer(path) not in PURE and part("/".join(rest)) in PURE_PARTS
            )
        assert package not in IMPURE_MODULES or set() < names_of(package, path) <= HARMLESS
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input")


PUBLIC = {"backstory", "backstory.aio", "backstory.wire", "backstory.transcripts"}
# Modules that adapters use beside that: how items are written and read exactly, in little space.
ITEM_MODULES = {"backstory.log.items", "backstory.log.arguments"}
# The Claude Agent SDK gives its adapter the lines of Claude Code's files.
ITEM_MODULES |= {"backstory.transcripts.claude_code", "backstory.log.erasure"}
MORE_MODULES = {
    "items.py": {"backstory.log.checks"},
    "stores.py": {"backstory.storage.targets"},
}


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "adapters").glob("*.py")), ids=lambda path: path.name
)
def test_an_adapter_imports_what_is_public_the_wire_and_the_items(path):
    own = ITEM_MODULES | MORE_MODULES.get(path.name, set())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "backstory":
            if node.module.startswith(("backstory.adapters.", "backstory.wire.")):
                continue
            if node.module in own:
                continue
            assert node.module in PUBLIC, node.module
            for name in node.names:
                assert name.name in import_module(node.module).__all__, f"{node.module}.{name.name}"
        elif isinstance(node, ast.Import):
            assert {name.name for name in node.names if name.name.startswith("backstory")} <= PUBLIC


def test_every_module_has_a_layer():
    assert {layer(path) for path in MODULES} <= set().union(*LAYERS)


def test_importing_backstory_imports_no_database_and_no_asyncio():
    assert not {"apsw", "sqlite3", "psycopg", "asyncio", "logging"} & loaded_by("import backstory")


def test_writing_and_reading_a_log_imports_no_wire_format():
    code = "import backstory; agent = backstory.open(':memory:').start(); agent.user('x'); agent.context()"
    assert not {"backstory.wire", "orjson"} & loaded_by(code)


def test_reading_a_store_imports_nothing_large_that_it_does_not_need(tmp_path):
    """Of a new process that reads a context, most of the time is imports."""
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start().user("x")
    code = f"import backstory; store = backstory.open({str(path)!r}); store.resolve('@').agent.context()"
    assert not {
        "tempfile",
        "random",
        "urllib.parse",
        "uuid",
        "logging",
        "backstory.wire",
        "click",
        "rich",
        "platformdirs",
    } & loaded_by(code)


def loaded_by(code):
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


PAGE = (SOURCE.parent.parent / "ARCHITECTURE.md").read_text()


def find_known_names():
    """All names that a page about the source may mention: of modules, folders, and what is in them."""
    names = {"tests", "benchmarks", "tools", "docs", "peers", "plain", "py", "backstory", "__all__"}
    for path in SOURCE.rglob("*.py"):
        names.update(step.removesuffix(".py") for step in path.relative_to(SOURCE).parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
    names.update(path.stem for path in (SOURCE.parent.parent / "tests").rglob("test_*.py"))
    return names


def test_every_name_on_the_page_exists():
    mentioned = re.findall(r"`([^`\n]+)`", PAGE)
    steps = {step for name in mentioned for step in re.findall(r"\w+", name)}
    steps.update(re.findall(r"\b[a-z]+_[a-z_]+\b", PAGE))  # also in the drawings
    assert {"append_in_transaction", "append_move"} <= steps
    assert steps - find_known_names() <= {"base", "n"}  # of the rule in "The idea"


@pytest.mark.parametrize("room", ["log", "storage", "maintenance"])
def test_the_page_names_every_module_of_a_room(room):
    named = {step for name in re.findall(r"`([^`\n]+)`", PAGE) for step in re.findall(r"\w+", name)}
    modules = {path.stem for path in (SOURCE / room).glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in (SOURCE / room).glob("*/__init__.py")}
    assert modules | packages <= named


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_the_package_of_a_backend_names_its_modules(backend):
    folder = SOURCE / "storage" / backend
    page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert modules <= set(re.findall(r"`(\w+)`", page))


STORAGE = re.findall(
    r"`([a-z_]+)/?`", PAGE.partition("## Inside `storage`")[2].partition("\n## ")[0]
)


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "storage").rglob("*.py")), ids=lambda path: path.name
)
def test_modules_of_storage_import_only_from_those_before(path):
    steps = path.relative_to(SOURCE / "storage").parts
    if steps == ("__init__.py",):
        return
    here = steps[0].removesuffix(".py")
    before = STORAGE[: STORAGE.index(here) + 1]
    found = {module.split(".")[2] for module in imports(path) if "backstory.storage." in module}
    assert found <= set(before)
