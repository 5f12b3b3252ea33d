"""What people install: the wheel is built from the sdist, installed into a clean environment, and used."""

import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import backstory
from tests.docs.test_pages import code_of

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def run(*command, cwd=None, code=0):
    """What a command prints, without the options that a developer's environment has."""
    ran = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def pip(*arguments):
    """This environment's pip and its settings: where packages come from is not our business."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel that is made of it: a file that is missing in the first is missed here."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """The programs of a clean environment into which only the wheel was installed."""
    if pip(
        "download", "--no-deps", "--dest", tmp_path_factory.mktemp("probe"), "orjson"
    ).returncode:
        pytest.skip("no package index can be reached")
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    done = pip("--python", folder / "bin" / "python", "install", built[1])
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_the_wheel_has_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"backstory-{backstory.__version__}.dist-info/METADATA").decode()
    assert {name.split("/")[0] for name in names} == {
        "backstory",
        f"backstory-{backstory.__version__}.dist-info",
    }
    source = {
        path.relative_to(ROOT / "src").as_posix() for path in ROOT.glob("src/backstory/**/*.py")
    }
    packed = {f"backstory/storage/sqlite/dictionary.{part}" for part in ("txt", "tables")}
    assert source | packed | {"backstory/py.typed"} <= names
    page = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").glob("**/web/page/**/*.*")
    }
    assert {name for name in names if "/web/page/" in name and ".dist-info" not in name} == page
    licences = {path.name for path in (ROOT / "src").glob("**/*.LICENSE")}
    assert {
        name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name
    } == licences | {"LICENSE"}
    assert f"Version: {backstory.__version__}\n" in metadata
    assert "Provides-Extra: all\n" in metadata


def test_the_files_that_the_image_copies_are_enough_to_build_it(tmp_path):
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for name in " ".join(copied).split():
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", tmp_path)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {f"!{name}" for name in " ".join(copied).split()} <= set(ignored)


def test_the_sdist_has_what_is_needed_to_test_it(built):
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"Makefile", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= names
    assert {"tests/conftest.py", "docs/reference.md", "benchmarks/engine.py"} <= names
    assert not [
        name for name in names if "__pycache__" in name or name.startswith((".venv", "dist"))
    ]


def test_the_wheel_is_installed_and_used_in_a_clean_environment(environment, tmp_path):
    bin = environment
    code = (
        "import backstory; store = backstory.open('history.db'); store.start('main').user('hello');"
        "print(backstory.__version__, len(store.agent('main').conversation().to('openai')['messages']))"
    )
    assert run(bin / "python", "-c", code, cwd=tmp_path) == f"{backstory.__version__} 1\n"
    run(bin / "python", ROOT / "tests" / "smoke.py", cwd=tmp_path)
    for command in ([bin / "backstory"], [bin / "python", "-m", "backstory"]):
        assert backstory.__version__ in run(*command, "--version", cwd=tmp_path)
    run(bin / "backstory", "--store", "history.db", "new", "other", cwd=tmp_path)
    assert "other" in run(bin / "backstory", "--store", "history.db", "agents", cwd=tmp_path)
    missing = run(bin / "backstory", "web", cwd=tmp_path, code=1)
    assert "pip install 'backstory[web]'" in missing
    assert "Traceback" not in missing


PAGES = sorted(path for path in ROOT.glob("docs/*.md") if code_of(path))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_on_a_page_needs_no_extra_that_the_page_does_not_name(
    environment, tmp_path, page
):
    needed = re.search(r"^Needs: (.+)$", page.read_text(), re.MULTILINE)[1]
    if not needed.startswith("nothing else"):
        pytest.skip(f"needs {needed}")
    program = tmp_path / "page.py"
    program.write_text(code_of(page))
    run(environment / "python", program, cwd=tmp_path)
