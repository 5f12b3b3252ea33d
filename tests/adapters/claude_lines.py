"""Lines as Claude Code writes them, for the tests of its session store."""

from uuid import uuid4

MODEL = "claude-sonnet-4-5"
KEY = {"project_key": "proj", "session_id": "sess"}


class Transcript:
    """Lines as Claude Code writes them: each hangs on the one before unless it is told otherwise."""

    def __init__(self, session="sess"):
        self.session = session
        self.last = None
        self.lines = []

    def add(self, type, message=None, *, parent="last", **more):
        line = {
            "parentUuid": self.last if parent == "last" else parent,
            "isSidechain": False,
            "sessionId": self.session,
            "type": type,
            **({} if message is None else {"message": message}),
            "uuid": str(uuid4()),
            "timestamp": "2026-01-01T00:00:00.000Z",
            **more,
        }
        self.lines.append(line)
        self.last = line["uuid"]
        return line

    def says(self, text, **more):
        return self.add("user", {"role": "user", "content": text}, **more)

    def answers(self, *blocks, id="msg_1", **more):
        return [
            self.add(
                "assistant",
                {
                    "id": id,
                    "type": "message",
                    "role": "assistant",
                    "model": MODEL,
                    "content": [block],
                },
                **more,
            )
            for block in blocks
        ][-1]

    def results(self, id, text):
        block = {"type": "tool_result", "tool_use_id": id, "content": text}
        return self.add("user", {"role": "user", "content": [block]})


def text(words):
    return {"type": "text", "text": words}


def thinking(words):
    return {"type": "thinking", "thinking": words, "signature": "c2VhbA=="}


def use(id, **given):
    return {"type": "tool_use", "id": id, "name": "Bash", "input": given}


def conversation(agent):
    return [message.content for message in agent.conversation() if message.content]


def story():
    lines = Transcript()
    lines.says("List the files.")
    lines.answers(thinking("Hm."), text("I will look."), use("toolu_1", command="ls"))
    lines.add("progress", data={"type": "hook"})
    lines.results("toolu_1", "a.py")
    lines.answers(text("One file: a.py."), id="msg_2")
    lines.lines.append({"type": "custom-title", "customTitle": "Files", "sessionId": "sess"})
    return lines
