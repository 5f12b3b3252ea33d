"""The threads that make the calls of the async face."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from backstory.aio import in_thread
from backstory.aio.threads import MOST
from tests.processes import PATIENCE


def in_a_new_thread(main):
    """Run a loop in a thread that has made no calls yet."""
    around = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    around.start()
    around.join(PATIENCE)
    assert not around.is_alive()


def test_calls_one_after_the_other_are_made_by_one_thread():
    found = set()

    async def main():
        found.update([await in_thread(threading.get_ident) for _ in range(50)])

    in_a_new_thread(main)
    assert len(found) == 1


def test_calls_at_once_are_made_by_many_threads_but_not_by_any_number():
    together = threading.Barrier(MOST)
    found = set()

    def work():
        together.wait(PATIENCE)
        found.add(threading.get_ident())

    async def main():
        await asyncio.gather(*(in_thread(work) for _ in range(3 * MOST)))

    in_a_new_thread(main)
    assert len(found) == MOST


def test_the_threads_end_with_the_one_whose_calls_they_made():
    found = []

    async def main():
        found.append(await in_thread(threading.current_thread))

    in_a_new_thread(main)
    found[0].join(PATIENCE)
    assert not found[0].is_alive()


LEAVES_EARLY = """
import asyncio, atexit, threading
from backstory.aio import in_thread

begun, go_on = threading.Event(), threading.Event()

def work():
    begun.set()
    go_on.wait()
    sum(range(1_000_000))  # long enough to be cut off, if nobody waits
    print("seen through", flush=True)

async def main():
    asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
atexit.register(go_on.set)  # while the interpreter ends, with the call under way
"""


def test_a_program_that_ends_sees_its_calls_through():
    done = subprocess.run(
        [sys.executable, "-c", LEAVES_EARLY], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "seen through\n"


LATE = """
import asyncio, atexit

atexit.register(lambda: print(asyncio.run(late())))

from backstory.aio import in_thread

async def late():
    return await in_thread(lambda: "late")

asyncio.run(late())
"""


def test_a_call_that_is_made_while_the_interpreter_ends_gets_a_thread():
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "late\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_threads_of_its_own():
    program = """
import asyncio, os
from backstory.aio import in_thread

async def once():
    return await in_thread(lambda: "made")

asyncio.run(once())
child = os.fork()
print(asyncio.run(once()), flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "made\n" * 2
