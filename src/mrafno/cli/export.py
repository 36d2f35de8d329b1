"""Commands that predict with a surrogate, and export it or its examples."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from mrafno.cli import options
from mrafno.cli.program import app, print_stderr

Source = Annotated[
    Path, typer.Argument(metavar="DIR", help="A run's folder, or a checkpoint's.", show_default=False)
]  # fmt: skip
Level = Annotated[
    int | None,
    typer.Option(min=0, metavar="L", help="Level whose solver to imitate, from 0. \\[default: the finest]"),
]


@app.command(
    epilog="Examples:\n\n`mrafno predict runs/b inputs.npy`\n\n"
    "`mrafno predict runs/fin -p conductivity=0.2 -p length=3`\n\n"
    "`mrafno predict runs/darcy input.npy --grid 64x64 --out fine.npz --json`"
)
def predict(
    folder: Source,
    inputs: Annotated[
        Path | None,
        typer.Argument(
            metavar="[INPUT.npy]",
            help="Inputs on any grid: (n, channels, *grid), or one as (channels, *grid), or (*grid) of one channel. "
            "Left out where inputs are parameters only.",
            show_default=False,
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="A parameter of all inputs; once for each."),
    ] = None,
    parameters: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy", help="The parameters of each input, (n, parameters), in the task's order."),
    ] = None,
    level: Level = None,
    grid: Annotated[
        str | None,
        typer.Option(metavar="N or NxM", help="Points of the output, like 65 or 64x64. \\[default: as the input]"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for mean and std.")] = Path("prediction.npz"),
    device: options.Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Predict outputs with a run's surrogate: mean and standard deviation, as .npz.

    Prints how reliable they are: the coverage of intervals on out-of-fold examples, and the last measured error. The
    run may advance meanwhile; its last checkpoint is used.
    """
    from mrafno.export.predict import predict_file, reliability

    if parameter and parameters:
        raise typer.BadParameter("give one of the two.", param_hint="--parameter or --parameters")
    numbers = _numbers(parameter) if parameter else parameters
    found = predict_file(folder, inputs, out, parameters=numbers, level=level, grid=_shape(grid), device=device)
    for doubt in found["warnings"]:
        print_stderr(f"warning: {doubt}")
    if as_json:
        typer.echo(json.dumps(found))
        return
    shape = " x ".join(map(str, found["shape"]))
    typer.echo(f"wrote {out}: mean and std, each {shape} (functions, channels, grid)")
    if found["fits"] < found["of_fits"]:
        why = ": by the run's own estimate, the fits since are clearly worse" if found["best"] == found["fits"] else ""
        typer.echo(f"The checkpoint is that of fit {found['fits']} of {found['of_fits']}{why}.")
    for sentence in reliability(found):
        typer.echo(sentence)


@app.command(
    epilog="Examples:\n\n`mrafno export runs/b --onnx model.onnx`\n\n"
    "`mrafno export runs/b --torch model.pt2 --level 0 --hdf5 examples.hdf5`"
)
def export(
    folder: options.Folder,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The surrogate as ONNX; needs onnx, onnxscript and onnxruntime.")
    ] = None,
    torch: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The surrogate as a program of torch.export.")
    ] = None,
    hdf5: Annotated[
        Path | None, typer.Option(metavar="FILE", help="All examples in PDEBench's layout; needs h5py.")
    ] = None,
    level: Level = None,
) -> None:
    """Write a run's surrogate, or all its examples, in formats that other programs read.

    An exported surrogate takes any number of inputs on the grid of one mesh and gives mean and std, in physical units.
    It is compared with the original before it is written. The run is only read, and may advance meanwhile.
    """
    if onnx is None and torch is None and hdf5 is None:
        raise typer.BadParameter("give at least one file to write.", param_hint="--onnx, --torch or --hdf5")
    from mrafno.export.files import check_path

    for path in (onnx, torch, hdf5):
        if path is not None:
            check_path(path, folder)
    if onnx is not None or torch is not None:
        _export_surrogate(folder, onnx, torch, level)
    if hdf5 is not None:
        from mrafno.export.hdf5 import export_hdf5
        from mrafno.run.reader import RunReader

        run = RunReader(folder)
        counts = zip(export_hdf5(run, hdf5), run.meshes, strict=True)
        typer.echo(f"wrote {hdf5}: " + ", ".join(f"{n} examples of {mesh}" for n, mesh in counts))


def _export_surrogate(folder: Path, onnx: Path | None, torch: Path | None, level: int | None) -> None:
    from mrafno.export import export_onnx, export_torch, open_surrogate

    surrogate, run = open_surrogate(folder)
    about = {} if run is None else {"task": run.state.task["name"], "method": run.state.method, "seed": run.state.seed}
    for path, write in ((onnx, export_onnx), (torch, export_torch)):
        if path is not None:
            difference = write(surrogate, path, level=level, about=about)
            grid = surrogate.domain.grids[-1 if level is None else level].shape
            shape = ", ".join(map(str, ("n", surrogate.domain.in_channels, *grid)))
            typer.echo(
                f"wrote {path}: f ({shape}) to mean and std; the largest difference from the surrogate is "
                f"{difference:.1e} of the largest value"
            )


def _numbers(texts: list[str]) -> dict[str, float]:
    """Parameters by name, from texts like ``nu=0.01``."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} is not a name and a number, like nu=0.01.", param_hint="--parameter"
            ) from None
        if name in found:
            raise typer.BadParameter(f"{name!r} is given twice.", param_hint="--parameter")
        found[name] = number
    return found


def _shape(text: str | None) -> tuple[int, ...] | None:
    """A grid's shape from ``65`` or ``64x64``."""
    if text is None:
        return None
    if not re.fullmatch(r"\d+(x\d+)*", text):
        raise typer.BadParameter(f"{text!r} is not a number of points per axis, like 65 or 64x64.", param_hint="--grid")
    return tuple(int(part) for part in text.split("x"))
