"""Checking and repairing from the shell."""

import json

import pytest

from mrafno.run import Run
from tests import runs
from tests.cli.conftest import mrafno


@pytest.fixture
def folder(tmp_path):
    with runs.ready(tmp_path / "run") as run:
        run.advance(steps=1)
    return tmp_path / "run"


def test_an_intact_run(folder):
    result = mrafno("check", folder)
    assert result.exit_code == 0, result.output
    assert "lines of the ledger" in result.stdout
    assert result.stdout.endswith("is intact.\n") or "is intact." in result.stdout.replace("\n", " ")
    values = json.loads(mrafno("check", folder, "--json").stdout)
    assert (values["intact"], values["damage"]) == (True, [])
    assert values["checked"]["arrays"] == 22
    for flags in ([], ["--yes"]):
        assert mrafno("repair", folder, *flags).exit_code == 0
    assert not (folder / "damaged").exists()


def test_names_of_files_do_not_command_the_terminal(folder):
    folder = folder.rename(folder.with_name("run\x1b]0;x\x07"))
    before = mrafno("check", folder).stdout
    (folder / "spool").mkdir(exist_ok=True)
    (folder / "spool" / "\x1b[31m").write_text("")
    texts = [before, *(mrafno(*command, folder).stdout for command in (["check"], ["repair"], ["repair", "--yes"]))]
    assert "is intact" in before.replace("\n", " ")
    assert all("\x1b" not in text and "\x07" not in text for text in texts)
    assert "\\x1b[31m" in texts[1].replace("\n", "")


def test_damage_is_shown_and_repaired_only_if_that_was_asked_for(folder):
    path = folder / "ledger.jsonl"
    damaged = path.read_bytes().replace(b"told", b"t\x1bld", 1)
    path.write_bytes(damaged)
    shown = mrafno("show", folder)
    assert (shown.exit_code, "mrafno repair" in shown.stderr) == (1, True)
    for command in ("check", "repair"):
        result = mrafno(command, folder)
        assert result.exit_code == 4
        assert "its checksum does not fit" in result.stdout
        assert "restored from its copy" in result.stdout
    assert f"mrafno repair {folder} --yes" in result.stdout.replace("\n", "")
    assert json.loads(mrafno("check", folder, "--json").stdout)["damage"][0]["what"] == "ledger"
    assert path.read_bytes() == damaged
    result = mrafno("repair", folder, "--yes", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["again"] == []
    assert mrafno("check", folder).exit_code == 0
    assert mrafno("show", folder).exit_code == 0


def test_what_is_to_be_simulated_again_is_said_and_handed_out(folder):
    pack = folder / "arrays" / "000000.pack"
    content = bytearray(pack.read_bytes())
    content[-5] ^= 1  # of the last output
    pack.write_bytes(content)
    result = mrafno("repair", folder, "--yes")
    assert "to be simulated or told again: q000010" in result.stdout
    assert [query["id"] for query in json.loads(mrafno("ask", folder, "--again").stdout)] == ["q000010"]


def test_a_folder_without_a_run(tmp_path):
    for command in ("check", "repair"):
        result = mrafno(command, tmp_path)
        assert (result.exit_code, "holds no run" in result.stderr) == (1, True)


def test_lost_candidates_are_counted(folder):
    with Run.open(folder, runs.tiny()) as run:
        run.add_candidates(runs.fields(5, 17, 1))
    (folder / "arrays" / "candidates-000000.npy").unlink()
    result = mrafno("repair", folder)
    assert (result.exit_code, "candidates that were added" in result.stdout) == (4, True)
    result = mrafno("repair", folder, "--yes")
    assert result.exit_code == 0, result.output
    assert "lost: 5 added candidates that were not used" in result.stdout
    assert mrafno("check", folder).exit_code == 0
