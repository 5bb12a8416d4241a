"""Snapshots of shards in a folder that every machine of a cluster reads: whole, or not there at all.

A run has a folder of its own, locked as long as it lives; those of runs that are gone are removed. Whoever
loads a snapshot is told its digest: nothing is unpickled that was not written by this run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import shutil
import stat
import tempfile
import uuid
import weakref
from dataclasses import dataclass
from pathlib import Path

from detector.engines.base import EngineUnavailable
from detector.engines.runners.shard import Shard

LOCK = "in-use"


@dataclass(frozen=True)
class Snapshot:
    """Where a shard was written, and what it must be."""

    path: str
    digest: str

    @classmethod
    def write(cls, shard: Shard, path: str) -> Snapshot:
        """All of it, or none: also when the machine loses its power."""
        body = pickle.dumps(shard, 5)
        partial = f"{path}.part"
        with open(partial, "wb", opener=_private) as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return cls(path, hashlib.sha256(body).hexdigest())

    def read(self) -> Shard:
        try:
            body = Path(self.path).read_bytes()
        except OSError as error:
            raise EngineUnavailable(
                f"engine.storage: {error.strerror}: {self.path} on {os.uname().nodename}: it must be a "
                "folder that all machines of the cluster share"
            ) from None
        if hashlib.sha256(body).hexdigest() != self.digest:
            raise EngineUnavailable(f"engine.storage: {self.path} is not what was written there")
        shard: Shard = pickle.loads(body)
        return shard


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class RunFolder:
    """Folder of one run under ``storage``, which is made if need be; None: a temporary one."""

    def __init__(self, storage: Path | None) -> None:
        if storage is None:
            self.path = Path(tempfile.mkdtemp(prefix="detector-"))
        else:
            self.path = _under(storage)
        self._lock = _locked(self.path)
        self.close = weakref.finalize(self, _remove, self.path, self._lock)

    def place(self, shard: int, number: int) -> str:
        """Of a snapshot of a shard after the turn of that number."""
        return str(self.path / f"shard-{shard}-{number}")


def _under(storage: Path) -> Path:
    try:
        storage.mkdir(mode=0o700, parents=True, exist_ok=True)
        if storage.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise EngineUnavailable(
                f"engine.storage: others may write to {storage}: run  chmod go-w {storage}"
            )
        for old in storage.glob("run-*"):
            if (lock := _locked(old)) is not None:
                _remove(old, lock)
        path = storage / f"run-{uuid.uuid4().hex}"
        path.mkdir(mode=0o700)
    except OSError as error:
        raise EngineUnavailable(f"engine.storage: {error.strerror}: {error.filename}") from None
    return path.resolve()


def _locked(folder: Path) -> int | None:
    """None if another process has it."""
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)
