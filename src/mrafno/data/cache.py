"""Large sets of examples, simulated on all cores and cached on disk.

Every simulated function is one file, named by a digest of everything that determines its numbers: the task's identity
(name, solver revision, meshes, physical parameters), the level, and the input's bytes. So an interrupted call continues
where it stopped, a larger set reuses a smaller one, and a changed parameter never finds old numbers.
"""

import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mrafno.errors import MrafnoError, SimulationError, TaskError
from mrafno.grids import Array
from mrafno.simulation.executors import process_pool
from mrafno.simulation.packing import can_be_imported_elsewhere
from mrafno.simulation.processes import cores
from mrafno.simulation.surroundings import undisturbed
from mrafno.storage.checksum import sha256
from mrafno.storage.files import write_bytes
from mrafno.tasks.base import Task

#: Seconds of remaining work below which starting processes takes longer than it saves.
_WORTH_A_POOL = 4.0
#: Simulations per chunk: at most this many, and at most as many as take this many seconds, because an interrupted chunk
#: is lost.
_CHUNK = 20
_CHUNK_SECONDS = 2.0

#: Rows of the result -> the call that computes them: a partial and not a closure, because it is pickled.
Job = Callable[[list[int]], Callable[[], Array]]


def default_cache() -> Path:
    """``$MRAFNO_CACHE``, or ``mrafno`` in the user's cache folder."""
    own = os.environ.get("MRAFNO_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mrafno"


def make_inputs(
    task: Task,
    indices: Sequence[int] | int,
    seed: int = 0,
    *,
    cache: Path | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Array:
    """Inputs of a task, ``task.sample_at(indices, seed)``, computed on all cores and cached.

    Useful where inputs are themselves simulated (navier-stokes); other tasks draw them as fast as the cache reads.
    """
    wanted = list(range(indices)) if isinstance(indices, int) else [int(i) for i in indices]
    keys = [f"input/{seed}/{i}" for i in wanted]
    shape = (task.in_channels, *task.resolutions[-1])
    return _produce(
        task, keys, shape, lambda rows: partial(task.sample_at, [wanted[r] for r in rows], seed),
        label=f"{task.name}: inputs", cache=cache, workers=workers, progress=progress,
    )  # fmt: skip


def solve_examples(
    task: Task,
    f: Array,
    level: int,
    *,
    cache: Path | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Array:
    """Outputs ``(n, out_channels, *level's grid)`` of inputs ``f`` given on the finest grid.

    Args:
        cache: folder of the cache; None for :func:`default_cache`. A task without an identity (a
            :class:`FunctionTask` without ``version``) is not cached.
        workers: processes to use; None for one per core. Small sets are solved in this process.
        progress: show a progress bar if anything must be simulated.
    """
    inputs = task.restrict(f, level)
    keys = [f"output/{level}/{sha256(one.tobytes())}" for one in inputs]
    shape = (task.out_channels, *task.resolutions[level])
    grid = "x".join(map(str, task.resolutions[level]))
    return _produce(
        task, keys, shape, lambda rows: partial(undisturbed, task.solve, inputs[rows], level),
        label=f"{task.name}: {grid}", cache=cache, workers=workers, progress=progress,
    )  # fmt: skip


def damaged_examples(identity: str, cache: Path | None = None) -> tuple[int, list[Path]]:
    """How many simulations of a task are cached, and the files among them that are damaged.

    Args:
        identity: of the task.
    """
    folder = _Store(cache or default_cache(), identity).folder
    assert folder is not None, "a task with an identity is cached"
    files = sorted(folder.glob("*/*.npz"))
    return len(files), [path for path in files if _values(path) is None]


def _produce(
    task: Task,
    keys: list[str],
    shape: tuple[int, ...],
    job: Job,
    *,
    label: str,
    cache: Path | None,
    workers: int | None,
    progress: bool,
) -> Array:
    """An array of all rows: from the cache where it has the row, else computed and cached."""
    store = _Store(cache or default_cache(), task.identity)
    out = np.empty((len(keys), *shape))
    missing: list[int] = []
    # An input that occurs several times is simulated once.
    first: dict[str, int] = {}
    for row, key in enumerate(keys):
        if first.setdefault(key, row) != row:
            continue
        known = store.read(key, shape)
        if known is None:
            missing.append(row)
        else:
            out[row] = known
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not progress or not missing) as bar:
        ticket = bar.add_task(label, total=len(first), completed=len(first) - len(missing))
        for rows, values in _run_jobs(task, missing, job, workers or cores()):
            for row, value in zip(rows, values, strict=True):
                out[row] = value
                store.write(keys[row], value)
            bar.advance(ticket, len(rows))
    return out if len(first) == len(keys) else out[[first[key] for key in keys]]


def _run_jobs(
    task: Task,
    rows: list[int],
    job: Job,
    workers: int,
) -> Iterator[tuple[list[int], Array]]:
    """Yield finished chunks: the first from this process, the rest from a pool of processes if there is enough work."""
    size = 1  # the first row is timed
    while rows:
        chunk, rows = rows[:size], rows[size:]
        start = time.perf_counter()
        yield chunk, job(chunk)()
        seconds = (time.perf_counter() - start) / len(chunk)
        size = max(1, min(_CHUNK, int(_CHUNK_SECONDS / seconds)))
        if len(rows) > 1 and workers > 1 and seconds * len(rows) > _WORTH_A_POOL and can_be_imported_elsewhere(task):
            size = max(1, min(size, len(rows) // workers))
            yield from _run_in_pool([rows[i : i + size] for i in range(0, len(rows), size)], job, workers)
            return


def _run_in_pool(
    chunks: list[list[int]],
    job: Job,
    workers: int,
) -> Iterator[tuple[list[int], Array]]:
    pool = process_pool(workers)
    failure: MrafnoError | None = None
    try:
        futures = {pool.submit(job(chunk)): chunk for chunk in chunks}
        for future in as_completed(futures):
            try:
                values = future.result()
            except CancelledError:
                continue
            except MrafnoError as error:
                # Running chunks are finished and kept; those that have not begun are cancelled.
                failure = failure or error
                for waiting in futures:
                    waiting.cancel()
                continue
            yield futures[future], values
        if failure is not None:
            raise failure
    except BrokenProcessPool:
        raise SimulationError(
            "a worker process died; if memory ran out, use fewer workers. What was finished is kept in the cache: "
            "the same call continues where this one stopped."
        ) from None
    except (KeyboardInterrupt, GeneratorExit):
        pool.kill()  # workers ignore Ctrl-C, and a simulation may take hours
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Store:
    """Arrays by key, one .npz file each, whose zip checksum detects damage."""

    def __init__(self, folder: Path, identity: str | None) -> None:
        self.folder = None if identity is None else folder / "examples" / identity[:32]

    def _path(self, key: str) -> Path | None:
        if self.folder is None:
            return None
        digest = sha256(key.encode())
        return self.folder / digest[:2] / f"{digest[2:40]}.npz"

    def read(self, key: str, shape: tuple[int, ...]) -> Array | None:
        """The array, or None if it is missing, damaged or of another shape; then it is computed again."""
        path = self._path(key)
        if path is None:
            return None
        values = _values(path)
        return values if values is not None and values.shape == shape else None

    def write(self, key: str, values: Array) -> None:
        path = self._path(key)
        if path is None:
            return
        content = io.BytesIO()
        np.savez(content, values=values)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, content.getvalue(), durable=False)
        except OSError as error:
            raise TaskError(
                f"the example cache cannot be written: {error}. Free some space, or choose another folder with the "
                "environment variable MRAFNO_CACHE."
            ) from error


def _values(path: Path) -> Array | None:
    """The array in a file of the cache; None if it is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return np.asarray(file["values"], dtype=np.float64)
    except Exception:  # zipfile and NumPy can raise anything for a damaged file
        return None
