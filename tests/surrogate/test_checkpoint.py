import hashlib
import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import mrafno
from mrafno.data.dataset import Dataset
from mrafno.errors import CheckpointError
from mrafno.grids import Domain, Grid
from mrafno.surrogate import SURROGATES, Ensemble, Surrogate, Variational, checkpoint, get_surrogate

DOMAINS = {
    1: Domain(1, 2, (Grid((9,), ("nodes",)), Grid((17,), ("nodes",))), ((True, True),)),
    2: Domain(2, 1, (Grid((6, 5), ("cells", "periodic")),), ((True, False), (False, False))),
}
SETTINGS = {
    "ensemble": {"members": 2},
    "point": {},
    "dropout": {"rate": 0.3, "samples": 3},
    "sgld": {"samples": 2, "burn_in": 0.5, "step": 1e-5},
    "svi": {"samples": 2, "start": 2e-3},
}


def examples(domain, n=6, seed=0):
    rng = np.random.default_rng(seed)
    pairs = [
        [rng.normal(size=(n, c, *g.shape)) for c in (domain.in_channels, domain.out_channels)] for g in domain.grids
    ]
    return Dataset.of(domain, [tuple(pair) for pair in pairs])


def fitted(name="ensemble", dim=1, **settings):
    domain = DOMAINS[dim]
    small = {"width": 4, "modes": (2,) * dim, "layers": 2, "hidden": 6, "bins": 2}
    surrogate = get_surrogate(
        name, domain, network=small, training={"iterations": 4, "batch": 3, "rate": 1e-3},
        **{"seed": 7, **SETTINGS[name], **settings},
    )  # fmt: skip
    surrogate.fit(examples(domain))
    return surrogate


@pytest.fixture(scope="module")
def ensemble():
    return fitted()


@pytest.fixture(scope="module")
def newer():
    return fitted(seed=8)


@pytest.fixture
def folder(tmp_path, ensemble):
    ensemble.save(tmp_path / "c")
    return tmp_path / "c"


def tensor_file(folder):
    (path,) = folder.glob("*.safetensors")
    return path


def assert_same(a, b):
    """Bit for bit: settings, weights and predictions."""
    assert type(a) is type(b)
    for name in (
        *a.own_settings, "domain", "network_settings", "training", "seed", "dtype", "normaliser", "shift", "fits",
        "trained_levels",
    ):  # fmt: skip
        assert getattr(a, name) == getattr(b, name), name
    for group in a.stacks:
        mine, other = getattr(a, group), getattr(b, group)
        assert mine.keys() == other.keys()
        for name, value in mine.items():
            assert value.dtype == other[name].dtype
            assert torch.equal(value, other[name]), (group, name)
    f = examples(a.domain, seed=1).inputs[-1]
    one, two = a.predict(f), b.predict(f)
    assert np.array_equal(one.samples, two.samples)
    assert np.array_equal(one.log_var, two.log_var)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", SURROGATES)
def test_round_trip_is_bitwise(name, dim, tmp_path):
    surrogate = fitted(name, dim)
    surrogate.save(tmp_path)
    assert_same(surrogate, Surrogate.load(tmp_path))


@pytest.mark.parametrize("name", SURROGATES)
def test_training_continues_from_a_checkpoint_bitwise(name, tmp_path):
    surrogate = fitted(name)
    surrogate.save(tmp_path)
    again = Surrogate.load(tmp_path)
    more = examples(surrogate.domain, n=8)
    for one in (surrogate, again):
        one.fit(more, kind="refit", iterations=3)
    assert_same(surrogate, again)


def test_float64_numpy_numbers_and_an_unfitted_surrogate(tmp_path):
    surrogate = fitted(dtype="float64", seed=np.int64(3), members=np.int64(2))
    surrogate.save(tmp_path / "double")
    assert_same(surrogate, Surrogate.load(tmp_path / "double"))
    fresh = Ensemble(DOMAINS[1], preset="paper")
    checkpoint.save(fresh, tmp_path / "fresh")
    again = Ensemble.load(tmp_path / "fresh")
    assert (again.weights, again.normaliser, again.network_settings) == ({}, None, fresh.network_settings)


class Shrunk(Ensemble):
    """A surrogate from outside the package: members of an ensemble that predict a fraction of their mean."""

    name = "shrunk"
    own_settings = ("members", "factor")

    def __init__(self, domain, *, factor=0.5, **settings):
        self.factor = factor
        super().__init__(domain, **settings)

    def predict(self, f, level=None, **options):
        found = super().predict(f, level, **options)
        return type(found)(self.factor * found.samples, found.log_var)


class Constant(Surrogate):
    """One derived from Surrogate itself, with a constructor of its own."""

    name = "constant"
    own_settings = ("value",)

    def __init__(self, domain, *, value=1.0, **settings):
        self.value = value
        super().__init__(domain, **settings)

    def _fit(self, batches, settings, warm):
        history = self._optimise(batches, settings, warm)
        with torch.no_grad():
            self.weights = {name: torch.full_like(value, self.value) for name, value in self.weights.items()}
        return history


class Unnamed(Ensemble):
    """A subclass that keeps the name of its base class."""


@pytest.mark.parametrize(
    "make", [lambda d, **s: Shrunk(d, factor=0.25, members=2, **s), lambda d, **s: Constant(d, value=0.5, **s), Unnamed]
)
def test_a_class_from_outside_is_saved_and_loaded_by_itself(make, tmp_path):
    surrogate = make(DOMAINS[1], network={"width": 4, "modes": (2,), "layers": 2, "hidden": 6})
    surrogate.fit(examples(DOMAINS[1]), iterations=3)
    surrogate.save(tmp_path)
    kind = type(surrogate)
    assert_same(surrogate, kind.load(tmp_path))
    message = rf"of the class \S*{kind.__name__} .*call its own load: {kind.__name__}\.load"
    for other in (Surrogate, Ensemble):
        with pytest.raises(CheckpointError, match=message):
            other.load(tmp_path)


def test_a_class_from_outside_does_not_read_another_class(folder):
    with pytest.raises(CheckpointError, match="of the class Ensemble, not Shrunk"):
        Shrunk.load(folder)


def test_a_kind_reads_only_its_own(folder):
    assert isinstance(Ensemble.load(folder), Ensemble)
    with pytest.raises(CheckpointError, match="holds a surrogate of the class Ensemble, not Variational"):
        Variational.load(folder)


@pytest.mark.parametrize("domain", DOMAINS.values())
def test_domain_survives_json(domain):
    assert checkpoint.domain_from_json(json.loads(json.dumps(checkpoint.domain_as_json(domain)))) == domain


def test_saving_again_leaves_one_checkpoint_and_other_files(folder, newer):
    (folder / "notes.txt").write_text("mine")
    newer.save(folder)
    assert_same(newer, Surrogate.load(folder))
    assert sorted(p.name for p in folder.iterdir()) == sorted(["notes.txt", "surrogate.json", tensor_file(folder).name])


class Died(BaseException):
    """Stands for a process that is killed."""


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_files_follow_the_umask(tmp_path, ensemble, mask):
    before = os.umask(mask)
    try:
        ensemble.save(tmp_path / "saved")
    finally:
        os.umask(before)
    files = list((tmp_path / "saved").iterdir())
    assert len(files) == 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}


@pytest.mark.parametrize("call", ["fsync", "replace", "unlink"])
@pytest.mark.parametrize("time", range(4))
def test_an_interrupted_save_leaves_the_old_or_the_new_checkpoint(folder, ensemble, newer, monkeypatch, call, time):
    left = [time]
    owner = os if call == "fsync" else Path
    real = getattr(owner, call)

    def deadly(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise Died
        return real(*arguments, **options)

    monkeypatch.setattr(owner, call, deadly)
    try:
        newer.save(folder)
        died = False
    except Died:
        died = True
    monkeypatch.undo()
    found = Surrogate.load(folder)
    assert_same(found, newer if found.seed == 8 else ensemble)
    assert died or found.seed == 8


def test_a_full_disk_raises_an_error_and_keeps_the_old_checkpoint(folder, ensemble, newer, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left"):
        newer.save(folder)
    monkeypatch.undo()
    assert_same(ensemble, Surrogate.load(folder))
    assert len(list(folder.iterdir())) == 2


def test_every_flipped_byte_of_the_tensors_is_found(folder):
    path = tensor_file(folder)
    good = path.read_bytes()
    for position in np.linspace(0, len(good) - 1, 20).astype(int):
        bad = bytearray(good)
        bad[position] ^= 1
        path.write_bytes(bad)
        with pytest.raises(CheckpointError, match="damaged"):
            Surrogate.load(folder)


def test_a_flipped_byte_of_the_description_is_found_or_changes_nothing(folder, ensemble):
    path = folder / "surrogate.json"
    good = path.read_bytes()
    found = 0
    for position in range(0, len(good), 7):
        bad = bytearray(good)
        bad[position] ^= 1
        path.write_bytes(bad)
        try:
            again = Surrogate.load(folder)
        except CheckpointError:
            found += 1
        else:
            assert (again.normaliser, again.shift, again.seed) == (ensemble.normaliser, ensemble.shift, ensemble.seed)
    assert found > len(good) // 14


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
@pytest.mark.parametrize("which", ["surrogate.json", "*.safetensors"])
def test_truncation_is_found(folder, which, share):
    (path,) = folder.glob(which)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(CheckpointError, match="damaged"):
        Surrogate.load(folder)


@pytest.mark.parametrize("which", ["surrogate.json", "*.safetensors"])
def test_a_missing_file_is_named(folder, which):
    (path,) = folder.glob(which)
    path.unlink()
    with pytest.raises(CheckpointError, match=f"{path.name} cannot be read"):
        Surrogate.load(folder)


def test_no_folder_or_a_file_instead_of_one(tmp_path, ensemble):
    with pytest.raises(CheckpointError, match=r"surrogate\.json cannot be read"):
        Surrogate.load(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="could not be written"):
        ensemble.save(tmp_path / "file")


@pytest.mark.parametrize("text", ["[]", "3", '{"format": "other"}', "{}", "[" * 100_000, "\x00"])
def test_other_json_raises_an_error(folder, text):
    (folder / "surrogate.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"surrogate\.json"):
        Surrogate.load(folder)


class Trap:
    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def resealed(folder, content=None, **changes):
    """A wrong description with right checksums."""
    path = folder / "surrogate.json"
    values = {**json.loads(path.read_text()), **changes}
    if content is not None:
        values["tensors"] = hashlib.sha256(content).hexdigest()
        (folder / f"weights-{values['tensors'][:16]}.safetensors").write_bytes(content)
    path.write_text(json.dumps(checkpoint._sealed(values)))


@pytest.mark.parametrize("sealed", [False, True])
def test_a_pickle_is_never_opened(folder, sealed):
    content = pickle.dumps(Trap())
    if sealed:
        resealed(folder, content)
    else:
        tensor_file(folder).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"no safetensors|damaged"):
        Surrogate.load(folder)
    assert not Trap.sprung


@pytest.mark.parametrize("digest", ["../../etc/passwd", "A" * 64, 3, None, "0" * 63])
def test_a_description_cannot_name_another_file(folder, digest):
    resealed(folder, tensors=digest)
    with pytest.raises(CheckpointError, match="no checksum of the tensors"):
        Surrogate.load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "float16"},
        {"dtype": "float64"},
        {"own": {}},
        {"own": {"members": 2, "device": "cpu"}},
        {"domain": {}},
        {"network": {"width": 3}},
        {"training": {"iterations": "many"}},
        {"normaliser": {"in_mean": 1}},
        {"fits": None},
    ],
)
def test_wrong_settings_raise_an_error(folder, changes):
    resealed(folder, **changes)
    with pytest.raises(CheckpointError, match="not what mrafno"):
        Surrogate.load(folder)


def test_an_unknown_inference_raises_an_error(folder):
    resealed(folder, inference="guess")
    with pytest.raises(CheckpointError, match=r"\(guess\), which is not one of mrafno's"):
        Surrogate.load(folder)


def test_wrong_tensors_raise_an_error(folder):
    tensors = safetensors.torch.load_file(tensor_file(folder))
    name = "weights:lift_in.bias"
    for changed in (
        {k: v for k, v in tensors.items() if k != name},
        {**tensors, "weights:more": torch.zeros(2)},
        {**tensors, "elsewhere:x": torch.zeros(2)},
        {**tensors, name: torch.zeros(2, 5, 1)},
        {**tensors, name: tensors[name].double()},
    ):
        resealed(folder, safetensors.torch.save(changed))
        with pytest.raises(CheckpointError, match="not what mrafno"):
            Surrogate.load(folder)


def test_a_newer_format_says_what_to_install(folder):
    values = json.loads((folder / "surrogate.json").read_text())
    (folder / "surrogate.json").write_text(json.dumps({**values, "version": 9, "mrafno": "4.2.0"}))
    with pytest.raises(CheckpointError, match=r"Install mrafno 4\.2\.0"):
        Surrogate.load(folder)


def test_an_older_format_loads_if_it_is_known(folder, ensemble, monkeypatch):
    """Two formats to come, of which the first counts fits from one."""
    monkeypatch.setattr(checkpoint, "VERSION", 6)
    monkeypatch.setattr(checkpoint, "UPGRADES", {4: lambda v: {**v, "fits": v["fits"] + 1}, 5: lambda v: v})
    again = Surrogate.load(folder)
    assert again.fits == ensemble.fits + 1
    monkeypatch.setattr(checkpoint, "UPGRADES", {5: lambda v: v})
    with pytest.raises(CheckpointError, match="does not read format 4"):
        Surrogate.load(folder)


def test_nothing_is_unpickled_anywhere():
    """Neither by the module itself nor by what uses it; the surrogate does not write any either.

    Three modules send a task to another process through a pipe, which is no file.
    """
    source = Path(mrafno.__file__).parent
    pipes = {source / "simulation" / name for name in ("child_process.py", "child_program.py", "packing.py")}
    for path in sorted(set(source.rglob("*.py")) - pipes):
        text = path.read_text().replace("safetensors.torch.", "").replace("allow_pickle=False", "")
        words = ["import pickle", "Unpickler", "torch.load(", "torch.save(", "shelve", "joblib", "allow_pickle"]
        for word in [*words, "pickle"] if "surrogate" in path.relative_to(source).parts else words:
            assert word not in text, (path, word)
        assert not re.search(r"from pickle import .*load", text), path


# Coverage, and folders of runs.


def test_coverage_is_kept_and_may_be_missing(ensemble, tmp_path):
    """The first checkpoints have no coverage."""
    ensemble.save(tmp_path)
    again = Surrogate.load(tmp_path)
    assert (again.out_of_fold_count, again.coverage) == (ensemble.out_of_fold_count, ensemble.coverage)
    values = json.loads((tmp_path / "surrogate.json").read_bytes())
    older = {name: value for name, value in values.items() if name not in ("out_of_fold_count", "coverage")}
    (tmp_path / "surrogate.json").write_text(json.dumps(checkpoint._sealed(older)))
    older = Surrogate.load(tmp_path)
    assert (older.out_of_fold_count, older.coverage) == (0, {})
    assert older.shift == ensemble.shift


def test_the_folder_of_a_run_will_do(ensemble, tmp_path):
    (tmp_path / "ledger.jsonl").write_text("")
    with pytest.raises(CheckpointError, match="it has no checkpoint of its surrogate yet"):
        Surrogate.load(tmp_path)
    ensemble.save(tmp_path / "surrogate")
    f = np.ones((1, 1, 17))
    np.testing.assert_array_equal(Surrogate.load(tmp_path).predict(f).samples, ensemble.predict(f).samples)


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_read_again(ensemble, newer, tmp_path, monkeypatch):
    ensemble.save(tmp_path)
    read, saved = checkpoint._tensors, []

    def slow(folder, described):
        if not saved:
            saved.append(newer.save(tmp_path))  # removes the tensors that are about to be read
        return read(folder, described)

    monkeypatch.setattr(checkpoint, "_tensors", slow)
    assert Surrogate.load(tmp_path).seed == newer.seed
