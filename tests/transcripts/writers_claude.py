"""A story as Claude Code would have written it."""

from datetime import UTC, datetime, timedelta

SESSION = "0c5f2f0e-0000-4000-8000-000000000001"


class Writer:
    """Records with uuids and parents; results between the lines of an answer, progress anywhere."""

    def __init__(self, story, session=SESSION):
        self.story = story
        self.random = story.random
        self.session = session
        self.records = []
        self.last = {}  # a turn -> the uuid that the next one hangs on
        self.uuids = {}  # a turn -> the uuids of its lines
        self.clock = datetime(2026, 3, 1, 9, tzinfo=UTC)
        for turn in story.turns:
            self.turn(turn)

    def uuid(self):
        return f"{len(self.records):08x}-0000-4000-8000-{self.random.getrandbits(48):012x}"

    def time(self):
        self.clock += timedelta(milliseconds=self.random.randint(0, 3000))
        return self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def add(self, type_, parent, **fields):
        uuid = self.uuid()
        record = {"parentUuid": parent, "type": type_, "uuid": uuid, "timestamp": self.time()}
        common = {
            "isSidechain": False,
            "sessionId": self.session,
            "version": "2.1.0",
            "cwd": "/project",
        }
        self.records.append(record | common | fields)
        return uuid

    def turn(self, turn):
        getattr(self, turn.kind)(turn, self.last[id(turn.parent)] if turn.parent else None)
        if self.random.random() < 0.2:
            self.last[id(turn)] = self.add("system", self.last[id(turn)], subtype="turn_duration")

    def prompt(self, turn, parent):
        content = turn.text if self.random.random() < 0.7 else [{"type": "text", "text": turn.text}]
        uuid = self.add("user", parent, message={"role": "user", "content": content})
        self.uuids[id(turn)] = [uuid]
        if self.random.random() < 0.3:
            uuid = self.add("attachment", uuid, attachment={"type": "todo_reminder"})
        self.last[id(turn)] = uuid

    def answer(self, turn, parent):
        blocks = (
            [{"type": "thinking", "thinking": turn.thought, "signature": "c2ln"}]
            if turn.thought
            else []
        )
        if turn.text and self.random.random() < 0.3:  # some models begin with a blank block
            blocks.insert(0, {"type": "text", "text": "\n\n"})
        blocks += [{"type": "text", "text": turn.text}] if turn.text else []
        turn.text = "".join(block["text"] for block in blocks if block["type"] == "text")
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in turn.calls
        ]
        self.uuids[id(turn)] = []
        waiting = []
        results = []
        for block in blocks:
            message = {
                "id": f"msg_{turn.number}",
                "role": "assistant",
                "model": "claude-x",
                "content": [block],
            }
            parent = self.add("assistant", parent, message=message | {"usage": {"input_tokens": 3}})
            self.uuids[id(turn)].append(parent)
            if block["type"] == "tool_use":
                waiting.append((block["id"], parent))
            if self.random.random() < 0.3:  # a result between the lines of its answer
                results += [self.result(turn, *one) for one in waiting]
                waiting = []
            if self.random.random() < 0.2:
                self.add("progress", parent, data={"type": "bash_progress"})
        self.random.shuffle(waiting)
        results += [self.result(turn, *one) for one in waiting]
        hangs_on_results = [uuid for uuid in results if uuid is not None]
        self.last[id(turn)] = self.random.choice([parent, *hangs_on_results[-1:]])

    def result(self, turn, call_id, parent):
        [call] = [call for call in turn.calls if call.id == call_id]
        if call.output is None:
            return None
        block = {"type": "tool_result", "tool_use_id": call.id, "content": call.output}
        block |= {"is_error": True} if call.error else self.random.choice([{}, {"is_error": False}])
        uuid = self.add(
            "user", parent, message={"role": "user", "content": [block]}, toolUseResult={"x": 1}
        )
        self.uuids[id(turn)].append(uuid)
        return uuid

    def compaction(self, turn, parent):
        kept = [uuid for one in turn.kept for uuid in self.uuids[id(one)]]
        boundary = {"subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}}
        if self.random.random() < 0.7:
            boundary["logicalParentUuid"] = parent
        uuid = self.add("system", None, **boundary)
        message = {"role": "user", "content": turn.text}
        self.last[id(turn)] = self.add("user", uuid, message=message, isCompactSummary=True)
        if kept:
            preserved = {"anchorUuid": self.last[id(turn)], "uuids": kept}
            self.records[-2]["compactMetadata"]["preservedMessages"] = preserved

    def clear(self, turn, parent):
        self.last[id(turn)] = self.add("progress", None, data={"type": "hook_progress"})


def write(story):
    """The lines of the file, and its name."""
    return f"{SESSION}.jsonl", Writer(story).records
