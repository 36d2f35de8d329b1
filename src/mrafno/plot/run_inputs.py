"""The map of a run's inputs: where its candidates lie, what was chosen in which order and on which mesh.

The axes are the principal components of the surrogate's features of the inputs, and pairs of the inputs' parameters
where they have any. Only a run with a checkpoint has features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from mrafno.analysis.principal import principal_plane
from mrafno.grids import Array, resample
from mrafno.plot.point_map import MapPoints, input_map_figure
from mrafno.plot.text import counted
from mrafno.run.reader import RunReader
from mrafno.run.state import QueryRecord

if TYPE_CHECKING:
    from mrafno.surrogate import Surrogate

#: Candidates on the map; of more, the chosen ones and others drawn at random.
CANDIDATES = 2000
#: Test inputs on the map, pairs of parameters, inputs that are predicted at a time.
_TESTS, _PAIRS, _CHUNK = 200, 6, 200
#: What points can be coloured by.
UNCERTAINTY, ERROR, ORDER = "uncertainty now", "error before training", "step"
#: Axes by the surrogate's features.
FEATURES = "features"


@dataclass(frozen=True)
class InputMap:
    """What is known of the inputs.

    Attributes:
        rows: the candidates on the map, ``(n,)``.
        tests: ids of the test examples on the map.
        places: coordinates of candidates and then tests, by the names of the axes, each ``(n + tests, 2)``.
        titles: of the two axes, by the same names.
        uncertainty: of candidates and tests: standard deviation over the size of a typical output.
        test_errors: relative L2 errors of the tests.
    """

    rows: tuple[int, ...]
    tests: tuple[str, ...]
    places: dict[str, Array]
    titles: dict[str, tuple[str, str]]
    uncertainty: Array
    test_errors: Array


def describe(run: RunReader, found: InputMap) -> str:
    """A text below the heading of the map."""
    chosen = {q.row for q in run.state.of_kind("pool", "told")}
    pool = run.pool
    some = f"{len(found.rows)} of {pool} candidates" if len(found.rows) < pool else counted(pool, "candidate")
    axes = "Axes: the two principal components of the surrogate's features of the inputs"
    if len(found.titles) > 1:
        axes += ", or two of their parameters"
    return (
        f"{some}, of which {len(chosen)} were chosen (larger markers, one kind for each mesh), and "
        f"{counted(len(found.tests), 'test input')}. {axes}. Colours: the surrogate's uncertainty on the finest mesh "
        "now, relative to a typical output; the relative error on a chosen input before it was trained on, and on a "
        "test input now; or the step at which it was chosen. A click on a point shows the input."
    )


def input_map(run: RunReader) -> InputMap | None:
    """What is known of the inputs; None without a checkpoint."""
    from mrafno.run.scoring import scoring_grid  # imports torch

    surrogate = run.surrogate
    if surrogate is None:
        return None
    rows = _shown(run)
    tests = run.state.of_kind("test", "told")[:_TESTS]
    f_tests, y_tests = run.tests(_TESTS)
    inputs = np.concatenate([run.inputs.pool[rows], f_tests])
    grid = scoring_grid(run.task, run.state.settings.scoring_points)
    scored = resample(inputs, run.grids[-1], grid, run.task.interpolation)
    flat: list[Array] = []
    spread: list[Array] = []
    size: list[Array] = []
    for start in range(0, len(scored), _CHUNK):
        part = scored[start : start + _CHUNK]
        flat.append(surrogate.features(part, grid=grid).reshape(len(part), -1).astype(np.float32))
        prediction = surrogate.predict(part, grid=grid, check=False)
        axes = tuple(range(1, prediction.mean.ndim))
        spread.append(np.sqrt((prediction.std**2).mean(axis=axes)))
        size.append((prediction.mean**2).mean(axis=axes))
    plane, shares = principal_plane(np.concatenate(flat))
    typical = float(np.sqrt(np.concatenate(size).mean())) or 1.0
    places, titles = {FEATURES: plane}, {FEATURES: (_component(1, shares[0]), _component(2, shares[1]))}
    for pair, (first, second) in _parameter_places(run, inputs).items():
        places[" and ".join(pair)] = np.stack([first, second], axis=1)
        titles[" and ".join(pair)] = pair
    return InputMap(
        tuple(int(row) for row in rows), tuple(q.id for q in tests), places, titles,
        np.concatenate(spread) / typical, _test_errors(run, surrogate, f_tests, y_tests),
    )  # fmt: skip


def map_figure(run: RunReader, found: InputMap) -> go.Figure:
    """The figure of the map; points lead to rows of the pool and to ids of test queries."""
    n = len(found.rows)
    index = {row: place for place, row in enumerate(found.rows)}
    chosen: dict[int, QueryRecord] = {q.row: q for q in run.state.of_kind("pool", "told", "running") if q.row in index}
    before = {query.row: error for query, error in run.state.prequential_errors()}

    def points(name: str, rows: Sequence[int], level: int | None) -> MapPoints:
        at = np.array([index[row] for row in rows], dtype=int)
        colours = {UNCERTAINTY: found.uncertainty[at]}
        words = [f"candidate {row}: uncertainty {found.uncertainty[index[row]]:.3g}" for row in rows]
        if level is not None:
            steps = [chosen[row].step or 0 for row in rows]
            errors = [before.get(row, np.nan) for row in rows]
            colours |= {ORDER: np.array(steps, dtype=float), ERROR: np.array(errors)}
            words = [
                f"candidate {row}: step {step} on {run.meshes[level]}, uncertainty now "
                f"{found.uncertainty[index[row]]:.3g}" + ("" if np.isnan(error) else f", error before {error:.3g}")
                for row, step, error in zip(rows, steps, errors, strict=True)
            ]
        return MapPoints(name, rows, {k: v[at] for k, v in found.places.items()}, colours, words, level)

    kinds = [points("not chosen", [row for row in found.rows if row not in chosen], None)]
    if found.tests:
        words = [
            f"test input {id}: error now {error:.3g}" for id, error in zip(found.tests, found.test_errors, strict=True)
        ]
        colours = {UNCERTAINTY: found.uncertainty[n:], ERROR: found.test_errors}
        kinds.append(MapPoints("test", found.tests, {k: v[n:] for k, v in found.places.items()}, colours, words))
    for level, mesh in enumerate(run.meshes):
        here = sorted((row for row, q in chosen.items() if q.level == level), key=lambda row: chosen[row].step or 0)
        if here:
            kinds.append(points(f"on {mesh}", here, level))
    kinds = [kind for kind in kinds if kind.rows]
    colours_known = [UNCERTAINTY, *([ERROR] if before or found.tests else []), *([ORDER] if chosen else [])]
    return input_map_figure(kinds, found.titles, len(run.grids), colours_known)


def _shown(run: RunReader) -> list[int]:
    """Rows of the pool that are on the map."""
    every, chosen = len(run.inputs.pool), {q.row for q in run.state.of_kind("pool", "told", "running")}
    if every <= CANDIDATES:
        return list(range(every))
    rest = np.setdiff1d(np.arange(every), sorted(chosen))
    few = np.random.default_rng(0).choice(rest, max(CANDIDATES - len(chosen), 0), replace=False)
    return sorted({*chosen, *few.tolist()})


def _parameter_places(run: RunReader, inputs: Array) -> dict[tuple[str, str], tuple[Array, Array]]:
    """Values of pairs of parameters; the number of the input stands in for a second one where there is none."""
    names = list(run.split(inputs[0])[1])
    values = {name: np.array([run.split(f)[1][name] for f in inputs]) for name in names}
    if len(names) == 1:
        number = np.arange(len(inputs), dtype=float)
        return {(names[0], "number of the input"): (values[names[0]], number)}
    return {pair: (values[pair[0]], values[pair[1]]) for pair in list(combinations(names, 2))[:_PAIRS]}


def _test_errors(run: RunReader, surrogate: "Surrogate", f: Array, y: Array) -> Array:
    if not len(f):
        return np.zeros(0)
    means = [surrogate.predict(f[i : i + _CHUNK], check=False).mean for i in range(0, len(f), _CHUNK)]
    return run.errors(np.concatenate(means), y)


def _component(number: int, share: float) -> str:
    return f"component {number} ({100 * share:.0f} % of the variance)"
