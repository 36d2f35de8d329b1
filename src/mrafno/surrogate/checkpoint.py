"""Surrogates on disk: tensors as safetensors, everything else as JSON, nothing that runs code when it is read.

A checkpoint is a folder with two files::

    surrogate.json                  settings, domain, normaliser, versions, checksums
    weights-<checksum>.safetensors  the trained tensors

The tensors' file is named after the beginning of its SHA-256, and ``surrogate.json`` contains all of it, so a reader
opens only the file with the right content. A save first writes the tensors under their new name and then replaces
``surrogate.json`` in one step. Interrupted at any moment it leaves the old checkpoint or the new one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors
import safetensors.torch
from torch import Tensor

from mrafno._version import __version__
from mrafno.data.dataset import Normaliser
from mrafno.errors import CheckpointError, LedgerError, MrafnoError
from mrafno.grids import Domain, Grid
from mrafno.storage.checksum import json_sha256, sha256
from mrafno.storage.files import make_folder, read_bytes, write_bytes, write_json
from mrafno.storage.layout import CHECKPOINT, DESCRIPTION, WEIGHTS, is_run, weights_file
from mrafno.surrogate.operator.adapters import BuildNetwork, NetworkFactory
from mrafno.surrogate.operator.fno import NetworkSettings
from mrafno.surrogate.seen import SeenInputs
from mrafno.surrogate.training.policy import TrainingPolicy
from mrafno.surrogate.training.settings import TrainingSettings
from mrafno.surrogate.upgrades import UPGRADES, VERSION

if TYPE_CHECKING:
    from mrafno.surrogate.inference.base import Surrogate

#: A class by the name of its inference and its own name.
ClassKey = tuple[str, str]

_FORMAT = "mrafno surrogate"


def class_key(kind: "type[Surrogate]") -> ClassKey:
    """How a checkpoint identifies a class: by names, whichever module it was imported from."""
    return getattr(kind, "name", ""), kind.__name__


def save(surrogate: "Surrogate", folder: Path | str) -> None:
    """Write a surrogate into a folder, which may hold an older checkpoint."""
    folder = Path(folder)
    tensors = {
        f"{group}:{name}": value.detach().cpu().contiguous()
        for group in surrogate.stacks
        for name, value in getattr(surrogate, group).items()
    }
    content = safetensors.torch.save(tensors)
    digest = sha256(content)
    # Converted to JSON and back, so that the checksum is over what a reader will see, not over tuples or NumPy numbers.
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


def load(
    folder: Path | str,
    kinds: "Mapping[ClassKey, type[Surrogate]]",
    *,
    device: str = "auto",
    network_factory: BuildNetwork | None = None,
) -> "Surrogate":
    """Read a surrogate, bit for bit.

    Args:
        folder: of the checkpoint, or of a run, which keeps its last checkpoint inside and may advance meanwhile.
        kinds: the classes to look for, by :func:`class_key`.
        device: as for the constructor.
        network_factory: what the surrogate was made with, if its network is a module of your own: a checkpoint has
            no code.
    """
    folder = _checkpoint_in(Path(folder))
    while True:
        values = _description(folder)
        try:
            return _loaded(folder, _upgraded(folder, values), kinds, device, network_factory)
        except CheckpointError:
            # If a writer replaced it while it was read, read the new one.
            if _description(folder) == values:
                raise


def verify(folder: Path) -> None:
    """Raise :class:`CheckpointError` unless the files of a checkpoint are there and intact."""
    while True:
        values = _description(folder)
        try:
            _tensors(folder, _upgraded(folder, values))
        except CheckpointError:
            if _description(folder) == values:
                raise
        else:
            return


def _loaded(
    folder: Path,
    described: dict[str, Any],
    kinds: "Mapping[ClassKey, type[Surrogate]]",
    device: str,
    network_factory: BuildNetwork | None,
) -> "Surrogate":
    tensors = _tensors(folder, described)
    try:
        _check_network(folder, described["network_class"], network_factory)
        settings = {name: described[name] for name in ("seed", "dtype")}
        kind = _kind(folder, described, kinds)
        if set(described["own"]) != set(kind.own_settings):
            raise ValueError(f"{kind.__name__} has the settings {', '.join(kind.own_settings) or 'of every surrogate'}")
        if network_factory is not None:
            settings["network_factory"] = network_factory
        surrogate = kind(domain_from_json(described["domain"]), **described["own"], **settings, device=device)
        surrogate.network_settings = NetworkSettings.from_json(described["network"])
        surrogate.training = TrainingSettings(**described["training"])
        surrogate.policy = TrainingPolicy(**described["policy"])
        if described["normaliser"] is not None:
            surrogate.normaliser = Normaliser.from_json(described["normaliser"])
        surrogate.shift, surrogate.fits = float(described["shift"]), int(described["fits"])
        surrogate.trained_levels = tuple(int(level) for level in described["trained_levels"])
        # The first checkpoints of format 1 have no coverage.
        surrogate.out_of_fold_count = int(described.get("out_of_fold_count", 0))
        surrogate.coverage = {str(p): float(share) for p, share in described.get("coverage", {}).items()}
        if described.get("seen") is not None:  # versions 0.1 and 0.2 have none
            surrogate.seen = SeenInputs.from_json(described["seen"])
        _restore(surrogate, tensors)
    except CheckpointError:
        raise
    except (MrafnoError, KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        hint = " Is network_factory what it was made with?" if network_factory is not None else ""
        raise CheckpointError(
            f"checkpoint {folder}: it is not what mrafno {__version__} writes ({type(error).__name__}: {error}).{hint} "
            "Save it again from the surrogate, or train from scratch."
        ) from error
    return surrogate


def _kind(folder: Path, described: dict[str, Any], kinds: "Mapping[ClassKey, type[Surrogate]]") -> "type[Surrogate]":
    inference, class_path = str(described["inference"]), str(described["class"])
    name = class_path.rpartition(".")[2]
    if (inference, name) not in kinds:
        raise CheckpointError(
            f"checkpoint {folder}: its surrogate is of the class {class_path} ({inference}), which is not one of "
            f"mrafno's. Import that class and call its own load: {name}.load({str(folder)!r})."
        )
    return kinds[inference, name]


def domain_as_json(domain: Domain) -> dict[str, Any]:
    """A domain as JSON values."""
    return asdict(domain)


def domain_from_json(values: dict[str, Any]) -> Domain:
    """The inverse of :func:`domain_as_json`."""
    return Domain(
        in_channels=int(values["in_channels"]),
        out_channels=int(values["out_channels"]),
        grids=tuple(Grid.from_json(g) for g in values["grids"]),
        zero_boundary=tuple((bool(start), bool(end)) for start, end in values["zero_boundary"]),
        # Earlier checkpoints know of no parameters.
        parameters=tuple(map(str, values.get("parameters", ()))),
        log_parameters=tuple(map(str, values.get("log_parameters", ()))),
    )


# The description.


def _described(surrogate: "Surrogate") -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": VERSION,
        "mrafno": __version__,
        "inference": surrogate.name,
        "class": f"{type(surrogate).__module__}.{type(surrogate).__qualname__}",
        "own": {name: getattr(surrogate, name) for name in surrogate.own_settings},
        "network_class": None if surrogate.network_factory is None else surrogate.network_factory.name,
        "domain": domain_as_json(surrogate.domain),
        "network": surrogate.network_settings.as_json(),
        "training": surrogate.training.as_json(),
        "policy": surrogate.policy.as_json(),
        "seed": surrogate.seed,
        "dtype": str(surrogate.dtype).removeprefix("torch."),
        "normaliser": None if surrogate.normaliser is None else surrogate.normaliser.as_json(),
        "shift": surrogate.shift,
        "seen": None if surrogate.seen is None else surrogate.seen.as_json(),
        "out_of_fold_count": surrogate.out_of_fold_count,
        "coverage": surrogate.coverage,
        "trained_levels": list(surrogate.trained_levels),
        "fits": surrogate.fits,
    }


def _description(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        values = json.loads(read_bytes(path, advice="Give the folder of a run, or one that Surrogate.save wrote."))
    except LedgerError as error:
        raise CheckpointError(f"checkpoint {folder}: {DESCRIPTION} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"checkpoint {folder}: {DESCRIPTION} is damaged or no JSON ({error}). "
            "Restore it from a copy or train from scratch."
        ) from error
    if not isinstance(values, dict) or values.get("format") != _FORMAT:
        raise CheckpointError(
            f"checkpoint {folder}: {DESCRIPTION} does not describe a surrogate of mrafno. "
            "Give the folder that Surrogate.save wrote."
        )
    return values


def _upgraded(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The description, checked, in the present format."""
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(
            f"checkpoint {folder}: it has format {version}, and mrafno {__version__} reads formats up to {VERSION}. "
            f"Install mrafno {values.get('mrafno')} or newer, which wrote it."
        )
    if values.get("sha256") != _sealed(values)["sha256"]:
        raise CheckpointError(
            f"checkpoint {folder}: {DESCRIPTION} is damaged or was edited: its checksum does not fit. "
            "Restore it from a copy or train from scratch."
        )
    while version != VERSION:
        if not isinstance(version, int) or version not in UPGRADES:
            raise CheckpointError(
                f"checkpoint {folder}: mrafno {__version__} does not read format {version}. "
                f"Read it with mrafno {values.get('mrafno')}, which wrote it, or train from scratch."
            )
        values = UPGRADES[version](values)
        version += 1
    return values


def _sealed(values: dict[str, Any]) -> dict[str, Any]:
    """The description with a checksum of its values, which is independent of spaces and of the order of names."""
    rest = {name: value for name, value in values.items() if name != "sha256"}
    return {**rest, "sha256": json_sha256(rest)}


def _check_network(folder: Path, name: str | None, network_factory: BuildNetwork | None) -> None:
    if name is None and network_factory is not None:
        raise CheckpointError(f"checkpoint {folder}: its network is mrafno's own. Leave network_factory out.")
    if name is not None and network_factory is None:
        raise CheckpointError(
            f"checkpoint {folder}: its network is a module of your own, {name}, and a checkpoint has no code. "
            "Pass network_factory=, the function that builds it, to load."
        )
    if name is not None and network_factory is not None:
        built = NetworkFactory(network_factory).name
        # The module that defines the class may have another name, for instance __main__.
        if built.rpartition(".")[2] != name.rpartition(".")[2]:
            raise CheckpointError(
                f"checkpoint {folder}: its network is {name}, but network_factory builds {built}. "
                "Pass the function that the surrogate was made with."
            )


# The tensors.


def _tensors(folder: Path, described: dict[str, Any]) -> dict[str, Tensor]:
    digest = described.get("tensors")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise CheckpointError(f"checkpoint {folder}: {DESCRIPTION} has no checksum of the tensors. Train from scratch.")
    path = folder / weights_file(digest)
    try:
        content = read_bytes(path, advice="Copy the folder as a whole.")
    except LedgerError as error:
        raise CheckpointError(f"checkpoint {folder}: {path.name} cannot be read: {error}") from error
    if sha256(content) != digest:
        raise CheckpointError(
            f"checkpoint {folder}: {path.name} is damaged or another file: its checksum does not fit. "
            "Restore it from a copy or train from scratch."
        )
    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"checkpoint {folder}: {path.name} is no safetensors file ({error}).") from error


def _restore(surrogate: "Surrogate", tensors: dict[str, Tensor]) -> None:
    """Set the trained tensors; a wrong name, shape or precision raises ValueError."""
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in surrogate.stacks}
    for name, value in tensors.items():
        group, _, rest = name.partition(":")
        rest = re.sub(r"^refine\.", "corrections.", rest)  # their name in format 1
        if value.is_floating_point() and value.dtype != surrogate.dtype:
            raise ValueError(f"{name} is {value.dtype}, not {surrogate.dtype}")
        # Copied to memory that torch aligns: products round differently at unaligned addresses.
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
    """The folder of the checkpoint: the given one, or the one inside a run's directory."""
    if (folder / DESCRIPTION).exists() or not is_run(folder):
        return folder
    if not (folder / CHECKPOINT / DESCRIPTION).exists():
        raise CheckpointError(
            f"run {folder}: it has no checkpoint of its surrogate yet. One is written when the run stops or is closed, "
            "and repeatedly while it trains: advance it first."
        )
    return folder / CHECKPOINT
