"""Sessions of Claude Code at their worst: whatever its grammar allows, in any order.

Results between the lines of an answer, branches that hang on any line, lines that are written twice, parents
that are lost or come later. There is no story behind them: what counts is what one import of the finished
file gives.
"""

from datetime import UTC, datetime, timedelta

SESSION = "0c5f2f0e-0000-4000-8000-0000000000f1"
AGENT = "a1b2c3d4"  # a sub-agent, and what it was told
TOLD = "look into it"


class Wild:
    """Records, each hanging somewhere."""

    def __init__(
        self, random, *, length=24, session=SESSION, agent=None, damage=True, spawns=False
    ):
        self.random = random
        self.session, self.agent = session, agent
        self.records = []
        self.lines = []  # the uuids of all records so far
        self.answers = []  # message ids, newest last
        self.blocks = {}  # the number of blocks of an answer
        self.open = []  # calls without a result, and where they stand
        self.clock = datetime(2026, 3, 1, 9, tzinfo=UTC)
        self.damage = damage
        self.chance = random.choice([0.05, 0.15, 0.4])  # how wild it is
        cuts = random.choice([0.05, 0.2])  # how often the context is compacted or cleared
        kinds = [self.prompt, self.answer, self.more, self.result, self.aside]
        weights = [3, 4, 5, 5, 1]
        self.prompt(TOLD if agent else None)
        if spawns:
            self.spawn()
        while len(self.records) < length:
            [kind] = random.choices(kinds, weights)
            kind()
            if random.random() < cuts:
                self.cut()

    def number(self):
        return self.random.getrandbits(48)

    def uuid(self):
        return f"{len(self.records):08x}-0000-4000-8000-{self.number():012x}"

    def parent(self):
        """Mostly the last line; sometimes any line, none, or one that is not there (yet)."""
        if not self.lines:
            return None
        if self.random.random() >= self.chance:
            return self.lines[-1]
        if self.damage and self.random.random() < 0.05:
            return self.random.choice([None, "00000000-gone", f"later-{len(self.records) + 2}"])
        return self.random.choice(self.lines)

    def add(self, type_, *, parent="", uuid=None, **fields):
        self.clock += timedelta(milliseconds=self.random.randint(0, 3000))
        uuid = uuid or self.uuid()
        later = f"later-{len(self.records)}"
        if any(record.get("parentUuid") == later for record in self.records):
            uuid = later
        record = {
            "parentUuid": self.parent() if parent == "" else parent,
            "type": type_,
            "uuid": uuid,
            "timestamp": self.clock.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "isSidechain": self.agent is not None,
            "sessionId": self.session,
            "version": "2.1.0",
            "cwd": "/project",
        }
        self.records.append(record | ({"agentId": self.agent} if self.agent else {}) | fields)
        self.lines.append(uuid)
        return uuid

    def said(self, mark):
        return f"{mark}{self.number()}"

    # --- what a record may be ---

    def prompt(self, text=None):
        self.add("user", message={"role": "user", "content": text or self.said("p")})

    def spawn(self):
        self.answers.append("msg_spawn")
        block = {"type": "tool_use", "id": "toolu_task", "name": "Task", "input": {"prompt": TOLD}}
        message = {"id": "msg_spawn", "role": "assistant", "model": "claude-x", "content": [block]}
        self.open.append(("toolu_task", self.add("assistant", message=message)))

    def answer(self):
        self.answers.append(f"msg_{len(self.answers)}_{self.number()}")
        self.line(self.answers[-1])

    def more(self):
        """One more line of an answer: mostly of the last one."""
        if not self.answers:
            return
        is_last = self.random.random() >= self.chance / 2
        self.line(self.answers[-1] if is_last else self.random.choice(self.answers[-3:]))

    def line(self, id):
        if self.random.random() < 0.2:  # a model thinks before it says or does something
            self.block(id, {"type": "thinking", "thinking": self.said("t"), "signature": "c2ln"})
            if self.random.random() < self.chance:
                self.result()
        if self.random.random() < 0.25:
            self.block(id, {"type": "text", "text": self.said("a")})
            return
        number = self.blocks[id] = self.blocks.get(id, 0) + 1
        call = f"toolu_{number}_{self.number()}"
        given = {
            "type": "tool_use",
            "id": call,
            "name": "Bash",
            "input": {"command": self.said("c")},
        }
        self.open.append((call, self.block(id, given)))

    def block(self, id, block):
        message = {"id": id, "role": "assistant", "model": "claude-x", "content": [block]}
        if self.random.random() < 0.1:
            message["stop_reason"] = "tool_use"
        return self.add("assistant", message=message)

    def result(self):
        if not self.open:
            return
        last = self.random.random() >= self.chance
        call, uuid = self.open.pop(-1 if last else self.random.randrange(len(self.open)))
        block = {"type": "tool_result", "tool_use_id": call, "content": self.said("r")}
        parent = uuid if self.random.random() < 0.7 else self.parent()
        self.add("user", parent=parent, message={"role": "user", "content": [block]})

    def aside(self):
        """What is not said by a person or the model."""
        match self.random.randrange(6):
            case 0:
                self.add("system", subtype="turn_duration")
            case 1:
                self.add(
                    "user",
                    message={"role": "user", "content": "<command-name>/exit</command-name>"},
                )
            case 2:
                queued = {
                    "type": "queued_command",
                    "prompt": self.said("q"),
                    "commandMode": "prompt",
                }
                self.add("attachment", attachment=queued)
            case 3:
                spoken = {"role": "assistant", "model": "<synthetic>", "content": self.said("s")}
                self.add("assistant", message=spoken | {"id": self.said("x")})
            case 4 if self.damage:
                self.again()
            case _:
                self.add("progress", data={"type": "bash_progress"})

    def again(self):
        """A line that is written twice."""
        self.records.append(dict(self.random.choice([r for r in self.records if "uuid" in r])))

    def cut(self):
        match self.random.randrange(3):
            case 0:
                kept = [u for u in self.lines if self.random.random() < 0.2]
                metadata = {"trigger": "auto"}
                if kept and self.random.random() < 0.7:
                    anchor = f"later-{len(self.records) + 1}"
                    metadata["preservedMessages"] = {"anchorUuid": anchor, "uuids": kept}
                logical = {"logicalParentUuid": self.parent()} if self.random.random() < 0.7 else {}
                boundary = {"subtype": "compact_boundary", "compactMetadata": metadata}
                uuid = self.add("system", parent=None, **boundary, **logical)
                summary = {"role": "user", "content": self.said("s")}
                self.add(
                    "user",
                    parent=uuid,
                    uuid=f"later-{len(self.records)}",
                    message=summary,
                    isCompactSummary=True,
                )
            case 1:
                self.add("progress", parent=None, data={"type": "hook_progress"})
            case _ if self.lines:
                self.records.append(
                    {"type": "last-prompt", "leafUuid": self.random.choice(self.lines)}
                )
                if self.random.random() < 0.3:
                    self.lines.append(self.random.choice(self.lines))
