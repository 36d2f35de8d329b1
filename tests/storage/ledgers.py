"""Ledgers in folders, as their tests make and read them."""

from mrafno.storage.ledger import Ledger


def filled(folder, events=6):
    with Ledger.create(folder, task="burgers") as ledger:
        for number in range(1, events):
            ledger.append("told", query=f"q{number}", cost=number / 3)
        return ledger.events


def file_of(folder):
    return folder / "ledger.jsonl"


def put(folder, content):
    # In a new file: to write over an old one, some file systems wait for the disk.
    file_of(folder).unlink(missing_ok=True)
    file_of(folder).write_bytes(content)
    (folder / "ledger.copy.jsonl").unlink(missing_ok=True)


def lines_of(folder):
    return file_of(folder).read_bytes().splitlines(keepends=True)


def read(folder, **settings):
    return Ledger.open(folder, **settings).events
