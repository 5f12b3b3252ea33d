"""Spreading a store over servers, where there are none. On a cluster: storage/test_citus.py."""

import pytest

import backstory
from tests import databases


def test_a_store_that_is_not_on_a_cluster_is_not_distributed(store):
    if databases.CITUS and store.url.startswith("postgresql"):
        pytest.skip("this one is")
    with pytest.raises(backstory.Invalid) as refused:
        store.distribute()
    assert "Citus extension" in f"{refused.value} {refused.value.remedy}"
    assert store.start("main").user("still works").seq == 1
