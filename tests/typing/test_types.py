"""What a user's type checker sees of the public names: mypy --strict over small programs.

A line that must be an error has `type: ignore` with its code: mypy reports one that is not needed.
"""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.slow
def test_programs_have_the_types_that_they_say_and_the_errors_that_they_should(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path}",
    ]
    programs = sorted(map(str, PROGRAMS.glob("*.py")))
    ran = subprocess.run(
        [*command, *programs], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout == f"Success: no issues found in {len(programs)} source files\n"
