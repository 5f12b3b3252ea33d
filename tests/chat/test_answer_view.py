"""An answer while it comes: nothing is printed twice, whenever a frame is drawn."""

import io
import threading

from rich.console import Console

import backstory
from backstory.chat.answer_view import AnswerView
from backstory.runtime.loop import EventWritten
from backstory.runtime.models import TextDelta


def test_no_frame_comes_between_the_end_of_an_answer_and_the_beginning_of_the_next(monkeypatch):
    with backstory.open(":memory:") as store:
        agent = store.start("main")
        text = "\n".join(f"- point {number};" for number in range(60))
        answer = agent.assistant(text)
        console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
        view = AnswerView(console, agent, after=0)
        begin, frames = view._begin, []

        def drawn_by_another_thread():
            if view._region.lock.acquire(blocking=False):
                view._region._draw(view._frame())
                view._region.lock.release()
                frames.append("drawn")

        def begin_late():
            other = threading.Thread(target=drawn_by_another_thread)
            other.start()
            other.join()
            begin()

        monkeypatch.setattr(view, "_begin", begin_late)
        for update in (TextDelta(text), EventWritten(answer)):
            view._take(update)
        shown = console.file.getvalue()
        assert [shown.count(f"point {number};") for number in range(60)] == [1] * 60
        assert frames == []
