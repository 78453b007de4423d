"""A power cut, run as a script: what survives when only synced bytes are sure to be on disk?

    python -m faults.powercut FOLDER --synchronous FULL|NORMAL --charges 60 --cuts 300

Every write, truncation, sync and deletion that SQLite makes is recorded by a VFS of our own: a copy of SQLite's default
one, made through ctypes, whose files note each call before they pass it on. So it is the very library and the very
code that users run, and no compiler is needed. A cut at any point of the record leaves, for each file, its synced bytes
and any mixture of the unsynced ones: sector by sector old or new, whatever their order, so torn and reordered writes
are in it. Each charge that was acknowledged before the cut must then be found in the ledger, and the ledger must verify.
"""

from __future__ import annotations

import _sqlite3
import argparse
import ctypes
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard.errors import LedgerError
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger import _anchor as anchors
from steelyard.ledger import _sqlite as sqlite
from steelyard.ledger._chain import Position
from steelyard.privacy import Currency, Loss, rows

SECTOR = 512
_METHODS = [
    "xClose",
    "xRead",
    "xWrite",
    "xTruncate",
    "xSync",
    "xFileSize",
    "xLock",
    "xUnlock",
    "xCheckReservedLock",
    "xFileControl",
    "xSectorSize",
    "xDeviceCharacteristics",
    "xShmMap",
    "xShmLock",
    "xShmBarrier",
    "xShmUnmap",
    "xFetch",
    "xUnfetch",
]
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("zName", ctypes.c_char_p),
        ("pAppData", ctypes.c_void_p),
        ("xOpen", _OPEN),
        ("xDelete", _DELETE),
        ("rest", ctypes.c_void_p * 14),
    )


class _Io(ctypes.Structure):
    _fields_ = (("iVersion", ctypes.c_int), *((name, ctypes.c_void_p) for name in _METHODS))


@dataclass(frozen=True)
class Act:
    """One thing that happened: write, truncate, sync, delete, or ack (a charge was acknowledged)."""

    kind: str
    name: str = ""
    offset: int = 0
    data: bytes = b""


class Recorder:
    """The copied VFS and its record."""

    def __init__(self) -> None:
        self.record: list[Act] = []
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        self._original = library.sqlite3_vfs_find(None).contents
        self._methods: dict[int, _Io] = {}
        self.vfs = _Vfs.from_buffer_copy(self._original)
        self.vfs.zName = b"recording"
        self.vfs.xOpen, self.vfs.xDelete = _OPEN(self._open), _DELETE(self._delete)
        self._register = library.sqlite3_vfs_register
        self._register(ctypes.byref(self.vfs), 1)

    def stop(self) -> None:
        """Open files as usual again; those already open are recorded to their end."""
        self._register(ctypes.byref(self._original), 1)

    def _open(self, vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        result = int(self._original.xOpen(ctypes.addressof(self._original), name, file, flags, out))
        slot = ctypes.c_void_p.from_address(file)  # an open file begins with the pointer to its methods
        if result == 0 and slot.value and name:
            path = ctypes.string_at(name).decode()
            self._names[file] = os.path.basename(path)
            if slot.value not in self._methods:
                self._methods[slot.value] = self._recording(_Io.from_address(slot.value))
            slot.value = ctypes.addressof(self._methods[slot.value])
        return result

    def _recording(self, original: _Io) -> _Io:
        copy = _Io.from_buffer_copy(original)
        write, truncate, sync = _WRITE(original.xWrite), _TRUNCATE(original.xTruncate), _SYNC(original.xSync)

        def on_write(file: int, data: int, size: int, offset: int) -> int:
            self.record.append(Act("write", self._names[file], offset, ctypes.string_at(data, size)))
            return int(write(file, data, size, offset))

        def on_truncate(file: int, size: int) -> int:
            self.record.append(Act("truncate", self._names[file], size))
            return int(truncate(file, size))

        def on_sync(file: int, flags: int) -> int:
            result = int(sync(file, flags))
            self.record.append(Act("sync", self._names[file]))
            return result

        hooks: dict[str, Any] = {
            "xWrite": _WRITE(on_write),
            "xTruncate": _TRUNCATE(on_truncate),
            "xSync": _SYNC(on_sync),
        }
        self._kept.append((hooks, write, truncate, sync))
        for method, hook in hooks.items():
            setattr(copy, method, ctypes.cast(hook, ctypes.c_void_p).value)
        return copy

    def _delete(self, vfs: int, name: bytes, sync: int) -> int:
        self.record.append(Act("delete", os.path.basename(name.decode())))
        return int(self._original.xDelete(ctypes.addressof(self._original), name, sync))


@dataclass
class Disk:
    """What is surely on disk, and what may be."""

    synced: dict[str, bytes] = field(default_factory=dict)
    pending: dict[str, list[Act]] = field(default_factory=dict)

    def take(self, act: Act) -> None:
        """Follow one act."""
        if act.kind == "sync":
            self.synced[act.name] = self._settled(act.name)
            self.pending[act.name] = []
        elif act.kind == "delete":
            self.synced.pop(act.name, None)
            self.pending.pop(act.name, None)
        elif act.kind in ("write", "truncate"):
            self.pending.setdefault(act.name, []).append(act)

    def _settled(self, name: str) -> bytes:
        image = bytearray(self.synced.get(name, b""))
        for act in self.pending.get(name, []):
            _apply(image, act)
        return bytes(image)

    def after_a_cut(self, dice: random.Random) -> dict[str, bytes]:
        """One of the many contents the files may have: synced bytes, and a mixture of what was under way."""
        return {name: self._mixture(name, dice) for name in {*self.synced, *self.pending}}

    def _mixture(self, name: str, dice: random.Random) -> bytes:
        image, keep = bytearray(self.synced.get(name, b"")), dice.choice((0.0, 0.5, 0.9, 1.0))
        pieces = [piece for act in self.pending.get(name, []) for piece in _sectors(act)]
        kept = [piece for piece in pieces if dice.random() < keep]
        for piece in kept:
            _apply(image, piece)
        return bytes(image)


def _sectors(act: Act) -> list[Act]:
    if act.kind == "truncate":
        return [act]
    starts = range(act.offset - act.offset % SECTOR, act.offset + len(act.data), SECTOR)
    pieces = []
    for start in starts:
        low, high = max(start, act.offset), min(start + SECTOR, act.offset + len(act.data))
        pieces.append(Act("write", act.name, low, act.data[low - act.offset : high - act.offset]))
    return pieces


def _apply(image: bytearray, act: Act) -> None:
    if act.kind == "truncate":
        del image[act.offset :]
        return
    if len(image) < act.offset:
        image.extend(bytes(act.offset - len(image)))
    image[act.offset : act.offset + len(act.data)] = act.data


def record_charges(recorder: Recorder, folder: Path, charges: int) -> list[Act]:
    """Charge an account and note each acknowledgement, and each writing of the anchor, in the record."""
    _note_anchor(recorder.record.append)
    account = open_account(folder / "budget.db", "a", unit=rows(), epsilon="1")
    for number in range(charges):
        made = account.charge(Loss(Currency.PURE, 1), key=f"k{number}", request=b"r" * 20)
        recorder.record.append(Act("ack", f"k{number}"))
        made.store(os.urandom(random.choice((10, 3000))))
        recorder.record.append(Act("ack", f"k{number}/answer"))
    recorder.stop()
    return list(recorder.record)


def _note_anchor(note: Callable[[Act], None]) -> None:
    write = anchors.FileAnchor.write

    def noting(self: anchors.FileAnchor, position: Position) -> None:
        write(self, position)
        note(Act("anchor", data=self.path.read_bytes()))

    anchors.FileAnchor.write = noting  # type: ignore[method-assign]


def count_losses(folder: Path, record: list[Act], cuts: int, dice: random.Random) -> dict[str, Any]:
    """Cut at random points and count the acknowledged charges and answers that are gone, and the ledgers broken."""
    points = sorted(dice.randrange(_first_ack(record), len(record) + 1) for _ in range(cuts))
    disk, done, acked, anchor = Disk(), 0, set[str](), b""
    losses = {"cuts": cuts, "acknowledged": 0, "lost": 0, "broken": list[str]()}
    for number, point in enumerate(points):
        for act in record[done:point]:
            disk.take(act)
            if act.kind == "ack":
                acked.add(act.name)
            anchor = act.data if act.kind == "anchor" else anchor
        done = point
        _judge(folder / f"cut-{number}", folder, disk.after_a_cut(dice), anchor, acked, losses)
    return losses


def _first_ack(record: list[Act]) -> int:
    return next(number for number, act in enumerate(record) if act.kind == "ack")


def _judge(
    here: Path, source: Path, images: dict[str, bytes], anchor: bytes, acked: set[str], losses: dict[str, Any]
) -> None:
    here.mkdir()
    for name, image in images.items():
        (here / name).write_bytes(image)
    shutil.copy(source / "budget.db.key", here / "budget.db.key")
    (here / "budget.db.anchor").write_bytes(anchor)
    losses["acknowledged"] += len(acked)
    try:
        found = _found(here / "budget.db")
    except LedgerError as error:
        losses["broken"].append(str(error))
        found = set()
    losses["lost"] += len(acked - found)
    shutil.rmtree(here)


def _found(path: Path) -> set[str]:
    ledger, names, found = Ledger(path), dict[int, str](), set[str]()
    for entry in ledger.entries():
        if entry.kind == "charge":
            names[entry.sequence] = entry.name
            found.add(entry.name)
        elif entry.kind == "answer":
            found.add(f"{names[entry.charge]}/answer")
    _ = Account(path, "a").spent  # opens it for spending, which verifies it against its anchor
    return found


def main() -> None:
    """Record, cut, report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--synchronous", choices=["FULL", "NORMAL"], default="FULL")
    parser.add_argument("--charges", type=int, default=60)
    parser.add_argument("--cuts", type=int, default=300)
    options = parser.parse_args()
    often = "PRAGMA wal_autocheckpoint = 30"  # so that the record holds many checkpoints and restarts of the log
    sqlite._PRAGMAS = (f"PRAGMA synchronous = {options.synchronous}", often, *sqlite._PRAGMAS[1:])
    recorder = Recorder()  # SQLite holds pointers into it for as long as the process lives
    record = record_charges(recorder, options.folder, options.charges)
    memory = Path("/dev/shm")  # the images are thrown away, so syncing them would be a waste
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as images:
        shutil.copy(options.folder / "budget.db.key", images)
        report = count_losses(Path(images), record, options.cuts, random.Random())
    kinds = {kind: sum(act.kind == kind for act in record) for kind in ("write", "sync", "truncate", "delete")}
    print(json.dumps(report | {"broken": report["broken"][:5], "broken_count": len(report["broken"]), "record": kinds}))


if __name__ == "__main__":
    main()
