"""Broken config files: what is wrong, and in which line; the rest counts."""

import pytest

from backstory.chat.config import configuration


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("consent = 3", 1, "[consent] is not a table"),
        (
            '\n[consent]\nallow = ["bash: ls"]\ndeny = [3]',
            4,
            "3 in deny of [consent] is not a rule",
        ),
        ("[consent]\nallowed = []", 2, "[consent] has allowed"),
        (
            'model = "x"\n[params]\ntop_p = 1\ntemprature = 3',
            4,
            "there is no parameter 'temprature'",
        ),
        ("params = 3", 1, "params is 3"),
        (
            '[mcp.a]\ncommand = "x"\n\n[mcp.b]\nurl = 3',
            4,
            "the MCP server 'b' has a value",
        ),
        ('[mcp.a]\ncommand = "x"\ncolour = 3', 3, "the MCP server 'a' has 'colour'"),
        ("[[mcp]]\na = 1", 2, "write a table for each server: [mcp.NAME]"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(tmp_path, text, line, problem):
    file = tmp_path / "chat.toml"
    file.write_text(text)
    [warning] = configuration(tmp_path / "elsewhere", file).warnings
    assert f"{file} (line {line})" in warning
    assert problem in warning


def test_a_file_that_is_not_toml_says_where(tmp_path):
    file = tmp_path / "chat.toml"
    file.write_text('model = "x"\nbase_url = "http\n')
    [warning] = configuration(tmp_path / "elsewhere", file).warnings
    assert "is not TOML and is not used" in warning
    assert "line 2" in warning
