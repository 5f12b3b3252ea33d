"""Every function in a statement for PostgreSQL is named with its schema: no search path can change it."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import backstory.storage.postgres

MODULES = sorted(Path(backstory.storage.postgres.__path__[0]).glob("[a-z]*.py"))
# Lists of columns have a space before them, and a schema has a dot behind it (a range of numbers has two).
CALL = re.compile(r"(?<!\w)(?<!\w\.)([a-z_][a-z_0-9]*)\(")
# These look like calls and are part of the language: no schema has them.
SYNTAX = {"coalesce", "greatest", "least", "nullif", "bit"}
# Run once, by whoever makes the store, and only where the extension is installed: it says in which schema.
OF_CITUS = {
    *("create_distributed_table", "create_reference_table", "create_distributed_function"),
    *("citus_total_relation_size", "relation_is_a_known_shard"),
    "truncate_local_data_after_distributing_table",
}


def statements(path):
    """Yield the statements of a module: its constants, those of its classes, and those in its
    functions."""
    module = importlib.import_module(f"backstory.storage.postgres.{path.stem}")
    for owner in (module, *filter(inspect.isclass, vars(module).values())):
        for name, value in vars(owner).items():
            if name.isupper() and not isinstance(value, frozenset):
                yield str(value)
    literals = (
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
    )
    yield from (text for text in literals if isinstance(text, str) and text.startswith("SELECT"))


def calls(path):
    """The names that are called without a schema."""
    for text in statements(path):
        said = re.sub(r"--.*|'[^']*'", "", text)
        yield from (name for name in CALL.findall(said) if name not in SYNTAX | OF_CITUS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_function_is_called_without_its_schema(path):
    assert sorted(set(calls(path))) == []
