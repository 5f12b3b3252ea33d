"""The classes of the formats have the same methods in the same order."""

import pytest

from backstory.wire import FORMATS
from backstory.wire.formats import get_format
from backstory.wire.formats.base import Format
from backstory.wire.formats.blocks import BlockFormat


def list_methods(format_class):
    """Return the names of the public methods of a class, in the order of its source."""
    return [
        name
        for name, value in vars(format_class).items()
        if callable(value) and not name.startswith("_")
    ]


@pytest.mark.parametrize("format_class", [BlockFormat, *(type(get_format(f)) for f in FORMATS)])
def test_the_methods_of_a_format_are_in_the_order_of_its_base(format_class):
    order = list_methods(Format)
    names = [name for name in list_methods(format_class) if name in order]
    assert names == sorted(names, key=order.index)
