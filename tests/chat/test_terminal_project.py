"""The real program and its folder: which session it continues, where its tools work, and its lists."""

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
        assert "the project's instructions have changed: @AGENTS.md" in text


def test_tools_work_here_and_a_line_says_where_the_session_began(start, folder):
    (folder / "sub").mkdir()
    glob = ("call_1", "glob", '{"pattern": "*.py"}')
    with scripted(Say("Hi."), Say(calls=(glob,)), Say("Those.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.answered("Hi.")
        terminal.leave()
        (folder / "sub" / "c.py").touch()
        other = start(server, "main", cwd=folder / "sub", columns=300)
        other.wait(f"this session began in {folder}: the tools work here, in {folder / 'sub'}")
        other.send("Which files?")
        other.answered("Those.")
        results = [m["content"] for m in server.last["messages"] if m["role"] == "tool"]
        assert results == ["c.py"]


def test_the_list_of_sessions(start, reopened):
    with scripted(Say("Hi."), Say("Ho.")) as server:
        terminal = start(server, columns=120)
        terminal.send("Hello there")
        terminal.answered("Hi.")
        terminal.leave()
        reopened().describe(title="Greetings")
        second = start(server, "--new", columns=120)
        second.send("Something else")
        second.answered("Ho.")
        second.send("/sessions greet")
        second.wait("1. Greetings")
        second.type("\r")
        second.wait("restored 3 messages")
        second.leave()
