"""One module per provider format, each read both ways."""
