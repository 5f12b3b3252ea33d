"""The examples of docs/wire.md run as they stand, in their order."""

import re
from pathlib import Path

from backstory.wire import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()


def test_the_examples_run_as_they_stand(capsys):
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(example, "docs/wire.md", "exec"), names)
    printed = capsys.readouterr().out
    promised = re.findall(r"^# (close .*|\d+ True .*)$", PAGE, re.MULTILINE)
    assert len(promised) == 2
    assert all(line in printed for line in promised)


def test_every_format_and_every_rule_is_in_the_page():
    source = "".join(
        path.read_text() for path in Path(__file__).parents[2].glob("src/backstory/wire/**/*.py")
    )
    rules = set(re.findall(r'(?:report|Repair)\(\s*"(\w+)"', source))
    assert len(rules) > 10
    for word in {*rules, *FORMATS}:
        assert f"`{word}`" in PAGE, word
