"""Runs an agent: models that answer, tools that they may call, and the turn loop."""
