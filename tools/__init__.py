"""Programs for maintainers: run with `python -m tools.NAME`. Nothing here is installed."""
