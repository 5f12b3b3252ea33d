"""Where a store is: what an address stands for, and that no password is ever shown."""

import os

import pytest

import backstory
from backstory.storage.address import Address, Database, parse_address, without_password
from backstory.storage.postgres.server import split_prepare

OPENED = {
    ":memory:": Address(Database.MEMORY, ":memory:"),
    "sqlite:///:memory:": Address(Database.MEMORY, ":memory:"),
    "history.db": Address(Database.SQLITE, "history.db"),
    "sqlite:///history.db": Address(Database.SQLITE, "history.db"),
    "sqlite:////var/history.db": Address(Database.SQLITE, "/var/history.db"),
    "~/history.db": Address(Database.SQLITE, os.path.expanduser("~/history.db")),
    "./ann:b@home/history.db": Address(Database.SQLITE, "./ann:b@home/history.db"),
    "C:/ann@home/history.db": Address(Database.SQLITE, "C:/ann@home/history.db"),
    "C:\\ann@home\\history.db": Address(Database.SQLITE, "C:\\ann@home\\history.db"),
    "dir/a:b@c": Address(Database.SQLITE, "dir/a:b@c"),
    "my password=1.db": Address(Database.SQLITE, "my password=1.db"),
    "year=2026/user=5/x.db": Address(Database.SQLITE, "year=2026/user=5/x.db"),
    "postgres/history.db": Address(Database.SQLITE, "postgres/history.db"),
    "./pass=1.db": Address(Database.SQLITE, "./pass=1.db"),
    "/data/what?pass=1.db": Address(Database.SQLITE, "/data/what?pass=1.db"),
    "notes@home.db": Address(Database.SQLITE, "notes@home.db"),
    "postgres://h/x": Address(Database.POSTGRES, "postgres://h/x"),
    "postgresql://ann:hunter2@h/x": Address(Database.POSTGRES, "postgresql://ann:hunter2@h/x"),
}


@pytest.mark.parametrize("url", OPENED)
def test_an_address_names_a_database_and_its_location(url):
    assert parse_address(url) == OPENED[url]


MISTYPED = [
    "postgrsql://ann:hunter2@h/x",
    "postgresql:ann:hunter2@h/x",
    "postgresql:/ann:hunter2@h/x",
    "PostgreSQL://ann:hunter2@h/x",
    "ann:hunter2@h/x",
    "mysql://ann:hunter2@h/x",
    "mysql://ann:hunter2/@h/x",
    "mysql://ann:@hunter2@h/x",
    "mysql://ann:?hunter2@h/x",
    "mysql://h/x?user=ann&password=hunter2",
    "host=h user=ann password=hunter2",
    "password = 'hunter2' host=h",
    "sqlite:///postgresql://ann:hunter2@h/x",
    " postgresql://ann:hunter2@h/x",
    "'postgresql://ann:hunter2@h/x'",
    "DATABASE_URL=postgresql://ann:hunter2@h/x",
    "psql postgresql://ann:hunter2@h/x",
    "jdbc:postgresql://h/x?user=ann&password=hunter2",
    "postgresql//ann:hunter2@h/x",
    "//ann:hunter2@h/x",
    "ann:/hunter2@h/x",
    "ann:x//hunter2@h/x",
    "sqlite://ann:/hunter2@h/x",
    "application_name=me password=x hunter2",
    "options='-c a=/b' password=hunter2",
    "pass=hunter2 host=h",
    "host=h user=ann pass=hunter2",
    "h/x?user=ann&password=hunter2",
    "me@corp:hunter2@h/x",
    "me@corp:x/hunter2@h/x",
    "postgres:me@corp:hunter2@h/x",
    "mysql://me@corp:hunter2@h/x",
    "mysql://ann:hunter2%40h/x",
    "mysql://h/x?password=1&hunter2=3",
    "postgresql//me@corp:hunter2@h/x.db",
    "sqlite:///x.db?password=hunter2",
    "ann:1/hunter2@h/x.db",
    "a:1/hunter2@h/x.db",
    ":1/hunter2@h/x.db",
    "10:30/hunter2@h/x",
    "10:30/hunter2@h/x.db",
    "notes: a/hunter2@h.db",
    "postgresql//ann:1/hunter2@h/x.db",
]


@pytest.mark.parametrize("url", MISTYPED)
def test_the_password_in_an_address_with_a_typing_error_is_not_shown(url):
    with pytest.raises(
        backstory.CannotOpen, match=r"is not a store: give the path of a file"
    ) as caught:
        backstory.open(url)
    assert "hunter2" not in str(caught.value)


def test_the_error_for_a_refused_name_shows_no_password():
    with pytest.raises(backstory.CannotOpen) as caught:
        backstory.open("10:30@home.db")
    assert caught.value.message == "'10:…' is not a store"
    assert "./NAME if the name looks like an address" in str(caught.value)
    assert "postgresql://user:password@host:port/database" in str(caught.value)
    assert parse_address("./10:30@home.db") == Address(Database.SQLITE, "./10:30@home.db")


@pytest.mark.parametrize(
    "url", ["sqlite:///history.db?mode=ro", "sqlite:////var/history.db?timeout=5"]
)
def test_options_of_a_url_of_sqlite_are_refused_not_taken_for_the_name_of_a_file(url):
    with pytest.raises(backstory.CannotOpen, match="takes no options"):
        parse_address(url)


def test_a_file_whose_name_has_a_question_mark_is_given_by_its_path():
    assert parse_address("./what?.db") == Address(Database.SQLITE, "./what?.db")


SHOWN = {
    "postgresql://ann:hunter2@h:5432/x": "postgresql://ann@h:5432/x",
    "postgresql://ann@h/x": "postgresql://ann@h/x",
    "postgresql://:hunter2@/x?host=/run/pg": "postgresql://@/x?host=/run/pg",
    "postgresql://ann:hunter2@h/x?application_name=me@home": "postgresql://ann@h/x?application_name=me@home",
    "postgresql://ann:12/34@h/x": "postgresql://…",  # libpq would take 12 for a port
    "postgresql://me@corp:hunter2@h/x": "postgresql://…",
    "postgresql://me@corp:hun?ter=2@h/x": "postgresql://…",
    "postgresql://ann:hunter2%40h/x": "postgresql://…",
    "postgresql://ann:12?password=34@h/x": "postgresql://ann@h/x",
    "postgresql://ann:12?user=34@h:x/x": "postgresql://…",
    "postgresql://h?password=12@home/x": "postgresql://h?password=…",
    "postgresql:///x?pass=hunter2&user=ann": "postgresql:///x?pass=…&user=ann",
    "postgresql:///x? password=hunter2": "postgresql:///x? password=…",
    "postgresql:///x?p%61ssword=hunter2": "postgresql:///x?p%61ssword=…",
    "postgresql:///x?oauth_client_secret=hunter2": "postgresql:///x?oauth_client_secret=…",
    "postgresql://ann:12@[::1]:5432,h:5433/x": "postgresql://ann@[::1]:5432,h:5433/x",
    "postgresql://ann:12?34@h/x": "postgresql://ann@h/x",
    "postgresql://h/x?sslpassword=hunter2&sslmode=require": "postgresql://h/x?sslpassword=…&sslmode=require",
    "postgresql://h:5432/x": "postgresql://h:5432/x",
    "postgresql://h/x?user=ann&password=12@34": "postgresql://h/x?user=ann&password=…",
    "postgresql:///x?password=1?2/3@4&host=/run/pg": "postgresql:///x?password=…&host=/run/pg",
}


@pytest.mark.parametrize("url", SHOWN)
def test_an_address_is_shown_without_its_password(url):
    assert without_password(url) == SHOWN[url]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:x@hunter2@h/x",
        "postgresql://:x/hunter2@h/x",
        "postgresql://ann:1/hunter2@h/x",
        "postgresql://me@corp:hunter2@h/x",
        "postgresql://ann:hunter2%40h/x",
    ],
)
def test_a_password_that_libpq_would_take_for_a_host_or_a_database_is_refused_unseen(url):
    with pytest.raises(
        backstory.CannotOpen, match="with special characters percent-encoded"
    ) as caught:
        backstory.open(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("password", ["12?34", "12#34", "12&34?", "?prepare=on"])
def test_prepare_is_found_after_any_password(password):
    url = f"postgresql://ann:{password}@h/x"
    assert split_prepare(f"{url}?prepare=off") == (url, False)
    assert split_prepare(f"{url}?sslmode=disable&prepare=off") == (f"{url}?sslmode=disable", False)
    assert split_prepare(url) == (url, True)
