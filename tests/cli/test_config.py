"""Settings from files and flags: known names, right types, flags first."""

import re
import sys

import pytest

from mrafno.cli import config
from mrafno.errors import RunError


@pytest.fixture
def write(tmp_path):
    def write(text, name="run.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def said(call, *arguments):
    with pytest.raises(RunError) as caught:
        call(*arguments)
    return str(caught.value)


def test_toml(write):
    path = write(
        'task = "burgers"\nsteps = 20\nbudget = 100\nasync = true\nupdate_every = 7\nlease = "none"\nalpha=1\n'
    )
    expected = {"task": "burgers", "steps": 20, "budget": 100.0, "async": True, "update_every": 7, "lease": None}
    values = config.read_file(path)
    assert values == {**expected, "alpha": 1.0}
    assert [type(values[name]) for name in ("steps", "budget", "alpha")] == [int, float, float]


def test_yaml(write):
    path = write("# a run\ntask: burgers\nbudget: 1e3\nlease: null\nisolate: yes\n", "run.yaml")
    assert config.read_file(path) == {"task": "burgers", "budget": 1000.0, "lease": None, "isolate": True}
    assert config.read_file(write("", "empty.yml")) == {}


def test_flags_take_precedence(write):
    path = write("steps = 20\nseed = 1\npool = 30\n")
    flags = {"steps": 5, "seed": None, "task": "darcy"}
    assert config.collect(flags, ["pool=40"], path) == {"task": "darcy", "steps": 5, "seed": 1, "pool": 40}


@pytest.mark.parametrize(
    ("name", "text"), [("run.toml", "seed = 1\n\nstesp = 3\n"), ("run.yaml", "seed: 1\n\nstesp: 3\n")]
)
def test_the_error_for_a_misspelt_name_has_its_line_and_the_nearest_name(write, name, text):
    path = write(text, name)
    assert said(config.read_file, path) == f"config {path}, line 3: unknown setting 'stesp'. Did you mean 'steps'?"


def test_the_error_for_an_unknown_name_lists_all_names(write):
    path = write('[zzz]\nname = "x"\n')
    known = ", ".join(sorted(config.all_settings()))
    assert said(config.read_file, path) == f"config {path}, line 1: unknown setting 'zzz'. The known ones are {known}."


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('steps = "ten"', "steps must be a whole number, got 'ten'"),
        ("steps = 10.0", "steps must be a whole number, got 10.0"),
        ("steps = true", "steps must be a whole number, got True"),
        ("steps = -1", "steps must be 0 or more, got -1"),
        ("budget = nan", "budget must be a number, got nan"),
        ("async = 1", "async must be true or false, got 1"),
        ("task = 3", "task must be text, got 3"),
        ('schedule = "linear"', "schedule must be one of exp, sigmoid, constant, got 'linear'"),
        ('targets = "all"', "targets must be a whole number or none, got 'all'"),
        ("pool = [1, 2]", "pool must be a whole number or none, got [1, 2]"),
    ],
)
def test_a_value_of_the_wrong_type(write, line, complaint):
    path = write(f"# first line\n{line}\n")
    assert said(config.read_file, path) == f"config {path}, line 2: {complaint}."


def test_invalid_toml(write):
    path = write("steps = 3\nseed\n")
    told = said(config.read_file, path)
    assert told.startswith(f"config {path} is not valid TOML: ")
    assert "(at line 2, column 5)" in told


def test_invalid_yaml(write):
    path = write("steps: 3\nseed: [1\n", "run.yml")
    assert said(config.read_file, path).startswith(f"config {path}, line 3 is not valid YAML: ")
    path = write("- 1\n- 2\n", "list.yml")
    advice = "Write a name, a colon and a value on each line, like steps: 100."
    assert said(config.read_file, path) == f"config {path} has no settings. {advice}"


def test_yaml_without_its_package(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = write("steps: 3\n", "run.yaml")
    advice = "YAML needs a package that is not installed: pip install pyyaml. Or use TOML."
    assert said(config.read_file, path) == f"config {path}: {advice}"


def test_yaml_makes_no_objects(write):
    path = write("steps: !!python/object/apply:os.getpid []\n", "run.yaml")
    assert said(config.read_file, path).startswith(
        f"config {path}, line 1 is not valid YAML: could not determine a constructor"
    )


def test_files_that_cannot_be_read(write, tmp_path):
    path = tmp_path / "none.toml"
    advice = "Give a file in TOML or YAML."
    assert said(config.read_file, path) == f"config {path} cannot be read (No such file or directory). {advice}"
    path = write("", "run.json")
    assert said(config.read_file, path).startswith(f"config {path}: the format follows from the name.")
    path.with_suffix(".toml").write_bytes(b"\xff\xfe")
    assert "(it is not text)" in said(config.read_file, path.with_suffix(".toml"))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("update_every=10", "update_every", 10),
        ("training.rate=2e-3", "training", {"rate": 0.002}),
        ("refit_growth=0", "refit_growth", 0.0),
        ("refit_growth = 1e-1", "refit_growth", 0.1),
        ("renormalise=False", "renormalise", False),
        ("lease=none", "lease", None),
        ("schedule=sigmoid", "schedule", "sigmoid"),
    ],
)
def test_settings_without_a_flag(text, name, value):
    found = config.collect({}, [text])
    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("update_every", "the form is NAME=VALUE, like refit_growth=0.1."),
        ("iteratoins=3", "unknown setting 'iteratoins'. Did you mean 'iterations'?"),
        ("training=fast", "training must be a table of settings, or NAME.SETTING=VALUE, got 'fast'."),
        ("update_every=ten", "update_every must be a whole number or none, got 'ten'."),
        ("pool=3", "pool is given twice. Give it once."),
    ],
)
def test_wrong_settings(text, complaint):
    assert said(config.collect, {"pool": 5}, [text]) == f"--setting {text}: {complaint}"


def test_parts_of_a_setting_are_collected():
    found = config.collect({}, ["training.rate=0.002", "training.update_batch=7", "network.width=8"])
    assert found == {"training": {"rate": 0.002, "update_batch": 7}, "network": {"width": 8}}
    with pytest.raises(RunError, match="training is given twice"):
        config.collect({}, ["training.rate=1", "training.rate=2"])


def test_every_setting_of_a_run_is_a_flag_or_named_in_the_help_of_setting():
    import typer

    from mrafno.cli import app
    from mrafno.run.settings import RunSettings

    flags = {param.name: param for param in typer.main.get_command(app).commands["run"].params}
    listed = re.search(r"without a flag: ([a-z_, ]+)\.", flags["setting"].help)[1].split(", ")
    assert set(config.run_settings()) == (set(flags) & set(config.run_settings())) | set(listed)
    assert not set(listed) & set(flags)
    for name, value in RunSettings().as_json().items():
        if name in flags:
            own = {
                "pool": "all inputs that a task was given, 990 of a built-in task",
                "initial": "a few with mra-auto, otherwise 10",
                "test": "200 of a built-in task, otherwise 0",
            }
            shown = own.get(name, "the preset's") if value is None else value
            assert flags[name].help.endswith(f"[default: {shown}]"), name
