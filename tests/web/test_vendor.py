"""The libraries are those that were pinned, with their licences; our files name no other address."""

import hashlib
import json
import re
from importlib.resources import files

from backstory.web.document import LIBRARIES, load_files
from tools.vendor import VENDORED

PAGE = files("backstory.web") / "page"
VENDOR = PAGE / "vendor"
# Names of languages, which the browser knows and never fetches.
NAMESPACES = {
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/1999/xhtml",
}
IMPORT = re.compile(r"""\bfrom ?["']([@\w/.-]+)["'];""")


def test_every_file_has_the_digest_that_was_written_down():
    listed = json.loads((VENDOR / "vendor.json").read_text())
    assert {one["file"] for one in listed} == {
        file.name for file in VENDOR.iterdir() if file.name != "vendor.json"
    }
    for one in listed:
        assert hashlib.sha256((VENDOR / one["file"]).read_bytes()).hexdigest() == one["sha256"]


def test_every_file_is_of_a_pinned_package_with_its_licence():
    listed = json.loads((VENDOR / "vendor.json").read_text())
    pinned = {package.name: package for package in VENDORED}
    for one in listed:
        package = pinned[one["name"]]
        assert (one["version"], one["sha512"]) == (package.version, package.sha512)
    with_licence = {one["name"] for one in listed if one["file"].endswith(".LICENSE")}
    assert with_licence == set(pinned)


def test_every_import_by_name_is_in_the_import_map():
    for path, file in load_files().items():
        if not path.endswith(".js"):
            continue
        for name in IMPORT.findall(file.content.decode()):
            if name.startswith("page/"):
                assert name.removeprefix("page/") in load_files(), (path, name)
            else:
                assert name in LIBRARIES, (path, name)


def test_no_file_names_an_address_of_anyone_else():
    for path, file in load_files().items():
        assert set(re.findall(r"https?://[\w./-]+", file.content.decode())) <= NAMESPACES, path


def test_nothing_writes_markup():
    """The policy refuses it as well; here it is seen without a browser."""
    for path, file in load_files().items():
        if path.endswith(".js") and not path.startswith("vendor/"):
            markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\("
            assert not re.search(markup, file.content.decode()), path
