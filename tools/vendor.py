"""Bring the page's libraries into the package, as npm published them, pinned and checked."""

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent.parent / "src" / "backstory" / "web" / "page" / "vendor"


class Package(NamedTuple):
    """One release of a package. `sha512` is the digest of its archive, in base64."""

    name: str
    version: str
    license: str
    sha512: str


PREACT = "/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg=="
SIGNALS = "Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw=="
CORE = "vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg=="
HTM = "983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ=="
VENDORED = {  # the files of each package, and their names here
    Package("preact", "11.2.0", "MIT", PREACT): "dist/preact.mjs hooks/dist/hooks.mjs LICENSE",
    Package("@preact/signals", "2.11.4", "MIT", SIGNALS): "dist/signals.mjs LICENSE",
    Package("@preact/signals-core", "1.14.5", "MIT", CORE): "dist/signals-core.mjs LICENSE",
    Package("htm", "3.1.1", "Apache-2.0", HTM): "dist/htm.mjs LICENSE",
}


def fetch_package(package: Package) -> tarfile.TarFile:
    """Return the archive of `package`. Raises RuntimeError if it is not the one that was pinned."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        content = next(Path(folder).glob("*.tgz")).read_bytes()
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != package.sha512:
        raise RuntimeError(f"{package.name} {package.version} is not the release that was pinned")
    return tarfile.open(fileobj=io.BytesIO(content))


def main() -> None:
    """Write the files, and `vendor.json`, which says what each of them is."""
    records = []
    for package, sources in VENDORED.items():
        with fetch_package(package) as archive:
            for source in sources.split():
                content = archive.extractfile(f"package/{source}").read()  # type: ignore[union-attr]
                name = Path(source).name.replace(".mjs", ".js")
                name = name.replace("LICENSE", f"{Path(package.name).name}.LICENSE")
                (FOLDER / name).write_bytes(content)
                digest = hashlib.sha256(content).hexdigest()
                records.append({"file": name, **package._asdict(), "sha256": digest})
    (FOLDER / "vendor.json").write_text(json.dumps(records, indent=2) + "\n")


if __name__ == "__main__":
    main()
