"""Runs of a study: their names, settings and ends."""

import pytest

from mrafno.errors import MrafnoError, RunError
from mrafno.run.settings import RunSettings
from mrafno.studies.active import Entry, Job, read, run_job
from tests.studies.tiny import choices, ignore, tiny_setup

MRA, HIGH = Entry.parse("mra-uhat"), Entry.parse("random-high")


def test_a_run_is_named_by_what_determines_it():
    usual = RunSettings()
    assert Job.of("burgers", "mra-uhat", 2, usual).name == "burgers-mra-uhat-exp-0.01-seed2"
    assert Job.of("burgers", "random-mix", 0, usual).name == "burgers-random-mix-seed0"
    names = {
        Job.of(task, method, seed, RunSettings.of(**changes), own).name
        for task, method, seed, changes, own in [
            ("burgers", "mra-u", 0, {}, None),
            ("darcy", "mra-u", 0, {}, None),
            ("burgers", "mra-uhat", 0, {}, None),
            ("burgers", "mra-u", 1, {}, None),
            ("burgers", "mra-u", 0, {"alpha": 0.02}, None),
            ("burgers", "mra-u", 0, {"schedule": "sigmoid"}, None),
            ("burgers", "mra-u", 0, {"members": 4}, None),
            ("burgers", "mra-u", 0, {"members": 3}, None),
            ("burgers", "mra-u", 0, {}, {"resolutions": ((9,), (17,))}),
        ]
    }
    assert len(names) == 9


def test_a_schedule_that_a_method_does_not_use_is_not_in_the_name():
    other = RunSettings(alpha=0.5, schedule="sigmoid")
    for method in ("random-low", "mra-auto"):
        assert Job.of("burgers", method, 0, other) == Job.of("burgers", method, 0, RunSettings())
    true = [Job.of("burgers", "mra-u", 0, RunSettings(schedule="constant", alpha=a)).name for a in (0.1, 0.2)]
    assert true == ["burgers-mra-u-constant-seed0"] * 2


def test_all_seeds_of_all_methods_once():
    setup = tiny_setup(seeds=2, first_seed=5)
    found = setup.jobs([MRA, HIGH, Entry.parse("mra-uhat@0.01")])
    assert [(job.method, job.seed) for job in found] == [
        ("mra-uhat", 5), ("random-high", 5), ("mra-uhat", 6), ("random-high", 6),
    ]  # fmt: skip


def test_entries_with_schedules_of_their_own():
    assert Entry.parse(" mra-u@0.5 ").changes == {"alpha": 0.5}
    assert Entry.parse("mra-u@constant").changes == {"schedule": "constant"}
    assert Entry.parse("mra-u@sigmoid:0.5").changes == {"alpha": 0.5, "schedule": "sigmoid"}
    with pytest.raises(MrafnoError, match="unknown method"):
        Entry.parse("magic")
    with pytest.raises(MrafnoError, match="METHOD@ALPHA"):
        Entry.parse("mra-u@fast")
    with pytest.raises(MrafnoError, match="no cost schedule"):
        Entry.parse("random-low@0.5")
    with pytest.raises(RunError, match="unknown schedule 'slow'"):
        tiny_setup().job(Entry.parse("mra-u@slow:0.5"), 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 0}, "0 steps"),
        ({"seeds": 0}, "0 seeds"),
        ({"budget": 0.0}, "budget must be positive"),
        ({"settings": RunSettings(test=0)}, "nothing to compare"),
        ({"task": "heat", "task_settings": {}}, "unknown task"),
    ],
)
def test_invalid_setups(changes, said):
    with pytest.raises(MrafnoError, match=said):
        tiny_setup(**changes)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of six steps in one go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRAFNO_CACHE", str(tmp_path_factory.getbasetemp() / "studies-cache"))
        setup = tiny_setup(steps=6)
        return run_job(setup.job(MRA, 0), tmp_path_factory.mktemp("straight"), setup, ignore)


def test_more_steps_extend_a_run(tmp_path, straight):
    """The same choices: these runs learn after every step, so that learning at the end changes nothing."""
    for steps in (2, 6):
        setup = tiny_setup(steps=steps)
        state = run_job(setup.job(MRA, 0), tmp_path, setup, ignore)
        assert state.step == steps
        assert setup.ended(state)
    assert choices(state) == choices(straight)
    assert state.error_curve() == straight.error_curve()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_run_with_a_budget_is_the_beginning_of_a_longer_one(tmp_path, straight):
    price = [straight.queries[id].cost for id in straight.queries if straight.queries[id].kind == "pool"]
    setup = tiny_setup(steps=6, budget=sum(price[:2]) + 0.5)
    for _ in range(2):
        state = run_job(setup.job(MRA, 0), tmp_path, setup, ignore)
        assert setup.ended(state)
    assert state.step == 3
    assert choices(state) == choices(straight)[:3]
    assert [e.step for e in state.evaluations] == [0, 2, 3]
    assert state.error_curve().errors[:2] == straight.error_curve().errors[:2]


def test_a_budget_ends_runs_that_train_rarely(tmp_path):
    settings = RunSettings.of(**{**tiny_setup().settings.as_json(), "refit_growth": 1.0})
    setup = tiny_setup(steps=6, budget=1.0, settings=settings)
    state = run_job(setup.job(HIGH, 0), tmp_path, setup, ignore)
    assert (state.step, len(state.trainings), len(state.not_trained_on)) == (1, 2, 0)


def test_an_interrupted_run_is_continued(tmp_path, straight):
    setup = tiny_setup(steps=6)
    job = setup.job(MRA, 0)

    def interrupt(state, phase):
        if state.step == 3 and phase == "training":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job, tmp_path, setup, interrupt)
    assert not setup.ended(read(job, tmp_path))
    state = run_job(job, tmp_path, setup, ignore)
    assert choices(state) == choices(straight)
    assert state.error_curve() == straight.error_curve()


def test_the_pool_ends_a_run(tmp_path):
    setup = tiny_setup(steps=50, settings=RunSettings.of(**{**tiny_setup().settings.as_json(), "pool": 3}))
    for _ in range(2):
        state = run_job(setup.job(HIGH, 0), tmp_path, setup, ignore)
        assert setup.ended(state)
    assert [e.step for e in state.evaluations] == [0, 2, 3]


def test_a_directory_with_other_settings_is_refused(tmp_path):
    setup = tiny_setup(steps=2)
    job = setup.job(HIGH, 0)
    run_job(job, tmp_path, setup, ignore)
    other = Job(job.task, job.method, job.seed, RunSettings.of(**{**job.settings.as_json(), "members": 3}), {})
    (tmp_path / job.name).rename(tmp_path / other.name)
    with pytest.raises(MrafnoError, match="other settings: members 2 instead of 3"):
        read(other, tmp_path)
