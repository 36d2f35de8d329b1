"""The search for garbage is paused, goes on, and finds what it did before."""

import gc
import weakref

import pytest

from mrafno.storage.garbage import no_collection


class Node:
    pass


def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)


def test_the_search_goes_on_afterwards():
    before = cycle()
    with no_collection():
        assert not gc.isenabled()
        with no_collection():
            inside = cycle()
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert (before(), inside()) == (None, None)
    with pytest.raises(ZeroDivisionError), no_collection():
        1 / 0  # noqa: B018
    assert gc.isenabled()


def test_what_was_made_is_not_searched_at_once():
    with no_collection():
        made = [[number] for number in range(100_000)]
    assert gc.get_count()[0] < 1000
    assert len(made) == 100_000


def test_what_somebody_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        assert frozen
        with no_collection():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()


def test_a_search_that_was_off_stays_off():
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
