"""Rules of consent: what fits, and what wins."""

import pytest

import backstory
from backstory.chat.rules import Rule, Rules, rules_of, suggested

RULES = rules_of(
    {
        "allow": ["bash: git status", "bash: git push", "bash: ls", "write_file: docs/*", "glance"],
        "ask": ["bash: git push"],
        "deny": ["bash: rm", "edit_file: .env", "bash: git push --force"],
    }
)


@pytest.mark.parametrize(
    ("tool", "arguments", "verdict"),
    [
        ("bash", {"command": "git status"}, "allow"),
        ("bash", {"command": "git status --short"}, "allow"),
        ("bash", {"command": "git stash"}, None),
        ("bash", {"command": "git status; touch x"}, None),
        ("bash", {"command": "git status && rm x"}, "deny"),
        ("bash", {"command": "ls $(rm x)"}, "deny"),
        ("bash", {"command": "ls `rm x`"}, "deny"),
        ("bash", {"command": "ls > x"}, None),
        ("bash", {"command": "lsof"}, None),
        ("bash", {"command": "git push"}, "ask"),
        ("bash", {"command": "git push --force origin"}, "deny"),
        ("bash", {"command": "A=1 sudo /bin/rm -rf /"}, "deny"),
        ("bash", {"command": "rmdir x"}, None),
        ("write_file", {"path": "docs/a.md", "content": ""}, "allow"),
        ("write_file", {"path": "docs/../secret", "content": ""}, None),
        ("write_file", {"path": "./docs/a.md", "content": ""}, "allow"),
        ("edit_file", {"path": "./.env", "old": "a", "new": "b"}, "deny"),
        ("edit_file", {"path": "docs/a.md", "old": "a", "new": "b"}, None),
        ("glance", {}, "allow"),
        ("unknown", {"x": 1}, None),
    ],
)
def test_which_rule_decides(tool, arguments, verdict):
    found = RULES.decide(tool, arguments)
    assert (found and found[0]) == verdict


@pytest.mark.parametrize(
    ("tool", "arguments", "rule"),
    [
        ("bash", {"command": "git status --short"}, "bash: git status"),
        ("bash", {"command": "git -C x status"}, "bash: git"),
        ("bash", {"command": "pytest -q tests"}, "bash: pytest"),
        ("bash", {"command": "make test"}, "bash: make test"),
        ("bash", {"command": "python -c 'x'"}, None),
        ("bash", {"command": "ls; rm x"}, None),
        ("bash", {"command": "sudo ls"}, None),
        ("write_file", {"path": "a/b.py", "content": "x"}, "write_file: a/b.py"),
        ("other", {"x": "y"}, None),
    ],
)
def test_which_rule_is_suggested_and_that_it_allows_the_call(tool, arguments, rule):
    found = suggested(tool, arguments)
    assert (found and str(found)) == rule
    if found:
        assert Rules(allow=(found,)).decide(tool, arguments) == ("allow", found)


def test_a_suggested_file_is_that_file_only():
    found = suggested("write_file", {"path": "a[1].*"})
    assert found is not None
    rules = Rules(allow=(found,))
    assert rules.decide("write_file", {"path": "a[1].*"})
    assert not rules.decide("write_file", {"path": "a1.py"})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([], "not a table"),
        ({"allowed": []}, "has allowed: it takes allow, ask, deny"),
        ({"deny": "bash"}, "deny of [consent] is not a list"),
        ({"ask": [3]}, "3 in ask of [consent] is not a rule"),
        ({"ask": [": rm"]}, "is not a rule"),
    ],
)
def test_a_table_that_is_wrong_says_what_is_wrong(table, says):
    with pytest.raises(backstory.Invalid) as caught:
        rules_of(table)
    assert says in str(caught.value)


def test_rules_of_two_files_are_one():
    assert Rules(deny=(Rule("bash"),)) | Rules(allow=(Rule("x"),)) == Rules(
        (Rule("x"),), (), (Rule("bash"),)
    )
