"""What was vendored is what was pinned, with its licence, and names no address of anyone else."""

import hashlib
import json
import re
from importlib.resources import files

import brotli

from tools.bundle import first_line
from tools.vendor import VENDORED

STATIC = files("backstory.web") / "static"
SCRIPTS = {"page.js", "file.js"}
SHIPPED = ("page.js", "page.css")
SOURCES = files("backstory.web") / "page"
VENDOR = SOURCES / "vendor"
# Names of languages, which the browser knows and never fetches.
NAMESPACES = {
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/1999/xhtml",
}


def test_every_file_has_the_digest_that_was_written_down():
    listed = json.loads((VENDOR / "vendor.json").read_text())
    assert {one["file"] for one in listed} == {
        file.name for file in VENDOR.iterdir() if file.name != "vendor.json"
    }
    for one in listed:
        assert hashlib.sha256((VENDOR / one["file"]).read_bytes()).hexdigest() == one["sha256"], (
            one["file"]
        )


def test_every_file_is_of_a_pinned_package_with_its_licence():
    pinned = {name: one for one in VENDORED for name in one.files.values()}
    for one in json.loads((VENDOR / "vendor.json").read_text()):
        package = pinned[one["file"]].package
        assert (one["package"], one["version"], one["integrity"]) == package
    assert all(any(name.endswith(".LICENSE") for name in one.files.values()) for one in VENDORED)


def all_files(*folders):
    for folder in folders:
        for entry in folder.iterdir():
            yield from all_files(entry) if entry.is_dir() else [entry]


def test_the_served_script_is_made_of_these_sources():
    for name in SCRIPTS:
        assert (STATIC / name).read_bytes().startswith(first_line()), "run python -m tools.bundle"
    packed = {f"{name}.br" for name in SHIPPED}
    assert {file.name for file in STATIC.iterdir()} == {
        *SCRIPTS,
        *packed,
        "index.html",
        "icon.svg",
        "page.css",
    }
    for name in SHIPPED:
        assert (
            brotli.decompress((STATIC / f"{name}.br").read_bytes()) == (STATIC / name).read_bytes()
        )


def test_script_and_style_are_90_kilobytes_and_30_compressed():
    assert sum(len((STATIC / name).read_bytes()) for name in SHIPPED) <= 90_000
    assert sum(len((STATIC / f"{name}.br").read_bytes()) for name in SHIPPED) <= 30_000


def test_no_file_names_an_address_of_anyone_else_or_an_import_by_name():
    for file in all_files(STATIC, SOURCES):
        if file.name.endswith((".LICENSE", ".json", ".br")):
            continue
        text = file.read_text()
        assert set(re.findall(r"https?://[\w./-]+", text)) <= NAMESPACES, file.name
        assert "sourceMappingURL" not in text
        imports = (
            r"""\bimport\b\s*[("'{*]"""
            if file.name in SCRIPTS
            else r"""\bfrom\s*["'](?![./])[@\w/-]+["'];"""
        )
        assert not re.findall(imports, text), file.name


def test_nothing_writes_markup():
    """The policy refuses it as well; here it is seen without a browser."""
    for file in all_files(SOURCES):
        if file.name.endswith(".js") and "vendor" not in str(file):
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", file.read_text()
            )
