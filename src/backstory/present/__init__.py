"""Histories as people and programs read them, for the command line, the chat and the page."""
