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
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from mrafno.errors import SimulationError, TaskError
from mrafno.grids import Array
from mrafno.tasks.base import Costs
from mrafno.tasks.candidates import CandidateSettings, CandidateTask, DrawInputs, stack_outputs
from mrafno.tasks.rows import Rows
from mrafno.tasks.source import source_of_command

#: What stands in braces for something other than a parameter.
_FIELDS = ("input", "output", "parameters", "level", "resolution")


class CommandTask(CandidateTask):
    """An executable that reads an input from a .npy file and writes its output to another.

    Args:
        command: the command line as one text or a list of words. No shell is involved: for ``>`` or ``|`` write a
            script, or ``["sh", "-c", "program < {input} > {output}"]``. ``{input}`` stands for a file with the
            functions of an input, ``(channels, *level's grid)`` in float64; ``{output}`` for the file for the output,
            ``(out_channels, *level's grid)`` (the channel axis may be left out where there is one); ``{parameters}``
            for a file with the parameters of an input, ``(p,)`` in float64; ``{nu}`` for the value of the parameter
            that is named nu, with all its digits; ``{level}`` for the level; ``{resolution}`` for its grid, as
            ``32x32``.
        inputs, resolutions, costs: candidates, meshes and prices; these and all other arguments are those of
            :class:`CandidateTask`.
        timeout: seconds after which one simulation is killed, with everything it started; None for no limit.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        inputs: ArrayLike | Rows | DrawInputs | None = None,
        resolutions: Sequence[Sequence[int] | int] = (),
        costs: Costs = (),
        *,
        timeout: float | None = None,
        **settings: Unpack[CandidateSettings],
    ) -> None:
        settings.setdefault("name", "command")
        super().__init__(inputs, resolutions, costs, **settings)
        if isinstance(command, str) and (found := _shell_operators(command)):
            raise TaskError(
                f"{self.name}: the command {command!r} has {' and '.join(found)}, which only a shell understands, and "
                "none runs it. Put the command into a script, or give a shell with the command as one word: "
                f'["sh", "-c", {command!r}].'
            )
        self.command = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
        own = [name for name in self.parameters if name in _FIELDS]
        if own:
            raise TaskError(f"{self.name}: {{{own[0]}}} stands for something else in a command. Rename the parameter.")
        self._check_fields()
        if timeout is not None and not timeout > 0:
            raise TaskError(f"{self.name}: the timeout must be a positive number of seconds or None, got {timeout!r}.")
        self.timeout = timeout

    def describe_simulator(self) -> str | None:
        """The command line and the text of the files that it names."""
        return source_of_command(self.command)

    @property
    def configuration(self) -> dict[str, Any] | None:
        """The command, the version and a digest of the candidates; None without a version."""
        return self._described(command=self.command)

    def _check_fields(self) -> None:
        """Raise :class:`TaskError` unless the command names what an input has, and the output."""
        needed = ["{input}", "{output}"] if self.domain.function_channels else ["{output}"]
        if not self._names("{parameters}"):
            needed += [f"{{{name}}}" for name in self.parameters]
        for field in needed:
            if not self._names(field):
                whole = ", or {parameters}, a file with all of them" if field[1:-1] in self.parameters else ""
                raise TaskError(
                    f"{self.name}: the command {self.command} does not name {field}. Put {field} where it goes{whole}."
                )

    def _names(self, field: str) -> bool:
        return any(field in word for word in self.command)

    def _solve(self, f: Array, level: int) -> Array:
        pairs = zip(*self._given(f), strict=True)
        return stack_outputs(self, [self._run(one, numbers, level) for one, numbers in pairs], level)

    def _run(self, one: Array, parameters: Array, level: int) -> Array:
        with tempfile.TemporaryDirectory(prefix="mrafno-") as folder:
            source, numbers, target, log = (
                Path(folder, file) for file in ("input.npy", "parameters.npy", "output.npy", "log.txt")
            )
            np.save(source, one, allow_pickle=False)
            np.save(numbers, parameters, allow_pickle=False)
            fields = {
                "{input}": str(source),
                "{output}": str(target),
                "{parameters}": str(numbers),
                **{f"{{{name}}}": repr(float(value)) for name, value in zip(self.parameters, parameters, strict=True)},
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
