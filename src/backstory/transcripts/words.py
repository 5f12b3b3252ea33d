"""The words that a format uses: types, roles and states. Pure."""


class Words(frozenset[str]):
    """A set of words that can be asked about anything: a broken record may have a list in the place of a
    word, and a list cannot be looked up in a plain set."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and _has(self, value)


_has = frozenset.__contains__  # `super()` would take as long again
