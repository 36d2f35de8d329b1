"""Many processes that tell one run at the same moment, some of them killed, or ask it: ``python -m tests.crowd``.

They are forked from one that has imported everything. Prints a JSON object with what they acknowledged, or what they
were given.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mrafno.cli.ask_tell  # noqa: F401  the command
from mrafno.cli.program import app
from mrafno.run import Run, telling
from tests import runs


def together(number: int, act: Callable[[int], None]) -> list[int]:
    """Fork processes that act at the same moment; their ids. One whose act raises ends with 1."""
    gate, opened = os.pipe()
    children = []
    for place in range(number):
        child = os.fork()
        if not child:
            code = 1
            try:
                os.close(opened)
                os.read(gate, 1)  # until all are there
                act(place)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(opened)
    return children


def ask(folder: str, askers: int) -> None:
    """Each asks for one simulation with ``mrafno ask --wait``; prints how each ended, and what it printed."""
    settings = {**runs.SETTINGS, "initial": askers // 2, "test": 0}
    Run.create(folder, runs.tiny(n=askers + 20), "mra-uhat", 0, **settings).close()

    def asked(number: int) -> None:
        with Path(f"{folder}-{number}.json").open("w") as file, contextlib.redirect_stdout(file):
            app(["ask", folder, "-n", "1", "--wait", "100"], standalone_mode=False)

    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in together(askers, asked)]
    given = [json.loads(Path(f"{folder}-{number}.json").read_text() or "[]") for number in range(askers)]
    print(json.dumps({"ends": ends, "given": given}))


def main(folder: str, tellers: int, seed: int) -> None:
    settings = {**runs.SETTINGS, "initial": tellers // 2, "test": 0}
    with Run.create(folder, runs.tiny(n=tellers + 20), "mra-uhat", 0, **settings) as run:
        queries = run.ask(tellers)
        answers = [(q.id, run.task.solve(q.f[None], q.level)[0]) for q in queries]
    rng = random.Random(seed)
    reports = [(id, *os.pipe()) for id, _ in answers]

    def told(number: int) -> None:
        telling.tell(folder, *answers[number])
        os.write(reports[number][2], b"!")

    children = together(tellers, told)
    for _, _, writing in reports:
        os.close(writing)
    start = time.monotonic()
    # Half of them are condemned, at moments in which many are at work.
    deaths = sorted((rng.uniform(0.0, 0.02 * tellers), child) for child in rng.sample(children, tellers // 2))
    for moment, child in deaths:
        time.sleep(max(0.0, start + moment - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(ends) <= {0, -signal.SIGKILL}, ends
    acknowledged = [id for id, reading, _ in reports if os.read(reading, 1)]
    killed = sum(end == -signal.SIGKILL for end in ends)
    print(json.dumps({"acknowledged": acknowledged, "killed": killed, "queries": tellers}))


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
