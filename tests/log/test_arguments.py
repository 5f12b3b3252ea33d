"""The ids of agents with a key."""

import pytest

from backstory import Invalid
from backstory.log.arguments import derive_id, has_key, is_derived_from_key


def test_the_id_of_a_key_is_the_same_in_every_process():
    assert derive_id("chat:1") == "dee91089-6167-559a-8d20-8365d433c27d"


def test_the_id_of_each_generation_belongs_to_its_key_only():
    ids = {derive_id("chat:1", generation) for generation in range(4)}
    assert len(ids) == 4
    for id in ids:
        assert is_derived_from_key(id)
        assert has_key(id, "chat:1")


def test_a_random_id_belongs_to_no_key(monkeypatch):
    monkeypatch.setattr("backstory.log.arguments.MOST_GENERATIONS", 3)
    random = "0192f0c1-7b7a-7abc-8def-0123456789ab"
    assert not is_derived_from_key(random)
    assert not has_key(random, "chat:1")


def test_a_key_that_is_not_text_has_no_id():
    with pytest.raises(Invalid):
        derive_id(1)
