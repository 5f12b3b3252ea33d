"""Check names and functions of the source by rules that ruff and mypy do not have.

A package or root module in PENDING is exempt until it is rewritten: its last commit removes it from
PENDING and from the E501 lines in pyproject.toml. Class names are compared among packages that have
joined, so the first one takes the name. `python -m tests.test_style` counts violations by package.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "backstory"

PENDING: set[str] = set()

MAX_COMPLEXITY = 10
# "module.py:function" and the reason for which the function is clearest in one piece.
ALLOWED_COMPLEXITY: dict[str, str] = {}
# The name of a function and the reason for which it is the field's own word.
ALLOWED_PARTICIPLES: dict[str, str] = {
    "seen": "a public method of intakes, named in the specification",
    "born_seq": "a public attribute of agents",
    "listed_head": "a public attribute of agents",
    "spawned": "a public attribute of agents",
    "closed": "a property of the standard library's files and connections",
    "created_at": "a time, as databases name it",
    "updated_at": "a time, as databases name it",
    "removed_at": "a time, as databases name it",
    "updated_us": "a column of the agents",
    "deleted_at": "a time, as databases name it",
}
# Public names of the standard library that begin with an underscore.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_getframe", "_make", "_replace", "_thread"}

IRREGULAR_PARTICIPLES = """
    begun born bought bound broken brought built caught chosen dealt done drawn driven fallen felt
    forgotten found frozen given gone grown heard held hidden kept known laid left lost made meant
    met paid said seen sent shown spent spoken stood stuck swept taken thought thrown told
    understood withdrawn won written
""".split()  # noqa: SIM905 - a line of words is easier to read than a list
# Verbs and nouns that end like a participle.
NOT_PARTICIPLES = {
    "breed",
    "embed",
    "exceed",
    "feed",
    "need",
    "proceed",
    "seed",
    "speed",
    "unanswered",  # an adjective: the messages that nobody answered
    "succeed",
}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
BRANCHES = (*LOOPS, ast.If, ast.IfExp, ast.ExceptHandler, ast.match_case, ast.Assert)


class Module:
    """The syntax tree of one source file."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name  # below src/backstory, such as "storage/memory.py"
        self.package = name.split("/")[0].removesuffix(".py")
        self.nodes = list(ast.walk(ast.parse(text)))

    def find(self, *types: type) -> list:
        """Return all nodes of one of these types."""
        return [node for node in self.nodes if isinstance(node, types)]


class Violation(NamedTuple):
    """A place where a rule is broken."""

    module: Module
    line: int
    problem: str


def find_shared_class_names(modules: list[Module]) -> Iterator[Violation]:
    """Yield each class that shares its name with another one; leading underscores do not count."""
    classes = defaultdict(list)
    for module in modules:
        for node in module.find(ast.ClassDef):
            violation = Violation(module, node.lineno, f"class {node.name}")
            classes[node.name.lstrip("_")].append(violation)
    for found in classes.values():
        if len(found) > 1:
            yield from found


def find_participle_names(modules: list[Module]) -> Iterator[Violation]:
    """Yield each function whose name begins with a participle, such as `kept` or `checked_name`."""
    for module in modules:
        for node in module.find(*FUNCTIONS):
            name = node.name.strip("_")
            if is_participle(name.split("_")[0]) and name not in ALLOWED_PARTICIPLES:
                yield Violation(module, node.lineno, f"def {node.name}")


def is_participle(word: str) -> bool:
    if word in NOT_PARTICIPLES:
        return False
    return word in IRREGULAR_PARTICIPLES or word.endswith("ed")


def find_complex_functions(
    modules: list[Module], allowed: Container[str] = frozenset(ALLOWED_COMPLEXITY)
) -> Iterator[Violation]:
    """Yield each function whose complexity is greater than MAX_COMPLEXITY."""
    for module in modules:
        for node in module.find(*FUNCTIONS):
            complexity = count_branches(node)
            is_allowed = f"{module.name}:{node.name}" in allowed
            if complexity > MAX_COMPLEXITY and not is_allowed:
                problem = f"{node.name} has complexity {complexity}"
                yield Violation(module, node.lineno, problem)


def count_branches(function: ast.AST) -> int:
    """Return the cyclomatic complexity of `function`. Each `and` and `or` counts."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


def find_private_imports(modules: list[Module]) -> Iterator[Violation]:
    """Yield each import of a private module or name of another package."""
    for module in modules:
        for node in module.find(ast.Import, ast.ImportFrom):
            if any(
                is_foreign(path, module) and has_private_step(path) for path in list_paths(node)
            ):
                yield Violation(module, node.lineno, ast.unparse(node))


def list_paths(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the dotted path of each imported name, such as "backstory.log.events.Event"."""
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        return names
    return [f"{node.module}.{name}" for name in names]


def is_foreign(path: str, module: Module) -> bool:
    own = f"backstory.{module.package}"
    return path != own and not path.startswith(f"{own}.")


def has_private_step(path: str) -> bool:
    return any(is_private(step) for step in path.split("."))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in DOCUMENTED


def find_private_attributes(modules: list[Module]) -> Iterator[Violation]:
    """Yield each use of a private attribute that the module itself does not define."""
    for module in modules:
        defined = list_defined_names(module)
        for node in module.find(ast.Attribute):
            is_own = is_own_object(node.value) or node.attr in defined
            if is_private(node.attr) and not is_own:
                yield Violation(module, node.lineno, ast.unparse(node))


def list_defined_names(module: Module) -> set[str]:
    """Return the names of functions, classes, variables and attributes that `module` defines."""
    names = {node.name for node in module.find(*FUNCTIONS, ast.ClassDef)}
    for node in module.find(ast.Name):
        if isinstance(node.ctx, ast.Store):
            names.add(node.id)
    for node in module.find(ast.Attribute):
        # An assignment to the attribute of another object does not make it ours.
        if isinstance(node.ctx, ast.Store) and is_own_object(node.value):
            names.add(node.attr)
    return names


def is_own_object(node: ast.expr) -> bool:
    return ast.unparse(node) in ("self", "cls", "super()")


RULES = [
    find_shared_class_names,
    find_participle_names,
    find_complex_functions,
    find_private_imports,
    find_private_attributes,
]


def read_modules() -> list[Module]:
    """Return all modules of the package."""
    modules = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        modules.append(Module(name, path.read_text(encoding="utf-8")))
    return modules


def describe_violations(violations: Iterator[Violation]) -> list[str]:
    """Return one line for each violation, in the order of the files."""
    ordered = sorted(violations, key=lambda violation: (violation.module.name, violation.line))
    return [f"{module.name}:{line} {problem}" for module, line, problem in ordered]


MODULES = read_modules()


@pytest.mark.parametrize("find", RULES)
def test_rewritten_packages_follow_the_rule(find):
    joined = [module for module in MODULES if module.package not in PENDING]
    found = describe_violations(find(joined))
    assert not found, "\n" + "\n".join(found)


def test_pending_packages_exist():
    assert {module.package for module in MODULES} >= PENDING


def test_exceptions_are_few_and_needed():
    assert len(ALLOWED_COMPLEXITY) <= 20
    assert len(ALLOWED_PARTICIPLES) <= 10
    found = find_complex_functions(MODULES, allowed=())
    needed = {f"{module.name}:{problem.split()[0]}" for module, _, problem in found}
    assert ALLOWED_COMPLEXITY.keys() <= needed


ELEVEN = "def decide(a):\n    return " + " or ".join(["a"] * 11)
TEN = "def decide(a):\n    return " + " or ".join(["a"] * 10)
BRANCHED = """
def decide(values):
    for value in values:
        while value:
            value = 1 if value else 2
    try:
        assert values
    except ValueError:
        pass
    if [one for one in values] and values:
        match values:
            case 1: pass
            case 2: pass
"""
OWN_ATTRIBUTES = """
class Stack:
    _limit = 3
    _size: int = 0
    def __init__(self): self._items = []
    def _pop(self): return super()._pop()
def use(stack): stack._limit, stack._size, stack._items, stack._pop()
def copy(stack): stack._replace(), stack.__doc__
"""

# A rule, the sources of modules by name, and the problems that the rule finds in them.
EXAMPLES = [
    (
        find_shared_class_names,
        {"log/a.py": "class Row: pass", "web/b.py": "class _Row: pass\nclass Column: pass"},
        ["log/a.py:1 class Row", "web/b.py:1 class _Row"],
    ),
    (
        find_shared_class_names,
        {"log/a.py": "class Row: pass\ndef f():\n    class Row: pass"},
        ["log/a.py:1 class Row", "log/a.py:3 class Row"],
    ),
    (
        find_participle_names,
        {"a.py": "def told(): pass\nasync def _checked_name(): pass\ndef closed(): pass"},
        ["a.py:1 def told", "a.py:2 def _checked_name"],
    ),
    (
        find_participle_names,
        {"a.py": "class Row:\n    def kept(self): pass\n    def feed(self): pass"},
        ["a.py:2 def kept"],
    ),
    (
        find_participle_names,
        {"a.py": "def need(): pass\ndef find_kept(): pass\ndef read(): pass"},
        [],
    ),
    (find_complex_functions, {"a.py": ELEVEN}, ["a.py:1 decide has complexity 11"]),
    (find_complex_functions, {"a.py": TEN}, []),
    (find_complex_functions, {"a.py": BRANCHED}, ["a.py:2 decide has complexity 11"]),
    (
        find_private_imports,
        {
            "web/a.py": (
                "from backstory.log.events import Event, _Row\n"
                "from backstory.log._rows import Row\n"
                "import backstory._rows\n"
                "from json import _default_encoder"
            )
        },
        [
            "web/a.py:1 from backstory.log.events import Event, _Row",
            "web/a.py:2 from backstory.log._rows import Row",
            "web/a.py:3 import backstory._rows",
            "web/a.py:4 from json import _default_encoder",
        ],
    ),
    (
        find_private_imports,
        {"web/a.py": "from backstory.web._rows import _Row\nfrom backstory import __version__"},
        [],
    ),
    (
        find_private_imports,
        {"web.py": "from backstory.website import _Row"},
        ["web.py:1 from backstory.website import _Row"],
    ),
    (
        find_private_attributes,
        {"log/a.py": OWN_ATTRIBUTES, "web/b.py": "stack._limit + self._limit\nstack._items = []"},
        ["web/b.py:1 stack._limit", "web/b.py:2 stack._items"],
    ),
    (find_private_attributes, {"log/a.py": OWN_ATTRIBUTES}, []),
]


@pytest.mark.parametrize(("find", "sources", "expected"), EXAMPLES)
def test_rule_finds_exactly_the_violations_of_the_example(find, sources, expected):
    modules = [Module(name, text) for name, text in sources.items()]
    assert describe_violations(find(modules)) == expected


def test_allowed_functions_are_not_reported():
    modules = [Module("a.py", ELEVEN), Module("b.py", ELEVEN)]
    found = find_complex_functions(modules, allowed={"a.py:decide"})
    assert describe_violations(found) == ["b.py:1 decide has complexity 11"]


def print_counts() -> None:
    """Print how often each package breaks each rule, pending packages included."""
    for find in RULES:
        counts = Counter(violation.module.package for violation in find(MODULES))
        packages = ", ".join(f"{package} {count}" for package, count in counts.most_common())
        print(f"{find.__name__.removeprefix('find_'):20}{counts.total():5}  {packages}")


if __name__ == "__main__":
    print_counts()
