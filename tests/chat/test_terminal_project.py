"""The real program and its folder: which session it continues, where its tools work, and its lists."""

from tests.chat.screen import kinds
from tests.runtime.scripted import Say, scripted


def test_each_folder_has_its_own_session_and_the_instructions_of_its_project(
    start, folder, reopened
):
    (folder / "AGENTS.md").write_text("Always answer in verse.")
    with scripted(Say("Roses."), Say("Violets.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        assert "instructions: AGENTS.md" in terminal.answered("Roses.")
        assert "Always answer in verse." in str(server.last["messages"][:2])
        terminal.leave()
        (folder / "sub").mkdir()
        elsewhere = start(server, cwd=folder / "sub")
        elsewhere.send("First here")
        elsewhere.answered("Violets.")
        assert "Hello" not in str(server.last["messages"])
        elsewhere.leave()
        (folder / "AGENTS.md").write_text("Prose, please.")
        again = start(server)
        text = again.ready()
        assert "> Hello" in text
        assert "the project's instructions have changed: /instructions reads them" in text
        again.send("/instructions")
        again.wait("instructions are in the context from here on")
        again.leave()
    assert kinds(reopened())[-1] == "system"


def test_going_on_in_another_folders_session_asks_where_the_tools_work(start, folder):
    (folder / "sub").mkdir()
    glob = ("call_1", "glob", '{"pattern": "*.py"}')
    with scripted(Say("Hi."), Say(calls=(glob,)), Say("Those.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.answered("Hi.")
        terminal.leave()
        other = start(server, "main", cwd=folder / "sub")
        other.wait("Where shall the tools work?")
        other.type("t")
        other.send("Which files?")
        other.answered("Those.")
        results = [m["content"] for m in server.last["messages"] if m["role"] == "tool"]
        assert results == ["a.py\nb.py"]


def test_the_model_gives_a_title_when_it_is_asked_to_and_nothing_else_is_written(start, reopened):
    with scripted(
        Say("Hello."), Say('\n**Title: "A first greeting."**\nHope this helps!'), Say(" ")
    ) as server:
        terminal = start(server, columns=120)
        terminal.send("/title auto")
        terminal.wait("there is nothing to name yet")
        terminal.send("Hello there")
        terminal.answered("Hello.")
        head = reopened().head
        terminal.send("/title auto")
        terminal.wait("the title is A first greeting; /title TEXT sets another")
        assert next(text for role, text in server.said() if role == "user") == "Hello there"
        terminal.send("/title auto")
        terminal.wait("scripted-1 gave no title: nothing was changed")
        assert (reopened().head, reopened().about["title"]) == (head, "A first greeting")
        assert terminal.leave() == 0


def test_titles_tags_and_the_list_of_sessions(start, reopened):
    with scripted(Say("Hi."), Say("Ho.")) as server:
        terminal = start(server, columns=120)
        terminal.send("Hello there")
        terminal.answered("Hi.")
        terminal.send("/title")
        terminal.wait("the title is Hello there")
        terminal.send("/title Greetings")
        terminal.wait("the title is Greetings")
        terminal.send("/tag fun work")
        terminal.wait("tags: fun, work")
        terminal.leave()
        second = start(server, "--new", columns=120)
        second.send("Something else")
        second.answered("Ho.")
        second.send("/sessions")
        second.wait("sessions of this folder")
        second.type("greet")
        second.wait("> Greetings")
        second.type("\r")
        second.wait("restored 3 messages")
        second.leave()
    assert reopened("main").about["tags"] == ["fun", "work"]


def test_a_task_is_done_by_a_sub_agent_that_can_be_switched_to(start, reopened):
    task = (
        "call_1",
        "task",
        '{"description": "Count the files", "prompt": "How many files are here?"}',
    )
    with scripted(Say(calls=(task,)), Say("Three files."), Say("There are three.")) as server:
        terminal = start(server)
        terminal.send("How many?")
        terminal.answered("There are three.")
        assert ("tool", "Three files.") in server.said()
        terminal.send("/agents")
        terminal.wait("count-the-files")
        terminal.send("/switch count-the-files")
        assert "> How many files are here?" in terminal.wait("restored 3 messages")
        terminal.leave()
    assert reopened("count-the-files").parent == reopened("main").id
