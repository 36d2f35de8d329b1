"""Random sequences of asks, answers, leases, kills, second writers and damage keep what a run promises.

Hypothesis draws the sequences and shortens one that fails. The quick profile is part of `make test`; `make
test-properties` runs thousands of sequences, as many as MRAFNO_SEQUENCES says.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mrafno.acquisition.base import Choice
from mrafno.errors import LedgerError, RunError
from mrafno.run import Run, telling
from mrafno.run.answers import Answer, leave_answer, untaken
from mrafno.run.check import check_run
from mrafno.run.repair import repair_run
from mrafno.run.state import RunState
from mrafno.storage.ledger import Ledger
from tests import runs

SEQUENCES = int(os.environ.get("MRAFNO_SEQUENCES", "12"))
LEASE, BUDGET = 100.0, 60.0
#: What was done in all sequences.
DONE = Counter()


class Clock:
    """The time of leases."""

    def __init__(self):
        self.now = 1e9

    def time(self):
        return self.now

    def __getattr__(self, name):
        import time

        return getattr(time, name)


class RunMachine(RuleBasedStateMachine):
    """A run, and what was acknowledged of it."""

    def __init__(self):
        super().__init__()
        self.patches = contextlib.ExitStack()
        self.clock = Clock()
        # What survives a crash of the machine is tested elsewhere; here a process dies at most.
        self.patches.enter_context(patch("os.fsync"))
        self.patches.enter_context(patch("mrafno.run.session.time", self.clock))
        self.place = Path(tempfile.mkdtemp(prefix="mrafno-properties-"))
        self.folder = self.place / "run"
        #: Outputs that were told, by query, of those that were acknowledged; and of those in the inbox.
        self.told, self.task = {}, runs.tiny()
        self.asked = set()

    @initialize()
    def create(self):
        own = {"initial": 2, "test": 1, "pool": 6, "retries": 1, "lease": LEASE}
        self.run = runs.create(self.folder, task=self.task, **own)
        self.rng = np.random.default_rng(0)
        DONE["sequences"] += 1

    def teardown(self):
        if hasattr(self, "run"):
            self.run.ledger.close()
        self.patches.close()
        shutil.rmtree(self.place, ignore_errors=True)

    # What can happen.

    @rule(n=st.integers(1, 4), pick=st.integers(0, 5), level=st.integers(0, 1))
    def ask(self, n, pick, level):
        def choose(n, left):
            free = [row for row in range(6) if row not in self.run.state.used_rows("pool")]
            free = free[pick % (len(free) or 1) :]
            price = runs.COSTS[level]
            most = n if left is None else min(n, int(left // price))
            return [(Choice(row, level), {"score": 1.0}) for row in free[:most]]

        queries = self.run.session.ask(n, choose=choose, budget=BUDGET)
        for query in queries:
            assert query.id not in self.asked, "an id is given once"
            self.asked.add(query.id)
        assert not queries or self.run.session.committed() <= BUDGET
        DONE["asks"] += 1

    @rule(n=st.integers(1, 7), pick=st.integers(0, 5), level=st.integers(0, 1))
    def work(self, n, pick, level):
        """What runs do most of the time: ask, and answer what waits."""
        self.ask(n, pick, level)
        for _ in range(n):
            self.tell(0, False)

    def some(self, pick, *statuses):
        found = [q for q in self.run.state.queries.values() if q.status in statuses]
        return found[pick % len(found)] if found else None

    def output(self, record):
        return runs.smooth(
            self.run.session.inputs.of("pool" if record.from_pool else record.kind, record.row)[:, :: 2 - record.level],
            record.level,
        )

    @rule(pick=st.integers(0, 30), late=st.booleans())
    def tell(self, pick, late):
        record = self.some(pick, *(("running", "expired") if late else ("running",)))
        if record is not None:
            y = self.output(record)
            if self.answered(record, lambda: self.run.tell(record.id, y)):
                self.told[record.id] = y
            DONE["tells"] += 1

    @rule(pick=st.integers(0, 30), what=st.sampled_from(["fail", "abandon"]))
    def close(self, pick, what):
        record = self.some(pick, "running")
        if record is not None:
            self.answered(record, lambda: getattr(self.run, what)(record.id, "no convergence"))
            DONE["failures"] += 1

    def answered(self, record, answer):
        """Give an answer; returns whether it was accepted, which only one that waits in the inbox can prevent."""
        waiting = {message.query for message in untaken(self.folder, self.run.state)}
        try:
            answer()
        except RunError:
            assert record.id in waiting
            return False
        return True

    @rule(pick=st.integers(0, 30), held=st.booleans())
    def tell_from_another_process(self, pick, held):
        record = self.some(pick, "running", "expired")
        if record is None:
            return
        y = self.output(record)
        if not held:
            self.run.ledger.close()
        try:
            receipt = telling.tell(self.folder, record.id, y)
        except RunError as error:
            if "already" not in str(error):  # it is in the inbox
                raise
        else:
            assert receipt.refused is None
            self.told[record.id] = y
        if not held:
            self.reopen()
        DONE["tells of others"] += 1

    @rule(pick=st.integers(0, 30))
    def answer_twice(self, pick):
        record = self.some(pick, "running", "told")
        if record is not None:
            leave_answer(self.folder, Answer(record.id, "failed", reason="both were sure"))
            if record.status == "running" and record.id not in self.told:
                self.run.session.take_in()
            DONE["second answers"] += 1

    @rule()
    def leases_end(self):
        self.clock.now += LEASE + 1
        self.run.session.expire()
        DONE["leases"] += 1

    @rule(how=st.sampled_from(["plain", "torn", "array", "message"]), size=st.integers(1, 200))
    def kill(self, how, size):
        """The driver dies between two writes, in the middle of a line or an array, or before it removes a message."""
        if how == "message":
            with patch("mrafno.run.session.remove_message"), patch("mrafno.run.session.refuse_message"):
                self.run.session.take_in()
        self.run.ledger.close()
        if how == "torn":
            line = b'{"v":1,"n":%d,"t":1.5,"kind":"told","data":{"id":"q000000"},"after":"' % len(
                self.run.ledger.events
            )
            with (self.folder / "ledger.jsonl").open("ab") as file:
                file.write((line + b"0" * 200)[:size])
        if how == "array":
            (self.folder / "arrays").mkdir(exist_ok=True)
            with (self.folder / "arrays" / "000000.pack").open("ab") as file:
                file.write(b"\x93NUMPY" * size)
        self.reopen()
        DONE["kills"] += 1

    def reopen(self):
        self.run = Run.open(self.folder, self.task)

    @rule(pick=st.integers(0, 30))
    def second_writer(self, pick):
        """Somebody removes the lock, and opens the run too."""
        record = self.some(pick, "running")
        if record is None:
            return
        (self.folder / "lock").unlink()
        y = self.output(record)
        with Run.open(self.folder, self.task) as second:
            if second.state.queries[record.id].status == "running":
                second.tell(record.id, y)
                self.told[record.id] = y
                with pytest.raises(LedgerError, match="somebody else has written"):
                    self.run.fail(record.id, "not known here")
        self.run.ledger.close()
        self.reopen()
        DONE["second writers"] += 1

    @precondition(lambda self: len(self.run.ledger.events) > 3)
    @rule(where=st.floats(0, 1), bit=st.integers(0, 7), what=st.sampled_from(["ledger.jsonl", "pack", "copy", "inbox"]))
    def damage(self, where, bit, what):
        names = {"pack": "arrays/*.pack", "copy": "ledger.copy.jsonl", "inbox": "inbox/*.msg"}
        paths = sorted(self.folder.glob(names.get(what, what)))
        if not paths:
            return
        before = RunState.of(Ledger.open(self.folder).events)
        waiting = {message.name for message in untaken(self.folder, before)}
        self.run.ledger.close()
        content = bytearray(paths[0].read_bytes())
        content[int(where * (len(content) - 1))] ^= 1 << bit
        paths[0].write_bytes(content)
        found = check_run(self.folder)
        lost = {one.query for one in found.damage if one.part == "output"}
        messages = [one for one in found.damage if one.what == "inbox"]
        assert found.intact or what in ("pack", "inbox") or not (lost or messages)
        # A flipped bit is found, unless it is in what no event names.
        assert not found.intact or what in ("pack", "copy")
        done = repair_run(self.folder, self.task)
        assert not done.unusable
        assert check_run(self.folder).intact
        assert set(done.again) <= lost
        left = {message.name for message in untaken(self.folder, RunState.of(Ledger.open(self.folder).events))}
        assert left == waiting - {one.path.name for one in messages}
        # A message that was damaged brought an answer, unless the query was answered before.
        for id in lost | {one.query for one in messages if before.queries[one.query].output is None}:
            self.told.pop(id, None)
        self.reopen()
        DONE["flips"] += 1

    # What is promised.

    @invariant()
    def nothing_acknowledged_is_lost_and_replay_is_the_live_state(self):
        if not hasattr(self, "run"):
            return
        reader = Ledger.open(self.folder)
        state = RunState.of(reader.events)
        waiting = {message.query for message in untaken(self.folder, state)}
        for id, y in self.told.items():
            output = state.queries[id].output
            assert output is not None or id in waiting
            if output is not None:
                np.testing.assert_array_equal(reader.read_array(output), y)
        # Replay is the live state.
        assert reader.events == self.run.ledger.events
        assert state == self.run.state
        assert json.dumps(state.as_json()) == json.dumps(self.run.state.as_json())
        for kind in ("initial", "pool", "test"):
            assert state.used_rows(kind) == self.run.state.used_rows(kind)

    @invariant()
    def no_simulation_counts_twice_and_no_budget_is_passed(self):
        if hasattr(self, "run"):
            holding = [q for q in self.run.state.queries.values() if q.status in ("running", "told")]
            # A row counts the inputs of its kind, or candidates.
            same = Counter((q.kind, q.candidate is None, q.row, q.level) for q in holding)
            assert not same or max(same.values()) == 1
            steps = Counter(q.step for q in holding if q.kind == "pool" and q.status == "running")
            assert not steps or max(steps.values()) == 1


def test_random_sequences_keep_every_promise(record_property):
    health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    profile = settings(
        max_examples=SEQUENCES, stateful_step_count=20, deadline=None, suppress_health_check=health, database=None,
        print_blob=True,
    )  # fmt: skip
    run_state_machine_as_test(RunMachine, settings=profile)
    print(json.dumps(DONE))
    for name, number in sorted(DONE.items()):
        record_property(name, number)
    assert DONE["sequences"] >= SEQUENCES
