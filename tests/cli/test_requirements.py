"""Where packages are missing, one message names all of them, and one command that installs them."""

import subprocess
import sys

import pytest

from tests.chat.screen import environment

ALL = ("prompt_toolkit", "openai", "anthropic", "xllamacpp")


def run(tmp_path, missing, *arguments):
    code = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
    code += f"sys.argv = {['backstory', *arguments]!r}\nfrom backstory.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("missing", "arguments", "names", "extra"),
    [
        (("xllamacpp",), ["ask", "Hello"], "xllamacpp", "embedded"),
        (("starlette",), ["web"], "starlette", "web"),
        (("starlette", "uvicorn"), ["web"], "starlette, uvicorn", "web"),
        (("openai",), ["ask", "Hello", "--model", "gpt-5"], "openai", "openai"),
        (("anthropic",), ["ask", "Hello", "--model", "claude-x"], "anthropic", "anthropic"),
    ],
)
def test_one_message_names_everything_that_is_missing(tmp_path, missing, arguments, names, extra):
    ran = run(tmp_path, missing, *arguments)
    assert (ran.returncode, ran.stdout) == (1, "")
    [line] = ran.stderr.splitlines()
    assert line.endswith(
        f"needs packages that are not installed ({names}): run pip install 'backstory[{extra}]'"
    )


def test_version_needs_no_package(tmp_path):
    assert run(tmp_path, ALL, "--version").returncode == 0
