"""Examples on a run's page: the last queries and test inputs."""

import re

from mrafno.run.reader import RunReader
from tests.made_runs import real_run
from tests.report.conftest import cells, sections_of


def test_an_array_that_is_damaged_leaves_the_rest_readable(copy):
    query = RunReader(copy).state.of_kind("pool")[-1]
    (copy / query.output.file).write_bytes(b"")
    rows = cells(sections_of(copy)["Last queries"][1])
    assert "q000009-output.npy" in rows["4"]["input"].markup
    assert "polyline" in rows["3"]["input"].markup


def test_predictions_of_a_real_run(tmp_path_factory):
    real = real_run(tmp_path_factory)
    sections = sections_of(real)
    fits = len(RunReader(real).state.trainings)
    assert f"after fit {fits} of {fits}" in sections["Last queries"][0]
    row = cells(sections["Last queries"][1])["4"]
    assert all("data:image/png" in row[name].markup for name in ("input", "truth", "prediction now", "spread now"))
    errors = []
    for name in ("smallest", "median", "largest"):
        text, panels = sections[f"Test input with the {name} error"]
        assert [figure.data[0].z.shape for _, figure in panels.figures] == [(8, 8)] * 5
        errors.append(float(re.search("error ([0-9.]+):", text)[1]))
    assert errors == sorted(errors)
