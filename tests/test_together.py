"""Eight processes on one store: popping, appending, compacting, deleting and following. Nothing twice,
nothing lost, and of what was deleted nothing left."""

import json
import subprocess
import sys

import backstory
from tests.processes import PATIENCE

WORKER = """
import json, os, random, sys
import backstory
from backstory import Conflict, NotFound

url, role, number = sys.argv[1:]
choose = random.Random(number)

def pop(agent):
    while True:
        context = agent.context()
        items = [event for event in context.messages if event.kind == "user"]
        if not items:
            return None
        key = os.urandom(8).hex()
        batch = [("jump", None, {"target_message_id": items[-1].seq - 1}, key)]
        try:
            agent.extend(batch, expected=context.at)
            return items[-1].content
        except Conflict:
            continue

with backstory.open(url) as store:
    queue, log = store.agent(key="queue"), store.agent(key="log")
    follower = store.follow() if role == "follow" else None
    print("ready", flush=True)
    sys.stdin.readline()
    if role == "pop":
        found = []
        while (item := pop(queue)) is not None:
            found.append(item)
        print(json.dumps(found))
    elif role == "append":
        print(json.dumps([log.user(f"{number} {n}").content for n in range(25)]))
    elif role == "compact":
        for n in range(10):
            try:
                log.compact(f"summary {number} {n}", keep=choose.randrange(3))
            except (Conflict, NotFound):
                pass
        print("[]")
    elif role == "delete":
        made = []
        for n in range(15):
            agent = store.ensure(f"passing {n}")
            agent.extend([("user", f"secret {n}"), ("user", "gone")])
            made.append(agent.fork(at=1).id)
            store.delete(agent)
        print(json.dumps(made))
    else:
        seen = []
        for agent, event in follower:
            if event.content == "the end":
                break
            seen.append([agent.name, event.seq])
        print(json.dumps(seen))
"""
ROLES = ("pop", "pop", "append", "append", "compact", "delete", "follow", "follow")


def start(url, role, number):
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, url, role, str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return role, worker


def said(worker):
    out, _ = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0
    return json.loads(out)


def test_eight_processes_pop_append_compact_delete_and_follow_one_store(durable_url):
    with backstory.open(durable_url) as store:
        queue, log = store.ensure("queue", name="queue"), store.ensure("log", name="log")
        queue.extend([("user", f"item {n}") for n in range(40)])
        log.user("begin")
        before = {"queue": queue.head, "log": log.head}
        workers = [start(durable_url, role, number) for number, role in enumerate(ROLES)]
        for _, worker in workers:
            assert worker.stdout.readline() == "ready\n"
        for _, worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        results = [(role, said(worker)) for role, worker in workers if role != "follow"]
        last = store.start("last")
        last.user("the end")
        seen = [said(worker) for role, worker in workers if role == "follow"]

        popped = [item for role, items in results if role == "pop" for item in items]
        assert sorted(popped) == sorted(f"item {n}" for n in range(40))
        written = [text for role, texts in results if role == "append" for text in texts]
        originals = [
            e.content for e in log.events() if e.kind == "user" and "copy_of" not in (e.data or {})
        ]
        assert sorted(text for text in originals if text in set(written)) == sorted(written)
        heads = {"queue": queue.head, "log": log.head}
        for pairs in seen:
            for name, head in heads.items():
                positions = [seq for agent, seq in pairs if agent == name]
                assert positions == list(range(before[name] + 1, head + 1))
        [forks] = [made for role, made in results if role == "delete"]
        assert [store.agent(id).context().messages[0].content for id in forks] == [
            f"secret {n}" for n in range(15)
        ]
        assert {agent.id for agent in store.agents()} == {queue.id, log.id, last.id, *forks}
        assert not store.search("gone", wait=True)
        assert store.verify() == []
