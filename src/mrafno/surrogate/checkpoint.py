"""Surrogates on disk: tensors as safetensors, everything else as JSON, nothing that runs code when it is read.

A checkpoint is a folder with two files::

    surrogate.json                  what it is: settings, domain, normaliser, versions, checksums
    weights-<checksum>.safetensors  what it learnt

The tensors' file is named after the beginning of its SHA-256, and ``surrogate.json`` tells the whole of it: a reader
opens no other file than the one whose content is the right one. A save first writes the tensors under their new name
and then puts the new ``surrogate.json`` in the place of the old one, in one step. Interrupted at any moment it leaves
the old checkpoint or the new one.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from mrafno._version import __version__
from mrafno.data.dataset import Normaliser
from mrafno.errors import CheckpointError, MrafnoError
from mrafno.grids import Domain, Grid
from mrafno.storage.checksum import json_sha256, sha256
from mrafno.storage.files import make_folder, write_bytes, write_json
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION, WEIGHTS, is_run, weights_file
from mrafno.surrogate.inference.base import Surrogate
from mrafno.surrogate.inference.ways import SURROGATES
from mrafno.surrogate.operator.adapters import Build
from mrafno.surrogate.operator.fno import NetworkSettings
from mrafno.surrogate.training.loop import TrainingSettings

#: Raised when a reader of the last version could misread a new file; then UPGRADES learns to read the last version's.
VERSION = 2


def _upgraded_from_1(values: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had other names for some settings and attributes."""
    network = {"reach": "stencil_radius", "refined": "correction_width"}
    training = {"few": "small_data_size", "apart": "level_embedding_scale", "held_in": "out_of_fold"}
    own = {"held_in": "out_of_fold", "learnt": "trained_levels"}

    def renamed(old: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
        return {names.get(name, name): value for name, value in old.items()}

    return {
        **renamed(values, own),
        "network": renamed(values["network"], network),
        "training": renamed(values["training"], training),
        "version": 2,
    }


#: From each older version, how its description becomes one of the next version.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _upgraded_from_1}

_FORMAT = "mrafno surrogate"


def save(surrogate: Surrogate, folder: Path | str) -> None:
    """Write a surrogate into a folder, which may hold an older checkpoint."""
    folder = Path(folder)
    tensors = {
        f"{group}:{name}": value.detach().cpu().contiguous()
        for group in surrogate.stacks
        for name, value in getattr(surrogate, group).items()
    }
    content = safetensors.torch.save(tensors)
    digest = sha256(content)
    # By way of JSON, so that tuples and numbers of NumPy's are what a reader will see.
    described = _sealed(
        json.loads(json.dumps({**_described(surrogate), "tensors": digest}, default=lambda v: v.item()))
    )
    try:
        make_folder(folder)
        write_bytes(folder / weights_file(digest), content)
        write_json(folder / DESCRIPTION, described, indent=1, allow_nan=False)
        for old in folder.glob(WEIGHTS):
            if old != folder / weights_file(digest):
                old.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {folder}: it could not be written ({error}). Make room or choose another folder; "
            "a checkpoint that was there before is untouched."
        ) from error


def load(folder: Path | str, *, device: str = "auto", model: Build | None = None) -> Surrogate:
    """Read a surrogate back, bit for bit.

    Args:
        folder: the checkpoint's, or that of a run, which keeps its last checkpoint inside and may go on meanwhile.
        device: where it will live, as for a new one.
        model: what the surrogate was made with, if its network is a module of your own: code is not in a checkpoint.
    """
    folder = _checkpoint_in(Path(folder))
    while True:
        values = _description(folder)
        try:
            return _loaded(folder, _upgraded(folder, values), device, model)
        except CheckpointError:
            # Unless a writer replaced it while it was read: then there is another one to read.
            if _description(folder) == values:
                raise


def _loaded(folder: Path, described: dict[str, Any], device: str, model: Build | None) -> Surrogate:
    tensors = _tensors(folder, described)
    try:
        _check_model(folder, described["model"], model)
        settings = {name: described[name] for name in ("seed", "dtype")}
        kind = SURROGATES[described["inference"]]
        if set(described["own"]) != set(kind.own_settings):
            raise ValueError(f"the settings of {kind.name} are {', '.join(kind.own_settings)}")
        if model is not None:
            settings["model"] = model
        surrogate = kind(domain_from_json(described["domain"]), **described["own"], **settings, device=device)
        surrogate.network_settings = NetworkSettings.from_json(described["network"])
        surrogate.training = TrainingSettings(**described["training"])
        if described["normaliser"] is not None:
            surrogate.normaliser = Normaliser.from_json(described["normaliser"])
        surrogate.shift, surrogate.fits = float(described["shift"]), int(described["fits"])
        surrogate.trained_levels = tuple(int(level) for level in described["trained_levels"])
        # Those written before coverage was measured do not say it.
        surrogate.out_of_fold = int(described.get("out_of_fold", 0))
        surrogate.coverage = {str(p): float(share) for p, share in described.get("coverage", {}).items()}
        _restore(surrogate, tensors)
    except CheckpointError:
        raise
    except (MrafnoError, KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        hint = " Is model= what it was made with?" if model is not None else ""
        raise CheckpointError(
            f"checkpoint {folder}: it is not what mrafno {__version__} writes ({type(error).__name__}: {error}).{hint} "
            "Save it again from the surrogate, or train anew."
        ) from error
    return surrogate


def domain_as_json(domain: Domain) -> dict[str, Any]:
    """A domain as JSON values."""
    return asdict(domain)


def domain_from_json(values: dict[str, Any]) -> Domain:
    """The inverse of :func:`domain_as_json`."""
    return Domain(
        in_channels=int(values["in_channels"]),
        out_channels=int(values["out_channels"]),
        grids=tuple(Grid(tuple(map(int, g["shape"])), tuple(g["layout"])) for g in values["grids"]),
        zero_boundary=tuple((bool(start), bool(end)) for start, end in values["zero_boundary"]),
    )


# The description.


def _described(surrogate: Surrogate) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": VERSION,
        "mrafno": __version__,
        "inference": surrogate.name,
        "own": {name: getattr(surrogate, name) for name in surrogate.own_settings},
        "model": None if surrogate.model is None else surrogate.model.name,
        "domain": domain_as_json(surrogate.domain),
        "network": surrogate.network_settings.as_json(),
        "training": surrogate.training.as_json(),
        "seed": surrogate.seed,
        "dtype": str(surrogate.dtype).removeprefix("torch."),
        "normaliser": None if surrogate.normaliser is None else surrogate.normaliser.as_json(),
        "shift": surrogate.shift,
        "out_of_fold": surrogate.out_of_fold,
        "coverage": surrogate.coverage,
        "trained_levels": list(surrogate.trained_levels),
        "fits": surrogate.fits,
    }


def _description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {folder}: {DESCRIPTION} cannot be read ({error.strerror}). "
            "Give the folder of a run, or one that Surrogate.save wrote."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"checkpoint {folder}: {DESCRIPTION} is damaged or no JSON ({error}). Restore it from a copy or train anew."
        ) from error
    if not isinstance(values, dict) or values.get("format") != _FORMAT:
        raise CheckpointError(
            f"checkpoint {folder}: {DESCRIPTION} does not describe a surrogate of mrafno. "
            "Give the folder that Surrogate.save wrote."
        )
    return values


def _upgraded(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The description, checked, as one of this version."""
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"checkpoint {folder}: it has format {version}, and mrafno {__version__} reads formats up to {VERSION}. "
            f"Install mrafno {values.get('mrafno')} or newer, which wrote it."
        )
    if values.get("sha256") != _sealed(values)["sha256"]:
        raise CheckpointError(
            f"checkpoint {folder}: {DESCRIPTION} is damaged or was edited: its checksum does not fit. "
            "Restore it from a copy or train anew."
        )
    while version != VERSION:
        if not isinstance(version, int) or version not in UPGRADES:
            raise CheckpointError(
                f"checkpoint {folder}: mrafno {__version__} does not read format {version}. "
                f"Read it with mrafno {values.get('mrafno')}, which wrote it, or train anew."
            )
        values = UPGRADES[version](values)
        version += 1
    return values


def _sealed(values: dict[str, Any]) -> dict[str, Any]:
    """The same with its own checksum, over values and not over spaces and the order of names."""
    rest = {name: value for name, value in values.items() if name != "sha256"}
    return {**rest, "sha256": json_sha256(rest)}


def _check_model(folder: Path, name: str | None, model: Build | None) -> None:
    if name is not None and model is None:
        raise CheckpointError(
            f"checkpoint {folder}: its network is a module of your own, {name}, and code is not kept. "
            "Pass model=, the function that builds it, to load."
        )
    if name is None and model is not None:
        raise CheckpointError(f"checkpoint {folder}: its network is mrafno's own. Leave model= out.")


# The tensors.


def _tensors(folder: Path, described: dict[str, Any]) -> dict[str, Tensor]:
    digest = described.get("tensors")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckpointError(f"checkpoint {folder}: {DESCRIPTION} has no checksum of the tensors. Train anew.")
    path = folder / weights_file(digest)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {folder}: {path.name} cannot be read ({error.strerror}). Copy the folder as a whole."
        ) from error
    if sha256(content) != digest:
        raise CheckpointError(
            f"checkpoint {folder}: {path.name} is damaged or another file: its checksum does not fit. "
            "Restore it from a copy or train anew."
        )
    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"checkpoint {folder}: {path.name} is no safetensors file ({error}).") from error


def _restore(surrogate: Surrogate, tensors: dict[str, Tensor]) -> None:
    """Put tensors where they were; a wrong name, shape or precision is an error."""
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in surrogate.stacks}
    for name, value in tensors.items():
        group, _, rest = name.partition(":")
        rest = re.sub(r"^refine\.", "corrections.", rest)  # version 1's name for them
        if value.is_floating_point() and value.dtype != surrogate.dtype:
            raise ValueError(f"{name} is {value.dtype}, not {surrogate.dtype}")
        # A copy lies where torch puts its own tensors: products round differently at odd addresses.
        groups[group][rest] = value.to(surrogate.device, copy=True)
    for group, values in groups.items():
        if values:
            expected = surrogate._blank(len(next(iter(values.values())))).state_dict()
            wrong = sorted(values.keys() ^ expected.keys())
            wrong += [name for name in values.keys() & expected.keys() if values[name].shape != expected[name].shape]
            if wrong:
                raise ValueError(f"{wrong[0]} in {group} is missing, unknown or of another shape")
        setattr(surrogate, group, values)


# Files.


def _checkpoint_in(folder: Path) -> Path:
    """The folder of the checkpoint: the given one, or the one inside if that is a run's."""
    if (folder / DESCRIPTION).exists() or not is_run(folder):
        return folder
    if not (folder / CHECKPOINT / DESCRIPTION).exists():
        raise CheckpointError(
            f"run {folder}: it has no checkpoint of its surrogate yet. One is written when the run stops or is closed, "
            "and now and then while it learns: advance it first."
        )
    return folder / CHECKPOINT
