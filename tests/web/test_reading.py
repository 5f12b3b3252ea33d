"""Reading what the model saw: thinking, tools, the whole context, and the size that the provider counted."""

import re

import backstory
from backstory.wire.tokens import estimate_request, estimate_tokens
from tests.web.asgi import Client
from tests.web.conftest import fill

THOUGHT = {"type": "thinking", "thinking": "The **parser** is at fault.", "signature": "c2ln"}
CALLS = [
    ("Edit", {"file_path": "src/a.py", "old_string": "x = 1", "new_string": "x = 2"}),
    ("Bash", {"command": "pytest -q"}),
    ("Read", {"file_path": "src/a.py"}),
    ("lookup", {"city": "Ulm", "day": 3}),
]


def test_thinking_is_shown_folded(show):
    with backstory.open(":memory:") as store:
        main = store.start("main")
        main.user("Why?")
        form = [THOUGHT, {"type": "text", "text": "Because."}]
        main.assistant("Because.", data={"native": {"provider": "anthropic", "wire": form}})
        screen = show(store).ready()
        fold = screen(".message[data-seq='2'] .thinking")
        fold.filter(has_text="thinking (27 characters)").wait_for()
        assert fold.locator("strong").count() == 0
        fold.locator("summary").click()
        fold.locator("strong").filter(has_text="parser").wait_for()


def test_calls_of_common_tools_read_as_what_they_do(show):
    with backstory.open(":memory:") as store:
        main = store.start("main")
        main.user("Do it.")
        for name, arguments in CALLS:
            call = main.tool_call(name, arguments)
            main.tool_result(call, "line one\nline two", error=name == "Bash")
        screen = show(store).ready()
        edit, run, read, other = (screen(f".message[data-seq='{seq}']") for seq in (2, 4, 6, 8))
        assert edit.locator(".subject").inner_text() == "src/a.py"
        assert edit.locator(".minus").inner_text().strip() == "-x = 1"
        assert edit.locator(".plus").inner_text().strip() == "+x = 2"
        assert run.locator("pre").inner_text().strip() == "pytest -q"
        assert "✗ failed" in run.locator(".outcome").inner_text()
        assert "✓" in read.locator(".outcome").inner_text()
        assert screen(".message[data-seq='7'] .numbered span").count() == 2
        assert '"city": "Ulm"' in other.locator("pre").inner_text()


SCROLL = """async () => {
  const box = document.querySelector(".pane");
  const seen = new Set();
  const look = () => {
    const { top, bottom } = box.getBoundingClientRect();
    for (const one of document.querySelectorAll(".message")) {
      const place = one.getBoundingClientRect();
      if (place.bottom > top && place.top < bottom) seen.add(Number(one.dataset.seq));
    }
    return document.querySelectorAll(".message").length;
  };
  let most = 0;
  for (let still = 0; still < 40; ) {
    most = Math.max(most, look());
    const before = box.scrollTop;
    box.scrollTop -= 150;
    await new Promise((done) => setTimeout(done, 30));
    still = box.scrollTop === before ? still + 1 : 0;
  }
  look();
  return [[...seen].sort((one, other) => one - other), most];
}"""


def test_the_whole_context_can_be_read_from_the_last_to_the_first_message(show):
    with backstory.open(":memory:") as store:
        main = store.start("main")
        main.extend([("user", f"message {n}\n" * (n % 5 + 1)) for n in range(1, 201)])
        screen = show(store).ready()
        screen(".message[data-seq='200'] .body").wait_for()
        seen, most = screen.page.evaluate(SCROLL)
        assert seen == list(range(1, 201))
        assert most <= 60
        text = Client(store)(f"/api/agents/{main.id}/text").content.decode()
        assert text.startswith("--- user 1\nmessage 1\n")
        assert text.count("--- user") == 200


def test_what_nobody_typed_is_no_prompt(show, filled):
    main = filled.agent("main")
    main.user("<command>clear</command>", data={"meta": "command"})
    main.assistant("Yes.")
    screen = show(filled).ready()
    screen(".message[data-seq='11'] .badge").filter(has_text="command").wait_for()
    screen.press("[")
    screen.at("main@6")
    assert screen.row(11).locator(".kind").inner_text() == "input"


def test_the_request_opens_in_the_format_of_the_provider_that_answered(show, filled):
    main = filled.agent("main")
    main.assistant("Yes.", data={"model": "claude-opus-9", "usage": {"input": 7}})
    screen = show(filled, f"/s/{main.session}/a/{main.id}?pane=request")
    screen(".request .message pre").first.wait_for()
    assert screen(".request select").input_value() == "anthropic"


def test_what_the_provider_counted_beside_the_log_is_a_band_of_its_own(show, filled):
    main = filled.agent("main")
    main.assistant("Yes.", data={"usage": {"input": 20_000, "output": 3}})
    size = estimate_request(None) + sum(map(estimate_tokens, main.context(10).messages))
    main.user("Thanks.")
    screen = show(filled).ready()
    outside = f"+ {20_000 - size:,} not in the log"
    screen(".position").filter(has_text=outside).wait_for()
    screen(".sizes li").filter(has_text="not in the log").wait_for()
    parts = [int(re.sub(r"\D", "", text)) for text in screen.texts(".sizes li")]
    shown = re.findall(r"([\d,]+) (?:tokens|not in)", screen(".position").inner_text())
    assert sum(parts) == sum(int(text.replace(",", "")) for text in shown)
    screen.press("Home")
    screen(".position").filter(has_text=outside).wait_for()  # the system prompt was always sent


def test_the_newest_part_can_be_read_before_the_rest_has_come(show):
    with backstory.open(":memory:") as store:
        main = fill(store)
        main.extend([("user", f"line {n}") for n in range(6_000)])
        screen = show(store, "/")
        held = []
        screen(".sessions a").first.wait_for()
        screen.page.route("**/outline?after=0*", lambda route: held.append(route))
        screen(".sessions a").first.click()
        screen.at(f"main@{main.head:,}")
        screen.ready()
        screen(".position").filter(has_text="loading 1,010 earlier events").wait_for()
        assert screen.row(main.head).inner_text().split()[-1] == "5999"
        screen.press("k")
        screen.at(f"main@{main.head - 1:,}")
        held[0].continue_()
        screen(".position").filter(has_text="live ·").wait_for()
        screen.at(f"main@{main.head - 1:,}")


def test_a_request_is_built_once_for_all_its_pages(filled, monkeypatch):
    from backstory.wire.conversation import Conversation

    built, dump = [], Conversation.dump_request
    monkeypatch.setattr(
        Conversation,
        "dump_request",
        lambda self, *arguments, **options: built.append(1) or dump(self, *arguments, **options),
    )
    main, client = filled.agent("main"), Client(filled)
    path = f"/api/agents/{main.id}/request?at=10&limit=2"
    pages = [client(f"{path}&after={after}").json["messages"] for after in (0, 2, 4)]
    assert (len(built), [len(page) for page in pages]) == (1, [2, 2, 1])
    main.erase([2], why="a secret")
    assert "Which Python files" not in str(client(f"{path}&after=0").json)
