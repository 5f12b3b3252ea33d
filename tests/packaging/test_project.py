"""The files from which the project is published, as far as they can be checked without a network."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_extra_all_has_everything_that_make_chat_has():
    extras = re.search(r"^EXTRAS \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    [everything] = PROJECT["optional-dependencies"]["all"]
    assert set(extras.split(",")) <= set(re.search(r"\[(.+)\]", everything)[1].split(","))


def test_a_plain_install_has_what_the_command_needs():
    names = {re.match(r"[\w.-]+", line)[0] for line in PROJECT["dependencies"]}
    assert {"click", "rich", "platformdirs"} <= names
    assert not {"starlette", "uvicorn"} & names


def test_each_action_is_pinned_to_a_commit():
    for workflow in WORKFLOWS:
        for action in re.findall(r"uses: (\S+)", workflow.read_text()):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action


def test_a_release_publishes_without_a_token_and_not_without_an_address():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    publish = yaml.safe_load(text)["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["if"] == "vars.PUBLISH == 'true'"
    assert "secrets." not in text
    assert "grep -q '^\\[project.urls\\]' pyproject.toml" in text


def test_the_image_runs_as_another_user_than_root_and_compose_publishes_to_this_machine_only():
    last = (ROOT / "Dockerfile").read_text().rpartition("FROM ")[2]
    assert re.search(r"^USER 1000$", last, re.MULTILINE)
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:7357:7357"]
