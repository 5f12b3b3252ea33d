"""One module per command or family of commands."""
