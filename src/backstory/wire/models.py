"""Names of models: which of them are one model under two names."""

import re

# What providers put behind a model's name: a date, "latest", a revision, Bedrock's version.
_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}|latest)$")
_VERSION = re.compile(r"-v\d+(:\d+)?$")
# And in front of it: Google's collection, Bedrock's region.
_PLACE = re.compile(r"^(models/|(us|eu|apac|jp|au|ca|global|us-gov)\.)")


def is_same_model(one: str | None, other: str | None) -> bool:
    """Whether two names are of one model: the same, or one of them dated and the other bare."""
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    (name, date), (other_name, other_date) = _apart(one), _apart(other)
    return name == other_name and (date == other_date or "" in (date, other_date))


def _apart(name: str) -> tuple[str, str]:
    """A name without its place and version, and the date apart."""
    bare = _VERSION.sub("", _PLACE.sub("", name))
    found = _DATE.search(bare)
    date = found[1] if found else ""
    return _DATE.sub("", bare), "" if date == "latest" else date
