"""The guard: one table of what is refused, on every route, static files and the stream included."""

from contextlib import ExitStack

import pytest

import backstory
from backstory.errors import Invalid
from backstory.web import Proxy
from backstory.web.app import app
from backstory.web.document import compute_version
from backstory.web.guard import MOST_BODY, MOST_REQUESTS, AccessCodes, AccessRules, Refused
from tests.web.asgi import HOST, KEY, Client

STATIC = f"/static/{compute_version()}/"
PAGES = ["/", "/check", "/r/main", f"{STATIC}main.js", f"{STATIC}page.css"]
DATA = ["/api/sessions", "/api/stats", "/api/search?q=files", "/api/live", "/api/resolve?ref=main"]
OTHER = "http://evil.example"


@pytest.mark.parametrize("path", [*PAGES, *DATA])
@pytest.mark.parametrize(
    ("refusal", "request_"),
    [
        (421, {"host": None}),
        (421, {"host": "evil.example"}),
        (421, {"host": "127.0.0.1"}),
        (421, {"host": f"{HOST}.evil.example"}),
        (421, {"host": "127.0.0.1:80"}),
        (421, {"headers": [("host", HOST)]}),
        (403, {"headers": [("origin", OTHER)]}),
        (403, {"headers": [("origin", "null")]}),
        (403, {"headers": [("origin", "http://127.0.0.1:8000")]}),
        (403, {"headers": [("origin", f"http://{HOST}.evil.example")]}),
        (403, {"headers": [("sec-fetch-site", "cross-site")]}),
        (403, {"headers": [("sec-fetch-site", "same-site")]}),
        (403, {"headers": [("sec-fetch-site", "something new")]}),
        (400, {"headers": [("origin", f"http://{HOST}"), ("origin", f"http://{HOST}")]}),
        (405, {"method": "DELETE"}),
        (405, {"method": "PUT"}),
        (405, {"method": "OPTIONS"}),
        (415, {"method": "POST"}),
        (
            415,
            {
                "method": "POST",
                "headers": [("content-type", "text/plain"), ("content-length", "2")],
            },
        ),
        (413, {"method": "POST", "headers": [("content-type", "application/json")]}),
    ],
)
def test_a_foreign_request_is_refused_on_every_route(filled, path, refusal, request_):
    answer = Client(filled)(path, **request_)
    assert answer.status == refusal
    assert set(answer.json) == {"error"}


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize("key", [None, "", "another", KEY + "x"])
def test_data_needs_the_key(filled, path, key):
    assert Client(filled)(path, key=key).status == 401


def test_a_key_that_comes_twice_is_refused(filled):
    answer = Client(filled)("/api/sessions", headers=[("authorization", f"Bearer {KEY}")])
    assert answer.status == 400


@pytest.mark.parametrize("path", [*PAGES, *DATA])
@pytest.mark.parametrize(
    "host", [HOST, HOST.replace("127.0.0.1", "localhost"), HOST.replace("127.0.0.1", "[::1]")]
)
def test_our_own_page_is_let_in_under_each_name_of_this_machine(filled, path, host):
    ours = [("origin", f"http://{host}"), ("sec-fetch-site", "same-origin")]
    assert Client(filled)(path, host=host, headers=ours).status == 200


def test_a_typed_address_opens_the_page_and_no_data(filled):
    typed = [("sec-fetch-site", "none")]
    assert Client(filled)("/", headers=typed).status == 200
    assert Client(filled)("/api/sessions", headers=typed).status == 403


@pytest.mark.parametrize("path", [*PAGES, *DATA, "/api/nothing", "/nothing"])
def test_every_answer_carries_the_policy_and_grants_nothing_to_others(filled, path):
    headers = Client(filled)(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "trusted-types 'none'" in policy
    assert policy.startswith("sandbox; ") == path.startswith("/api/")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert (
        headers["cross-origin-opener-policy"]
        == headers["cross-origin-resource-policy"]
        == "same-origin"
    )
    kept = "immutable" if path.startswith(STATIC) else "no-store"
    assert kept in headers["cache-control"]
    assert not [name for name in headers if name.startswith("access-control")]
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/main.js",
        "/static/vendor/preact.js",
        "/static/",
        f"{STATIC}main.js/",
        f"{STATIC}vendor/../main.js",
    ],
)
def test_only_what_is_in_the_table_is_served(filled, path):
    assert Client(filled)(path).status == 404


MOVE = {"move": "clear", "expected": 10}


@pytest.mark.parametrize(
    ("path", "body"), [("move", MOVE), ("fork", {"at": 2, "name": "x"}), ("rename", {"name": "x"})]
)
def test_without_write_no_move_is_made(filled, path, body):
    main = filled.agent("main")
    head = main.head
    answer = Client(filled)(f"/api/agents/{main.id}/{path}", "POST", body=body)
    assert answer.status == 403
    assert (main.head, len(filled.agents())) == (head, 3)
    assert filled.agent("main").name == "main"


def test_the_guard_refuses_every_post_and_what_is_behind_it_refuses_a_move_as_well(filled):
    client = Client(filled)
    assert client("/api/nothing", "POST", body={}).status == 403
    main = filled.agent("main")
    client.app = client.app._inner
    assert client(f"/api/agents/{main.id}/move", "POST", body=MOVE).status == 403
    assert main.head == 10


def test_a_body_beyond_the_limit_is_refused_whatever_its_length_was_said_to_be(filled):
    main = filled.agent("main")
    client = Client(filled, write=True)
    path = f"/api/agents/{main.id}/rename"
    assert client(path, "POST", body={"name": "x" * MOST_BODY}).status == 413
    said = [("content-type", "application/json"), ("content-length", "10")]
    content = b'{"name":"' + b"x" * MOST_BODY + b'"}'
    headers = [("host", HOST), ("authorization", f"Bearer {KEY}"), *said]
    assert client.ask(path, "POST", headers, content, "").status == 413
    assert filled.agent("main").id == main.id


def test_a_request_too_many_is_told_to_try_again(filled):
    guard = app(filled, key=KEY)
    with ExitStack() as under_way:
        for _ in range(MOST_REQUESTS):
            under_way.enter_context(guard.count_request(is_stream=False))
        with pytest.raises(Refused) as refused:
            under_way.enter_context(guard.count_request(is_stream=False))
        assert refused.value.status == 503
        under_way.enter_context(guard.count_request(is_stream=True))
    with guard.count_request(is_stream=False):
        pass


def test_a_code_works_once_and_the_next_one_is_asked_for(filled):
    codes, used = AccessCodes(KEY), []
    codes.on_redeem = lambda: used.append(True)
    client = Client(filled, codes=codes)
    code, launch, late = codes.issue(), codes.issue(60), codes.issue(-1)

    def exchange(code):
        return client("/api/key", "POST", body={"code": code}, key=None)

    assert exchange(code).json == {"key": KEY}
    assert used == [True]
    assert exchange(launch).json == {"key": KEY}
    assert [exchange(bad).status for bad in (code, late, "wrong", "", None)] == [401] * 5
    assert used == [True]


def test_without_a_key_the_server_around_it_decides_who_comes_in(filled):
    assert Client(filled, key=None)("/api/sessions", key=None).status == 200
    assert Client(filled, key=None)("/api/sessions", key=None, host="evil.example").status == 421


def test_it_can_be_mounted_under_a_path(filled):
    client = Client(filled, key=None)
    page = client("/", root="/history").content.decode()
    assert f'src="/history{STATIC}main.js"' in page
    assert client("/api/sessions", root="/history").status == 200


# --- behind a proxy ---

PUBLIC = "https://history.example"
BEHIND = {
    "key": None,
    "public_url": PUBLIC,
    "write": True,
    "proxy": Proxy("secret", writers=frozenset({"ada"})),
}


def behind(store, *headers, host="history.example", url="/api/sessions", **more):
    options = {**BEHIND, "proxy": more.pop("proxy", BEHIND["proxy"])}
    return Client(store, **options)(url, key=None, host=host, headers=headers, **more)


ADA = (("x-backstory-secret", "secret"), ("x-forwarded-user", "ada"))


def test_a_proxy_that_knows_the_secret_says_who_is_there(filled):
    assert behind(filled, *ADA).status == 200
    assert behind(filled, *ADA, ("origin", PUBLIC)).status == 200


def test_the_names_of_a_proxys_headers_may_be_in_any_case(filled):
    proxy = Proxy("secret", user_header="X-User", secret_header="X-Secret")
    headers = [("x-secret", "secret"), ("x-user", "ada")]
    assert behind(filled, *headers, proxy=proxy).status == 200


@pytest.mark.parametrize(
    ("public_url", "host"),
    [
        ("https://History.Example", "history.example"),
        ("https://history.example:443/", "history.example"),
        ("http://history.example:80", "history.example"),
        ("http://history.example:8080", "history.example:8080"),
    ],
)
def test_a_public_address_is_known_as_browsers_write_it(public_url, host):
    rules = AccessRules(public_url=public_url)
    assert rules.list_hosts(None) == {host.encode()}
    assert rules.list_origins(None) == {f"{public_url.split(':')[0]}://{host}".encode()}


@pytest.mark.parametrize(
    ("refusal", "headers", "host"),
    [
        (401, [], "history.example"),
        (401, [("x-forwarded-user", "ada")], "history.example"),
        (401, [("x-backstory-secret", "guess"), ("x-forwarded-user", "ada")], "history.example"),
        (401, [("x-backstory-secret", "secret")], "history.example"),
        (401, [*ADA, ("x-forwarded-user", "bob")], "history.example"),
        (401, [*ADA, ("x-backstory-secret", "secret")], "history.example"),
        (421, ADA, HOST),
        (421, ADA, "other.example"),
        (403, [*ADA, ("origin", "https://other.example")], "history.example"),
        (403, [*ADA, ("origin", "http://history.example")], "history.example"),
    ],
)
@pytest.mark.parametrize("url", ["/", f"{STATIC}main.js", "/api/sessions", "/api/live"])
def test_without_the_secret_under_a_forged_name_or_a_wrong_address_nobody_comes_in(
    filled, url, refusal, headers, host
):
    assert behind(filled, *headers, host=host, url=url).status == refusal


def test_a_move_behind_a_proxy_records_who_made_it_and_only_writers_may(filled):
    main = filled.agent("main")
    url = f"/api/agents/{main.id}/move"
    body = {"move": "clear", "expected": main.head}
    bob = (("x-backstory-secret", "secret"), ("x-forwarded-user", "bob"))
    refused = behind(filled, *bob, url=url, method="POST", body=body)
    assert (refused.status, refused.json["error"].partition(";")[0]) == (403, "you may only read")
    assert behind(filled, *ADA, url=url, method="POST", body=body).status == 200
    assert (main.events([main.head])[0].data or {})["by"] == "ada"


@pytest.mark.parametrize(
    "options",
    [
        {"public_url": "history.example"},
        {"public_url": "https://history.example/path"},
        {"public_url": "https://user@history.example"},
        {"public_url": "javascript:alert(1)"},
        {"proxy": Proxy("secret")},
        {"public_url": PUBLIC, "proxy": Proxy("")},
    ],
)
def test_an_address_or_a_proxy_that_makes_no_sense_is_refused_at_once(options):
    with backstory.open(":memory:") as store, pytest.raises(Invalid):
        app(store, **options)
