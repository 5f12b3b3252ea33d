"""A process that writes until it is killed, and says what was acknowledged.

    python -m tests.writer URL AGENT SEED [COUNT]

Each line on standard output is the position and content of an event that append or extend has
returned: from then on it may not be lost. With a COUNT it stops by itself.
"""

import itertools
import random
import sys
import time

import backstory


def main(url: str, agent_id: str, seed: str, count: str = "") -> None:
    choose = random.Random(seed)
    with backstory.open(url) as store:
        agent = store.agent(agent_id)
        print("ready", flush=True)
        for n in range(int(count)) if count else itertools.count():
            for event in patiently(lambda n=n: write(agent, choose, f"{seed}-{n}")):
                print(event.seq, event.content or event.kind, flush=True)
            if choose.random() < 0.1:
                patiently(agent.context)
            if choose.random() < 0.02:
                patiently(lambda: agent.fork().user("a branch"))


def write(agent: backstory.Agent, choose: random.Random, text: str) -> list[backstory.Event]:
    match choose.randrange(6):
        case 0:
            return agent.extend(
                [("user", f"{text}.{part}", None) for part in range(choose.randrange(1, 40))]
            )
        case 1:
            return [agent.mark(text)]
        case 2 if agent.marks():
            return [agent.rewind()]
        case 3 if choose.random() < 0.1:
            return [agent.clear()]
    return [agent.user(text)]


def patiently(call):
    """A server that is being restarted is waited for; what it did not acknowledge may be there."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return call()
        except (backstory.StorageError, backstory.MarkNotFound):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
