"""What a user's type checker sees of the adapters, with the real frameworks beside them."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "adapters.py"


def check(*command, folder):
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    return ran.stdout + ran.stderr


def test_mypy_accepts_the_adapters_where_their_frameworks_ask_for_them(tmp_path):
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path}"]
    found = check("mypy", *options, str(PROGRAM), folder=tmp_path)
    assert found == "Success: no issues found in 1 source file\n"


def test_pyright_accepts_the_adapters_where_their_frameworks_ask_for_them(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.read_text())
    settings = {"typeCheckingMode": "standard", "reportUnnecessaryTypeIgnoreComment": "error"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    options = ["--pythonpath", sys.executable, "program.py"]
    found = check("basedpyright", *options, folder=tmp_path)
    assert "0 errors, 0 warnings" in found
