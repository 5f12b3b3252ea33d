"""Makes the two files that the page is served as, of its sources in `src/backstory/web/page`.

    python -m tools.bundle          # after a change of the sources
    python -m tools.bundle --types  # check the types of the sources (JSDoc) with TypeScript's compiler

One script and one style sheet, without templates, comments and blank space, and each compressed beside it:
fewer requests, fewer bytes, and one file can hold the whole page (`backstory export --to html`). Users build
nothing: what is made here is committed, and its first line names the digest of the sources, so that a test
notices when it is stale.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from tools.browser import cache
from tools.npm import Package, node, packed
from tools.templates import compiled

WEB = Path(__file__).parent.parent / "src" / "backstory" / "web"
SOURCES, STATIC = WEB / "page", WEB / "static"
# The programs themselves, for x86-64 Linux.
ESBUILD = Package(
    "@esbuild/linux-x64",
    "0.28.2",
    "sha512-4xTZr1FUmSoQW4XIWmit3tzQrUTZM+N3P0XV8xROKYF50XfI7xeO90+1bZvNwxIufQ9hDQVRJH5YhgPVF8A/HQ==",
)
TERSER = Package(
    "terser",
    "5.51.2",
    "sha512-bWnjSNscmuI+GJze6ZupnHP8G/cTcsJF+bXCeQknk2SHQsgbNJnLrqiH9jZ2W4STPVXH2mDKKRX3iwPhc9Cn/Q==",
)
# Run by node. Not with pure_getters: who reads a signal's value means it.
MINIFY = """
const vm = require("vm"), fs = require("fs");
const place = vm.createContext({ sourceMap: {}, console });
vm.runInContext(fs.readFileSync(process.argv[1], "utf8"), place);
const options = { module: true, ecma: 2022, format: { ecma: 2022 },
  compress: {
    ecma: 2022, passes: 4, inline: 1, unsafe_arrows: true, unsafe_methods: true, keep_fargs: false } };
place.Terser.minify(fs.readFileSync(0, "utf8"), options).then(({ code }) => process.stdout.write(code));
"""
TYPESCRIPT = Package(
    "@typescript/typescript-linux-x64",
    "7.0.2",
    "sha512-EYdf2cNg7rgCWJnxCdJ+F3V39O8ihb37eHAu1LK8oAFizgTQbPOK7zHHXbPt8rX24COqODXeI3sIf0fCXG7H/A==",
)
BLOCKS = (0, 16, 17, 18)  # sizes of Brotli's blocks: which one is best changes with the script
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
    return whole.hexdigest()[:20]


def first_line() -> bytes:
    """What the script begins with."""
    return f"/* tools/bundle.py, {digest()} */\n".encode()


def main() -> None:
    """Write the script and the style sheet."""
    import brotli

    program = _program(ESBUILD, "bin/esbuild")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page"
        shutil.copytree(SOURCES, copy)
        signals = _signals(copy)
        for path in copy.glob("*.js"):
            # Blank space at the beginning of a line means nothing, in templates neither: htm leaves it out.
            source = signals.sub(r"\1.$", "\n".join(map(str.lstrip, path.read_text().split("\n"))))
            path.write_text(compiled(source))
        (copy / "html.js").write_text('export { h as default } from "./components.js";\n')
        for source, name in MADE.items():
            made = _built(program, copy / source)
            if name.endswith(".js"):
                made = first_line() + _smaller(made)
            (STATIC / name).write_bytes(made)
            if name.startswith("page."):
                tries = (brotli.compress(made, lgblock=size) for size in BLOCKS)
                (STATIC / f"{name}.br").write_bytes(min(tries, key=len))


def _signals(folder: Path) -> re.Pattern[str]:
    """Where a signal's value is read or written: the script has a shorter name for it (signals.js). No
    minifier can know that it is not the value of an input."""
    declared = re.compile(r"const (\w+) = (?:signal|computed)\(")
    names = {name for path in folder.glob("*.js") for name in declared.findall(path.read_text())}
    return re.compile(rf"(?<!\w)(?<!\w\.)((?:state\.)?(?:{'|'.join(sorted(names))}))\.value\b")


def _built(program: Path, source: Path) -> bytes:
    options = [
        "--minify-syntax",
        "--minify-whitespace",
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


def _smaller(script: bytes) -> bytes:
    """What esbuild has bundled, looked at more closely."""
    minifier = _program(TERSER, "dist/bundle.min.js")
    ran = subprocess.run(
        [node(), "-e", MINIFY, minifier], input=script, capture_output=True, check=False
    )
    if ran.returncode or not ran.stdout:
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
        ran = subprocess.run(
            [program, "-p", config], capture_output=True, text=True, check=False, cwd=WEB
        )
    found = [
        line
        for line in ran.stdout.splitlines()
        if "error TS" in line and "page/vendor/" not in line
    ]
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
