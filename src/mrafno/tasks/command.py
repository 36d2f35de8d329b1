"""An executable, called as a process, as a task."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Array, Interpolation, Layout
from mrafno.tasks.candidates import CandidateTask, stack_outputs


class CommandTask(CandidateTask):
    """An executable that reads an input from a .npy file and writes its output to another.

    Args:
        command: the command line as one text or a list of words; ``{input}`` and ``{output}`` stand for the two files,
            ``{level}`` for the level and ``{resolution}`` for its grid as ``32x32``. No shell is involved: for ``>``
            or ``|`` write a script, or ``["sh", "-c", "program < {input} > {output}"]``.
        timeout: seconds after which one simulation is killed, with everything it started; None for no limit.
        version: as for :class:`FunctionTask`: without it results are not cached.

    The input file holds ``(in_channels, *level's grid)`` in float64, the output file is to hold
    ``(out_channels, *level's grid)`` (the channel axis may be left out where there is one).
    """

    def __init__(
        self,
        command: str | Sequence[str],
        inputs: ArrayLike,
        resolutions: Sequence[Sequence[int] | int],
        costs: Sequence[float],
        *,
        name: str = "command",
        in_channels: int | None = None,
        out_channels: int = 1,
        layout: Layout | Sequence[Layout] = "nodes",
        interpolation: Interpolation = "linear",
        zero_boundary: Sequence[tuple[bool, bool]] = (),
        timeout: float | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(
            inputs, resolutions, costs, name=name, in_channels=in_channels, out_channels=out_channels,
            layout=layout, interpolation=interpolation, zero_boundary=zero_boundary, version=version,
        )  # fmt: skip
        if isinstance(command, str) and (found := _shell_operators(command)):
            raise TaskError(
                f"{name}: the command {command!r} has {' and '.join(found)}, which only a shell understands, and none "
                "runs it. Put the command into a script, or give a shell with the command as one word: "
                f'["sh", "-c", {command!r}].'
            )
        self.command = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
        for field in ("{input}", "{output}"):
            if not any(field in word for word in self.command):
                raise TaskError(f"{name}: the command {self.command} does not name {field}. Put {field} where it goes.")
        if timeout is not None and not timeout > 0:
            raise TaskError(f"{name}: the timeout must be a positive number of seconds or None, got {timeout!r}.")
        self.timeout = timeout

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The command, the version and a digest of the candidates; None without a version."""
        return self._described(command=self.command)

    def _solve(self, f: Array, level: int) -> Array:
        return stack_outputs(self, [self._run(one, level) for one in f], level)

    def _run(self, one: Array, level: int) -> Array:
        with tempfile.TemporaryDirectory(prefix="mrafno-") as folder:
            source, target, log = (Path(folder, file) for file in ("input.npy", "output.npy", "log.txt"))
            np.save(source, one, allow_pickle=False)
            fields = {
                "{input}": str(source),
                "{output}": str(target),
                "{level}": str(level),
                "{resolution}": "x".join(map(str, self.resolutions[level])),
            }
            words = [_fill(word, fields) for word in self.command]
            self._execute(words, log)
            try:
                return np.asarray(np.load(target, allow_pickle=False))
            except FileNotFoundError:
                raise SimulationError(f"{self.name}: {words[0]} ended well but wrote no output file.") from None
            except (ValueError, OSError, EOFError) as error:
                raise SimulationError(f"{self.name}: the output of {words[0]} is not a .npy array: {error}") from None

    def _execute(self, words: list[str], log: Path) -> None:
        # Output goes to a file: a pipe would stay open, and be waited for, while any child that it left behind runs.
        with log.open("wb") as output:
            try:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
                )
            except OSError as error:
                raise SimulationError(f"{self.name}: cannot start {words[0]}: {error.strerror}.") from None
        try:
            process.wait(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            raise SimulationError(
                f"{self.name}: {words[0]} took longer than {self.timeout:g} s and was ended. "
                "Raise timeout if it needs it."
            ) from None
        finally:
            _kill_group(process)
        if process.returncode != 0:
            code = process.returncode
            how = f"was ended by a signal ({signal.strsignal(-code)})" if code < 0 else f"ended with exit code {code}"
            last = last_lines(log)
            raise SimulationError(f"{self.name}: {words[0]} {how}. It said: {' | '.join(last) or 'nothing'}")


def _shell_operators(command: str) -> list[str]:
    """Operators of the shell in a command line, such as ``>`` and ``|``, those in quotes aside."""
    plain = re.sub(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", "_", command)
    return list(dict.fromkeys(re.findall("[<>|&;]+", plain)))


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process group; its leader may have ended while a child still runs."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_lines(log: Path, lines: int = 3, size: int = 4096) -> list[str]:
    """The last lines of a file that may be large."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - size))
        return file.read().decode(errors="replace").strip().splitlines()[-lines:]


def _fill(word: str, fields: dict[str, str]) -> str:
    for field, value in fields.items():
        word = word.replace(field, value)
    return word
