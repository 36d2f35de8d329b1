"""Many processes that tell one run at the same moment, some of which are killed: ``python -m tests.crowd``.

They are forked from one that has imported everything. Prints a JSON object with what they acknowledged.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from mrafno.run import Run, telling
from tests import runs


def main(folder: str, tellers: int, seed: int) -> None:
    settings = {**runs.SETTINGS, "initial": tellers // 2, "test": 0}
    with Run.create(folder, runs.tiny(n=tellers + 20), "mra-uhat", 0, **settings) as run:
        queries = run.ask(tellers)
        answers = [(q.id, run.task.solve(q.f[None], q.level)[0]) for q in queries]
    rng = random.Random(seed)
    gate, opened = os.pipe()
    reports = []
    children = []
    for id, y in answers:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                os.close(opened)
                os.read(gate, 1)  # until all are there
                telling.tell(folder, id, y)
                os.write(writing, b"!")
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        reports.append((id, reading))
        children.append(child)
    os.close(opened)
    start = time.monotonic()
    # Half of them are condemned, at moments in which many are at work.
    deaths = sorted((rng.uniform(0.0, 0.02 * tellers), child) for child in rng.sample(children, tellers // 2))
    for moment, child in deaths:
        time.sleep(max(0.0, start + moment - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(ends) <= {0, -signal.SIGKILL}, ends
    acknowledged = [id for id, reading in reports if os.read(reading, 1)]
    killed = sum(end == -signal.SIGKILL for end in ends)
    print(json.dumps({"acknowledged": acknowledged, "killed": killed, "queries": tellers}))


if __name__ == "__main__":
    main(str(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]))
