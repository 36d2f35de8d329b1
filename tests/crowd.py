"""Many processes that tell one run at the same moment, some of them killed, or ask it: ``python -m tests.crowd``.

They are forked from one that has imported everything. Prints a JSON object with what they acknowledged, or what they
were given.
"""

import contextlib
import json
import os
import random
import selectors
import signal
import sys
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


def traced(act: Callable[[], None], death: int = 0) -> int:
    """Act, and die at that call of a function; returns how many calls there were."""
    count = 0

    def called(frame: object, event: str, value: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count == death:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(called)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def main(folder: str, tellers: int, seed: int) -> None:
    settings = {**runs.SETTINGS, "initial": tellers // 2 + 1, "test": 0}
    with Run.create(folder, runs.tiny(n=tellers + 20), "mra-uhat", 0, **settings) as run:
        queries = run.ask(tellers + 1)
        answers = [(q.id, run.task.solve(q.f[None], q.level)[0]) for q in queries]

    def tell(number: int) -> None:
        telling.tell(folder, *answers[number])

    # One more tells before, to count its calls.
    counted, counting = os.pipe()
    [first] = together(1, lambda _: os.write(counting, b"%d" % traced(lambda: tell(tellers))))
    assert os.waitpid(first, 0)[1] == 0
    calls = int(os.read(counted, 20))

    # Half of them are condemned: to die at a random one of their calls, or when so many have been acknowledged. Moments
    # by the clock would be too late for all of them on a fast machine.
    rng = random.Random(seed)
    chosen = rng.sample(range(tellers), tellers // 2)
    deaths = {number: rng.randint(1, calls) for number in chosen[::2]}
    ranks = {number: rng.randrange(1, tellers // 2) for number in chosen[1::2]}
    reports = [os.pipe() for _ in range(tellers)]

    def told(number: int) -> None:
        if number in deaths:
            traced(lambda: tell(number), deaths[number])
        else:
            tell(number)
        os.write(reports[number][1], b"!")

    children = together(tellers, told)
    acknowledged = []
    with selectors.DefaultSelector() as waiting:
        for number, (reading, writing) in enumerate(reports):
            os.close(writing)
            waiting.register(reading, selectors.EVENT_READ, number)
        while waiting.get_map():
            for key, _ in waiting.select():
                waiting.unregister(key.fd)
                if os.read(key.fd, 1):
                    acknowledged.append(answers[key.data][0])
            for number in [number for number, rank in ranks.items() if rank <= len(acknowledged)]:
                del ranks[number]
                os.kill(children[number], signal.SIGKILL)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(ends) <= {0, -signal.SIGKILL}, ends
    killed = sum(end == -signal.SIGKILL for end in ends)
    print(json.dumps({"acknowledged": acknowledged, "killed": killed, "queries": tellers}))


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
