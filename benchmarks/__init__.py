"""How fast backstory is, always as a ratio to a floor that is measured in the same run."""
