"""One process runs a LangGraph graph until it asks, another one answers.

python -m tests.adapters.interrupts URL ask|resume
"""

import sys

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from backstory.adapters.langgraph import BackstorySaver

CONFIG = {"configurable": {"thread_id": "t"}}


def graph(saver):
    def delete(state):
        return {"messages": [AIMessage(f"deleted: {interrupt('may I?')}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("delete", delete)
    builder.add_edge(START, "delete")
    return builder.compile(checkpointer=saver)


if __name__ == "__main__":
    url, step = sys.argv[1:]
    saver = BackstorySaver(url)
    given = {"messages": [HumanMessage("delete b.py")]} if step == "ask" else Command(resume="yes")
    graph(saver).invoke(given, CONFIG)
    saver.close()
