"""What a run logs is what W&B's offline files hold, and nothing is sent."""

import json
import socket
import struct
import sys
from collections import defaultdict

import pytest

from mrafno.errors import MrafnoError
from mrafno.integrations import WandbCallback
from tests.integrations.scripted import BY_COST, SERIES, ScriptedRun

_BLOCK = 2**15


@pytest.fixture(autouse=True)
def server(monkeypatch, tmp_path):
    """A socket that all of W&B's requests would go to; W&B finds no API key here."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for name in ("WANDB_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, address)
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NETRC", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "empty" / name))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    yield listener
    import wandb

    wandb.teardown()  # the next test has another environment
    listener.close()


def records(path):
    """Records of an offline file: W&B's protocol buffers in LevelDB's log format, after a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, parts = path.read_bytes(), 7, b""
    assert content[:4] == b":W&B"
    while at < len(content):
        if _BLOCK - at % _BLOCK < 7:
            at += _BLOCK - at % _BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        parts, at = parts + content[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(parts)
            parts = b""


def read(folder):
    """Of each offline run: its id, parameters, rows by number, and summary."""
    import wandb

    wandb.teardown()  # W&B writes in the background; this waits for it
    found = []
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        rows, summary, parameters, id = {}, {}, {}, None
        for record in records(path):
            if record.HasField("run"):
                id = record.run.run_id
                parameters = {item.key: json.loads(item.value_json) for item in record.run.config.update}
            if record.HasField("history"):
                row = {_name(item): json.loads(item.value_json) for item in record.history.item}
                rows[row["_step"]] = row
            if record.HasField("summary"):
                summary |= {_name(item): json.loads(item.value_json) for item in record.summary.update}
        found.append((id, parameters, rows, summary))
    return found


def _name(item):
    return item.key or "/".join(item.nested_key)


def series(rows, axis):
    """(position on the axis, value) by name."""
    found = defaultdict(list)
    for _, row in sorted(rows.items()):
        for name, value in row.items():
            found[name].append((row[axis], value))
    return found


def test_a_resumed_run_continues_under_the_same_id(tmp_path, server):
    run = ScriptedRun(tmp_path / "rod")
    run.advance(WandbCallback("p", dir=tmp_path), 1, 2)
    run.reopened().advance(WandbCallback("p", dir=tmp_path), 3)
    (id, parameters, first, summary), (same, _, second, last) = read(tmp_path)
    assert id == same == json.loads((run.path / "wandb.json").read_text(encoding="utf-8"))["id"]
    # W&B drops rows whose numbers do not grow.
    assert max(first) < min(second)
    by_step, by_cost = (series(first | second, axis) for axis in ("step", "accumulated_cost"))
    assert {name: by_step[name] for name in SERIES} == SERIES
    assert {name: by_cost[name] for name in BY_COST} == BY_COST
    assert by_step["failure"] == [(1, "q000001: no convergence")]
    assert (summary["outcome/error"], summary["outcome/reason"]) == (0.125, "finished 2 steps")
    assert (last["outcome/cost"], last["outcome/reason"]) == (12.0, "finished 3 steps")
    some = {"method": "mra-auto", "seed": 7, "settings/initial": 3, "settings/lease": None, "task/name": "made"}
    assert some.items() <= parameters.items()
    with pytest.raises(BlockingIOError):
        server.accept()  # nobody called


def test_one_callback_serves_several_advances_beside_a_run_of_the_person(tmp_path):
    import wandb

    own = wandb.init(mode="offline", dir=tmp_path / "own", settings=wandb.Settings(silent=True))
    run, callback = ScriptedRun(tmp_path / "run"), WandbCallback(dir=tmp_path, id_file=tmp_path / "id.json")
    run.advance(callback, 1, 2)
    run.advance(callback, 3)
    assert wandb.run is own
    own.finish()
    (id, _, first, _), (same, _, second, _) = read(tmp_path)
    assert id == same == json.loads((tmp_path / "id.json").read_text(encoding="utf-8"))["id"]
    assert series(first | second, "step")["evaluation/relative_l2"] == SERIES["evaluation/relative_l2"]


def test_without_an_api_key_online_mode_is_refused_and_nobody_is_asked(monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asked"))
    monkeypatch.setattr("getpass.getpass", lambda *_: pytest.fail("it asked"))
    with pytest.raises(MrafnoError, match=r"there is no API key\. Call `wandb login`, or use mode='offline'"):
        WandbCallback("p", mode="online")


def test_an_unknown_mode_is_refused():
    with pytest.raises(MrafnoError, match="unknown mode 'on'"):
        WandbCallback("p", mode="on")


def test_a_missing_package_gives_advice(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "wandb", None)
        with pytest.raises(MrafnoError, match=r"wandb cannot be imported .*pip install wandb"):
            WandbCallback()
