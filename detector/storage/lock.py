"""One daemon per state folder: a lock on the folder itself, and whether the folder is still in its place."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from detector.storage.database import StateInUse, StateUnavailable

LOCK = "lock"
TRIES = 5  # while somebody moves the folder away in the moment in which it is locked
# Network file systems cannot lock a folder: there the file in it has to do.
NOT_LOCKABLE = (errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.ENOLCK)


class Lock:
    """Held on the folder's inode and on a file in it; the system releases both when the process ends.

    The folder is what counts: removing the file lets nobody in. The file is what version 0.1 locked, and
    what network file systems can lock.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptors: list[int] = []
        for _ in range(TRIES):
            try:
                self._take()
            except BaseException:
                self.close()
                raise
            if self.in_place:
                return
            self.close()
        raise StateUnavailable(f"state folder {folder} is being moved or removed")

    def _take(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptors.append(os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            self._descriptors.append(
                os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=self._descriptors[0])
            )
        except OSError as error:
            raise StateUnavailable(f"state folder {self.folder} cannot be used: {error.strerror}") from error
        for descriptor in self._descriptors:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in NOT_LOCKABLE or descriptor == self._descriptors[-1]:
                    raise StateInUse(f"state folder {self.folder} is in use by another process") from None

    @property
    def in_place(self) -> bool:
        """Whether the path still leads to the folder that we locked."""
        if not self._descriptors:
            return False
        ours = os.fstat(self._descriptors[0])
        try:
            found = self.folder.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
