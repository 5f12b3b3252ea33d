"""Parameters of a request as people write them."""

import math

import pytest

from backstory.errors import Invalid
from backstory.runtime.parameters import parameter, parameters


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, "inf", True, 1.5, 0])
def test_a_number_outside_its_range_is_refused(value):
    with pytest.raises(Invalid, match="use a whole number from 1 to"):
        parameters({"max_tokens": value})


@pytest.mark.parametrize("name", ["efort", "effort.x", "openai.", ".x", ""])
def test_a_name_of_no_parameter_is_refused(name):
    with pytest.raises(Invalid, match="there is no parameter"):
        parameter(name, "low")


def test_a_parameter_of_a_format_becomes_part_of_the_formats_table():
    assert parameters({"openai.seed": "7", "openai.user": "u", "effort": "low"}) == {
        "openai": {"seed": 7, "user": "u"},
        "effort": "low",
    }
    assert parameters({"openai": {"user": "u"}, "openai.seed": 7}) == {
        "openai": {"user": "u", "seed": 7}
    }
