"""The commands: one module for each, of the same name, or for a family of them.

This table is all that the help and the completion need, so that neither has to import a command. Each summary
exists only here: `options.command` puts it at the top of the command's help.
"""

SECTIONS = {
    "Talk to a model": {
        "chat": "Chat with a model that has tools and remembers.",
        "ask": "Ask one question and print the answer.",
    },
    "Look": {
        "agents": "List all agents, as a tree for each session.",
        "sessions": "List the sessions, the most recent last.",
        "log": "List all events, live and dead.",
        "show": "Show one event in full.",
        "context": "Show what the model sees, as text or as a request.",
        "marks": "List the marks that you can rewind to.",
        "explain": "Say why an event is or is not in the context.",
        "diff": "Compare two agents, or two positions of one.",
        "notes": "List what programs keep beside the messages.",
        "settings": "Show or set the model, tools and parameters in force.",
        "search": "Find words in all sessions, in live and dead events.",
        "web": "Look at everything in a browser.",
        "mcp": "Let an MCP client search and read everything.",
    },
    "Write": {
        "new": "Start a session with its first agent.",
        "append": "Add an event, or many at once.",
        "mark": "Set a mark to return to.",
        "label": "Give an existing position a name.",
        "rewind": "Go back to a mark.",
        "jump": "Go to the context of any position, live or dead.",
        "clear": "Empty the context.",
        "undo": "Undo the last clear, rewind, jump or compaction.",
        "redo": "Undo the last undo.",
        "fork": "Start a new agent from a position of another.",
        "spawn": "Start a sub-agent with an empty context.",
        "rename": "Rename an agent.",
        "describe": "Give a session a title and tags.",
        "compact": "Replace older messages with a summary.",
    },
    "Maintain": {
        "export": "Write sessions, or one context, to a file.",
        "import": "Add the histories of other tools, or an export.",
        "backup": "Copy the store, even while others write.",
        "restore": "Put a backup in the place of the store.",
        "delete": "Remove an agent for good.",
        "erase": "Remove the text of events for good.",
        "expire": "Remove sessions that have not changed for a while.",
        "distribute": "Spread a PostgreSQL store over many servers.",
        "verify": "Check the whole store for damage.",
        "seal": "Print digests that later show whether anything is missing.",
        "stats": "Count events, bytes and tokens.",
        "shell-completion": "Print the completion script for a shell.",
    },
}
COMMANDS = {name: summary for section in SECTIONS.values() for name, summary in section.items()}
ALIASES = {"tree": "agents"}
FAMILIES = {  # modules of several commands
    "moves": ("rewind", "clear", "jump", "undo", "redo"),
    "notes": ("notes", "settings"),
    "removal": ("delete", "erase", "expire"),
}


def module_of(name: str) -> str:
    """The module of a command."""
    for family, names in FAMILIES.items():
        if name in names:
            return family
    return "import_" if name == "import" else name.replace("-", "_")


def names_of(name: str) -> str:
    """A command with its other names, as the help lists it."""
    return ", ".join((name, *(alias for alias, real in ALIASES.items() if real == name)))
