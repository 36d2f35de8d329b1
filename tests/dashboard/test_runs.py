"""Finding and reading runs that advance, come, go, or cannot be read."""

import json
import os
import shutil
import subprocess
import sys
import threading
from urllib.parse import quote

from mrafno.storage.ledger import Ledger
from tests.dashboard.conftest import Client, damage
from tests.made_runs import made_run, real_run


def test_state_while_a_process_advances_the_run_and_after_it_is_killed(tmp_path, serve):
    """Neither writes anything into the ledger."""
    made_run(tmp_path / "run", levels=(0,), running=True)
    client = Client(serve(tmp_path))

    def seen():
        about = client.json("/api/run?run=run")
        assert about["state"] == client.rows()["run"]["state"]
        return about["state"], about["driven"]

    assert seen() == ("waiting for answers", False)
    script = (
        "import sys, time; from mrafno.storage.ledger import Ledger; l = Ledger.open(sys.argv[1], write=True); print(1)"
    )
    command = [sys.executable, "-u", "-c", f"{script}; time.sleep(60)", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        try:
            driver.stdout.readline()
            assert seen() == ("running", True)
        finally:
            driver.kill()
    assert seen() == ("interrupted", False)


def test_runs_that_cannot_be_read_are_listed_with_their_problem(client):
    rows = client.rows()
    assert "line 2 is damaged" in rows["damaged"]["problem"]
    assert "no whole line" in rows["hollow"]["problem"]
    assert "cannot be interpreted" in rows["nonsense"]["problem"]
    assert rows["first"]["problem"] is None
    assert client.json("/api/run?run=damaged")["problem"] == rows["damaged"]["problem"]
    assert client.send("/api/figures?run=damaged").status == 503
    assert "cannot be interpreted" in client.json("/api/run?run=nonsense")["problem"]
    assert client.send("/api/figures?run=nonsense").status == 503


def test_a_curve_that_is_none_is_a_problem_and_no_internal_error(tmp_path, serve):
    """The checksums of such a ledger are right."""
    made_run(tmp_path / "run", levels=(0, 0), errors=(0.5, 0.4))
    with Ledger.open(tmp_path / "run", write=True) as ledger:
        event = next(event for event in ledger.events if event.kind == "evaluated")
        metrics = dict.fromkeys(event.data["metrics"], "<script>")
        ledger.append("evaluated", **{**event.data, "metrics": metrics})
    answer = Client(serve(tmp_path)).send("/api/overlay?run=run")
    assert (answer.status, "cannot be interpreted" in json.loads(answer.content)["problem"]) == (503, True)


def test_a_run_of_a_newer_format_is_listed_with_its_problem(tmp_path, serve, monkeypatch):
    monkeypatch.setattr(Ledger, "VERSION", 2)
    made_run(tmp_path / "newer")
    monkeypatch.undo()
    assert "format 2" in Client(serve(tmp_path)).rows()["newer"]["problem"]


def test_the_folder_may_be_a_run_itself(client, folder, serve):
    own = Client(serve(folder / "first"))
    assert list(own.rows()) == ["."]
    assert own.json("/api/run?run=.")["steps"] == 4


def test_a_ledger_is_not_read_again_from_its_beginning(tmp_path, serve, monkeypatch):
    made_run(tmp_path / "run", levels=(0,))
    client = Client(serve(tmp_path))
    client.rows()
    opened = []
    monkeypatch.setattr(Ledger, "open", lambda *args, **how: opened.append(args))
    client.rows()
    client.json("/api/run?run=run")
    assert opened == []


def test_new_and_removed_runs(tmp_path, serve):
    client = Client(serve(tmp_path))
    assert client.rows() == {}
    made_run(tmp_path / "group" / "new", levels=(0,))
    assert client.rows()["group/new"]["steps"] == 1
    shutil.rmtree(tmp_path / "group")
    assert client.rows() == {}
    assert client.send("/api/run?run=group%2Fnew").status == 404


def test_a_repaired_run_is_read_again(tmp_path, serve):
    ledger = made_run(tmp_path / "run", levels=(0,)) / "ledger.jsonl"
    whole = ledger.read_bytes()
    damage(ledger)
    client = Client(serve(tmp_path))
    assert client.rows()["run"]["problem"]
    ledger.write_bytes(whole)
    assert (client.rows()["run"]["problem"], client.rows()["run"]["steps"]) == (None, 1)


def test_an_incomplete_last_line_is_ignored(tmp_path, serve):
    ledger = made_run(tmp_path / "run", levels=(0,)) / "ledger.jsonl"
    with ledger.open("ab") as file:
        file.write(b'{"v":1,"n":')
    row = Client(serve(tmp_path)).rows()["run"]
    assert (row["problem"], row["steps"]) == (None, 1)


def test_the_list_does_not_wait_for_predictions_or_reading(folder, serve):
    """What takes long is held up here, and everything else is answered all the same."""
    server = serve(folder)
    client = Client(server)
    client.rows()
    run = server.site.runs.get("first")
    with run.predicting:
        example = threading.Thread(target=client.send, args=("/api/example?run=first&query=q000004",))
        example.start()
        assert client.json("/api/run?run=first")["steps"] == 4
        assert client.send("/api/figures?run=first").status == 200
        assert client.rows()["first"]["steps"] == 4
        assert example.is_alive()
    example.join()
    with run.reading():
        os.utime(folder / "first" / "ledger.jsonl")
        content = client.json("/api/runs")
        assert content["unread"] == 1
        assert {row["name"]: row["steps"] for row in content["runs"]}["first"] == 4
    assert client.json("/api/runs")["unread"] == 0


def test_links_are_not_followed(tmp_path, folder, tmp_path_factory, serve):
    """Whether they stand for a run, its ledger, its arrays or its checkpoint."""
    outside = folder.parent / "outside"
    runs = tmp_path / "runs"
    made_run(runs / "arrays", levels=(0,))
    shutil.move(runs / "arrays" / "arrays", tmp_path / "elsewhere")
    (runs / "arrays" / "arrays").symlink_to(tmp_path / "elsewhere")
    (runs / "ledger").mkdir()
    (runs / "ledger" / "ledger.jsonl").symlink_to(outside / "ledger.jsonl")
    real = real_run(tmp_path_factory)
    shutil.copytree(real, runs / "whole")
    shutil.copytree(real, runs / "inside")
    shutil.rmtree(runs / "whole" / "surrogate")
    (runs / "whole" / "surrogate").symlink_to(real / "surrogate")
    for file in (runs / "inside" / "surrogate").iterdir():
        file.unlink()
        file.symlink_to(real / "surrogate" / file.name)
    client = Client(serve(runs))
    assert "symbolic link" in client.rows()["ledger"]["problem"]
    assert client.rows()["ledger"]["task"] is None
    answer = client.send("/api/example?run=arrays&query=q000000")
    assert (answer.status, "symbolic link" in json.loads(answer.content)["problem"]) == (503, True)
    for name in ("whole", "inside"):
        example = client.json(f"/api/example?run={name}&query=q000000")
        assert [panel["heading"] for panel in example["panels"]] == ["input", "truth"]
        assert "symbolic links" in example["text"]


def test_a_run_replaced_by_a_link_is_unknown(tmp_path, folder, serve, monkeypatch):
    made_run(tmp_path / "run", levels=(0,))
    monkeypatch.setattr("mrafno.dashboard.runs._SEARCH_SECONDS", 1000.0)
    client = Client(serve(tmp_path))
    assert client.json("/api/run?run=run")["steps"] == 1
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").symlink_to(folder.parent / "outside")
    assert client.send("/api/run?run=run").status == 404
    assert client.rows()["run"]["steps"] is None


def test_a_pipe_in_place_of_a_ledger_does_not_block(tmp_path, serve):
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run" / "ledger.jsonl")
    assert "no regular file" in Client(serve(tmp_path)).rows()["run"]["problem"]


def test_hidden_and_deep_folders_and_the_insides_of_runs_are_skipped(tmp_path, serve):
    made_run(tmp_path / "a" / "b" / "c" / "d" / "e")
    shutil.copytree(tmp_path / "a" / "b" / "c" / "d" / "e", tmp_path / "1" / "2" / "3" / "4" / "5" / "6")
    shutil.copytree(tmp_path / "a" / "b" / "c" / "d" / "e", tmp_path / ".hidden")
    shutil.copytree(tmp_path / ".hidden", tmp_path / "a" / "b" / "c" / "d" / "e" / "spool" / "inside")
    assert list(Client(serve(tmp_path)).rows()) == ["a/b/c/d/e"]


def test_names_of_any_bytes_are_listed_and_found(tmp_path, serve):
    made_run(tmp_path / "run", levels=(0,))
    names = ["späce & <b>?#%2e", "back\\slash"]
    for name in names:
        shutil.copytree(tmp_path / "run", tmp_path / name)
    shutil.copytree(tmp_path / "run", tmp_path / os.fsdecode(b"\xff"))
    client = Client(serve(tmp_path))
    assert set(client.rows()) == {"run", "\\xff", *names}
    for name in client.rows():
        assert client.json(f"/api/run?run={quote(name, safe='')}")["steps"] == 1


def test_nothing_is_written(tmp_path, serve, tmp_path_factory):
    shutil.copytree(real_run(tmp_path_factory), tmp_path / "real")

    def everything():
        return {p: (p.lstat().st_mtime_ns, p.lstat().st_size) for p in [tmp_path, *tmp_path.rglob("*")]}

    before, client = everything(), Client(serve(tmp_path))
    client.rows()
    for what in ("run", "figures", "queries", "example"):
        assert client.send(f"/api/{what}?run=real&query=q000000").status == 200
    assert everything() == before
