"""The commands, by family: a module and a section of the help for each.

This table is all that the help and the completion need, so that neither has to import a command.
Each summary exists only here: `options.command` puts it at the top of the command's help.
"""

from typing import NamedTuple


class CommandFamily(NamedTuple):
    """Commands that are in one module, with the title of their section in the help."""

    module: str
    title: str
    summaries: dict[str, str]


FAMILIES = (
    CommandFamily(
        "talk",
        "Talk to a model",
        {
            "chat": "Chat with a model that has tools and remembers.",
            "ask": "Ask one question and print the answer.",
        },
    ),
    CommandFamily(
        "lists",
        "Find",
        {
            "sessions": "List the sessions, the most recent last.",
            "agents": "List all agents, as a tree for each session.",
            "search": "Find words in all sessions, in live and dead events.",
            "stats": "Count events, bytes and tokens.",
        },
    ),
    CommandFamily(
        "look",
        "Look at an agent",
        {
            "log": "List all events, live and dead.",
            "show": "Show one event in full.",
            "context": "Show what the model sees, as text or as a request.",
            "marks": "List the marks that you can rewind to.",
            "explain": "Say why an event is or is not in the context.",
            "diff": "Compare two agents, or two positions of one.",
            "notes": "List notes: data that programs store and no model sees.",
            "settings": "Show or set the model, tools and parameters in force.",
        },
    ),
    CommandFamily(
        "create",
        "Write",
        {
            "new": "Start a session with its first agent.",
            "append": "Add an event, or many at once.",
            "mark": "Set a mark to return to.",
            "label": "Give an existing position a name.",
            "fork": "Start a new agent from a position of another.",
            "spawn": "Start a sub-agent with an empty context.",
            "rename": "Rename an agent.",
            "describe": "Give a session a title and tags.",
            "compact": "Replace older messages with a summary.",
        },
    ),
    CommandFamily(
        "moves",
        "Move the context",
        {
            "rewind": "Go back to a mark.",
            "jump": "Go to the context of any position, live or dead.",
            "clear": "Empty the context.",
            "undo": "Undo the last clear, rewind, jump or compaction.",
            "redo": "Undo the last undo.",
        },
    ),
    CommandFamily(
        "imports",
        "Bring histories in",
        {
            "import": "Add the histories of other tools, or an export.",
            "restore": "Put a backup in the place of the store.",
        },
    ),
    CommandFamily(
        "export",
        "Take histories out",
        {
            "export": "Write sessions, or one context, to a file.",
            "backup": "Copy the store, even while others write.",
        },
    ),
    CommandFamily(
        "removal",
        "Remove for good",
        {
            "delete": "Remove an agent for good.",
            "erase": "Remove the text of events for good.",
            "expire": "Remove sessions that have not changed for a while.",
        },
    ),
    CommandFamily(
        "checks",
        "Maintain",
        {
            "verify": "Check the whole store for damage.",
            "seal": "Print digests that later show whether anything is missing.",
            "distribute": "Spread a PostgreSQL store over many servers.",
        },
    ),
    CommandFamily(
        "serve",
        "Serve and help",
        {
            "web": "Browse the store in a web page.",
            "mcp": "Let an MCP client search and read everything.",
            "shell-completion": "Print the completion script for a shell.",
            "help": "Show how a command is used.",
        },
    ),
)
COMMANDS = {name: text for family in FAMILIES for name, text in family.summaries.items()}
ALIASES = {"tree": "agents"}
# Words that people type from habit, with the commands that they may mean.
HINTS = {"ls": "sessions or agents", "list": "sessions or agents", "rm": "delete or erase"}
# Commands that another program, such as the chat, does not run: they talk, serve, import or remove.
SHELL_ONLY = {
    *("chat", "ask", "web", "mcp", "shell-completion"),
    *("import", "restore", "delete", "erase", "expire", "distribute"),
}


def get_module(name: str) -> str:
    """Return the name of the module that has the command `name`."""
    return next(family.module for family in FAMILIES if name in family.summaries)


def list_names(name: str) -> str:
    """Return the names of a command as the help lists them."""
    aliases = [alias for alias, command in ALIASES.items() if command == name]
    return ", ".join([name, *aliases])
