"""Makes the two files that the page is served as, of its sources in `src/backstory/web/page`.

    python -m tools.bundle          # after a change of the sources
    python -m tools.bundle --types  # check the types of the sources (JSDoc) with TypeScript's compiler

One script and one style sheet, without comments and blank space: fewer requests, fewer bytes, and one file
can hold the whole page (`backstory export --to html`). Users build nothing: what is made here is
committed, and its first line names the digest of the sources, so that a test notices when it is stale.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from tools.browser import cache
from tools.npm import Package, packed

WEB = Path(__file__).parent.parent / "src" / "backstory" / "web"
SOURCES, STATIC = WEB / "page", WEB / "static"
# The programs themselves, for x86-64 Linux: no node is needed to run them.
ESBUILD = Package(
    "@esbuild/linux-x64",
    "0.28.2",
    "sha512-4xTZr1FUmSoQW4XIWmit3tzQrUTZM+N3P0XV8xROKYF50XfI7xeO90+1bZvNwxIufQ9hDQVRJH5YhgPVF8A/HQ==",
)
TYPESCRIPT = Package(
    "@typescript/typescript-linux-x64",
    "7.0.2",
    "sha512-EYdf2cNg7rgCWJnxCdJ+F3V39O8ihb37eHAu1LK8oAFizgTQbPOK7zHHXbPt8rX24COqODXeI3sIf0fCXG7H/A==",
)
MADE = {"main.js": "page.js", "offline.js": "file.js", "style.css": "page.css"}
TYPES = {
    "compilerOptions": {
        "checkJs": True,
        "noEmit": True,
        "target": "es2023",
        "module": "es2022",
        "moduleResolution": "bundler",
        "lib": ["es2023", "dom", "dom.iterable"],
        "types": [],
        "strict": False,
    },
    "include": [f"{SOURCES}/*.js"],
}


def digest() -> str:
    """What the sources are, in one number."""
    files = sorted(path for path in SOURCES.rglob("*") if path.suffix in (".js", ".css"))
    whole = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        whole.update(f"{path.relative_to(SOURCES).as_posix()} {len(content)}\n".encode() + content)
    return whole.hexdigest()


def first_line() -> bytes:
    """What the script begins with."""
    return f"/* Made by tools/bundle.py of sources with the digest {digest()} */\n".encode()


def main() -> None:
    """Write the script and the style sheet."""
    program = _program(ESBUILD, "bin/esbuild")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page"
        shutil.copytree(SOURCES, copy)
        for path in copy.glob("*.js"):
            # Blank space at the beginning of a line means nothing, in templates neither: htm leaves it out.
            path.write_text("\n".join(map(str.lstrip, path.read_text().split("\n"))))
        for source, name in MADE.items():
            made = _built(program, copy / source)
            (STATIC / name).write_bytes(first_line() + made if name.endswith(".js") else made)


def _built(program: Path, source: Path) -> bytes:
    options = [
        "--minify",
        "--target=es2022",
        "--legal-comments=none",
        "--charset=utf8",
        "--log-level=warning",
    ]
    bundle = ["--bundle", "--format=esm"] if source.suffix == ".js" else []
    ran = subprocess.run([program, source, *bundle, *options], capture_output=True, check=False)
    if ran.returncode:
        raise SystemExit(ran.stderr.decode())
    return ran.stdout


def types() -> int:
    """What the compiler finds in our own files; the libraries are not ours to type."""
    if not shutil.which("npm") or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("The scripts of the page were not checked: that needs npm and x86-64 Linux.")
        return 0
    try:
        program = _program(TYPESCRIPT, "lib/tsc")
    except RuntimeError as error:
        print(f"The scripts of the page were not checked: {error}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "tsconfig.json"
        config.write_text(json.dumps(TYPES))
        ran = subprocess.run([program, "-p", config], capture_output=True, text=True, check=False, cwd=WEB)
    found = [line for line in ran.stdout.splitlines() if "error TS" in line and "page/vendor/" not in line]
    print("\n".join(found) or "The scripts of the page have no errors of type.")
    return bool(found) or (ran.returncode != 0 and "error TS" not in ran.stdout)


def _program(package: Package, name: str) -> Path:
    """A program of a package, brought once into the cache folder."""
    folder = cache() / f"{package.name.rpartition('/')[2]}-{package.version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made, packed(package) as archive:
            # Not as an argument: Python 3.11.2 has no filters yet, and 3.12 warns without one.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(made)
            (Path(made) / "package" / name).chmod(0o755)
            with suppress(OSError):  # someone else was first
                os.rename(Path(made) / "package", folder)
    return folder / name


if __name__ == "__main__":
    if "--types" in sys.argv:
        sys.exit(types())
    main()
