"""Running what is missing of a study."""

import pytest

from mrafno.studies import active, runner
from mrafno.studies.active import Entry, read, results, run_job
from mrafno.studies.runner import prepare, run_jobs
from tests.studies.tiny import choices, ignore, tiny_setup

MRA, HIGH = Entry.parse("mra-uhat"), Entry.parse("random-high")


def test_finished_runs_are_kept_and_a_failure_does_not_stop_the_others(tmp_path, monkeypatch):
    setup = tiny_setup(steps=2, seeds=1)
    low, mix = Entry.parse("random-low"), Entry.parse("random-mix")
    todo = setup.jobs([HIGH, low, mix])
    run_job(todo[0], tmp_path, setup, ignore)
    really = active.run_job

    def sometimes(job, *rest):
        if job.method == "random-high":
            pytest.fail("done again")
        if job.method == "random-low":
            raise ZeroDivisionError("by zero")
        return really(job, *rest)

    monkeypatch.setattr(runner, "run_job", sometimes)
    news = []
    failures = run_jobs(todo, tmp_path, setup, workers=1, watch=lambda job, one: news.append((job.method, one.phase)))
    assert list(failures) == [todo[1].name]
    assert "ZeroDivisionError: by zero" in failures[todo[1].name]
    assert "sometimes" in (tmp_path / f"{todo[1].name}.error.txt").read_text()
    assert news[:2] == [("random-high", "kept"), ("random-low", "failed")]
    assert news[-1] == ("random-mix", "ended")
    found = results(setup, [HIGH, low, mix], tmp_path)
    assert list(found) == ["random-high", "random-mix"]
    assert found["random-high"][0].counts() == [0, 2]


def test_initial_examples_are_simulated_once_for_all_methods(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(runner, "solve_examples", lambda task, f, level, **_: made.append((level, len(f))))
    prepare(tiny_setup(seeds=1).jobs([MRA, HIGH]), tmp_path, 1)
    assert made == [(0, 3), (1, 3), (1, 4)]


@pytest.mark.slow
def test_workers_give_the_runs_of_one(tmp_path):
    setup = tiny_setup(steps=4, seeds=1)
    todo = setup.jobs([MRA, HIGH])
    phases = {job.name: [] for job in todo}
    for workers in (1, 2):
        prepare(todo, tmp_path / str(workers), workers)
        failures = run_jobs(
            todo, tmp_path / str(workers), setup, workers=workers,
            watch=lambda job, one: phases[job.name].append(one.phase),
        )  # fmt: skip
        assert not failures
    alone, together = (results(setup, [MRA, HIGH], tmp_path / str(workers)) for workers in (1, 2))
    for label, (run,) in alone.items():
        assert choices(run.state) == choices(together[label][0].state)
        assert run.curve.errors == pytest.approx(together[label][0].curve.errors, rel=1e-3)
    assert all(some.count("ended") == 2 and "training" in some for some in phases.values())


@pytest.mark.slow
def test_an_interruption_stops_the_workers_and_the_same_call_continues(tmp_path):
    setup = tiny_setup(steps=6, seeds=1)
    todo = setup.jobs([MRA, HIGH])

    def interrupt(job, news):
        if news.step >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(todo, tmp_path, setup, workers=2, watch=interrupt)
    run_jobs(todo, tmp_path, setup, workers=1, watch=lambda *_: None)
    assert all(setup.ended(read(job, tmp_path)) for job in todo)
