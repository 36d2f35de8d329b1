"""What choices rest on: views of lists that grow, and candidates that remain, beside the same gathered anew."""

import numpy as np
import pytest

from mrafno.acquisition.base import Choice
from mrafno.run.past import Past, View
from tests import runs


def test_a_view_is_what_the_lists_held_when_it_was_made():
    first, second = [1, 2], [3, 4, 5]
    view, expected = View(first, second), (1, 2, 3, 4, 5)
    second.append(6)
    assert len(view) == 5
    assert tuple(view) == expected
    assert tuple(reversed(view)) == expected[::-1]
    assert [view[place] for place in range(-5, 5)] == [expected[place] for place in range(-5, 5)]
    for part in (slice(None), slice(-2, None), slice(4, 0, -2), slice(1, 99)):
        assert view[part] == expected[part]
    for place in (5, -6):
        with pytest.raises(IndexError):
            view[place]
    assert view == expected
    assert view != [1, 2, 3, 4]
    assert repr(view) == repr(expected)
    assert (*view, 7) == (*expected, 7)
    assert len(View()) == 0


@pytest.mark.parametrize("seed", range(3))
def test_what_remains_is_what_was_not_used(tmp_path, seed):
    rng = np.random.default_rng(seed)
    with runs.ready(tmp_path / "run", retries=1) as run:
        number = len(run.inputs.pool)
        past = Past(number)
        for _ in range(30):
            past.follow(run.state)
            used = set(run.state.used_rows("pool"))
            assert past.remaining.tolist() == sorted(set(range(number)) - used)
            pending = [Choice(q.row, q.level) for q in run.state.queries.values() if waits(run, q)]
            assert run.state.queries.pending == pending
            assert tuple(past.used(run.state, number))[-len(past.observed) or 99 :] == tuple(past.observed)
            running = run.state.running
            if running and rng.random() < 0.6:
                query = running[rng.integers(len(running))]
                if rng.random() < 0.5:
                    runs.answer(run, [run.query(query)])
                else:
                    run.fail(query.id, "no convergence")
            elif len(past.remaining):
                row = int(rng.choice(past.remaining))
                run.session.ask(1, choose=lambda n, left, row=row: [(Choice(row, row % 2), {"score": 1.0})])
        run.recorder.replay()  # another state of the same run
        past.follow(run.state)
        assert past.remaining.tolist() == sorted(set(range(number)) - set(run.state.used_rows("pool")))


def waits(run, query):
    trained = query.id in run.state.trained_on
    return query.kind == "pool" and (query.status == "running" or (query.status == "told" and not trained))
