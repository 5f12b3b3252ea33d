"""Tools that a model may call: what a tool is, and the ones for working in a folder.

    Tool.of(function)            a tool from a function with type hints and a docstring
    working_tools(folder)        glob, grep, read_file, write_file, edit_file, bash

A tool prepares an action from arguments, and the action returns text. It knows nothing about
agents, logs or models.
"""

from backstory.runtime.tools.tool import Action, Tool, ToolError
from backstory.runtime.tools.workspace import working_tools

__all__ = ["Action", "Tool", "ToolError", "working_tools"]
