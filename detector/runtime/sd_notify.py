"""Telling systemd how we are: its notify protocol is a datagram of lines, nothing more."""

from __future__ import annotations

import os
import socket
import time

from detector.runtime.logs import one_line


class Notifier:
    """Does nothing where no NOTIFY_SOCKET is given. Never raises: the service manager is not our job."""

    def __init__(self) -> None:
        # Taken out of the environment, so that no child can speak in our name.
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        if self._address.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        if self._address.startswith("@"):  # the abstract name space of Linux
            self._address = "\0" + self._address[1:]
        self.watchdog_s = _watchdog()

    def send(self, *lines: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return

    def status(self, text: str) -> None:
        self.send("STATUS=" + one_line(text))

    def ready(self) -> None:
        self.send("READY=1")

    def reloading(self) -> None:
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self.send("STOPPING=1")

    def alive(self) -> None:
        self.send("WATCHDOG=1")

    def extend(self, seconds: float) -> None:
        """Starting or stopping takes longer than configured: ask for so much from now."""
        self.send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _watchdog() -> float | None:
    """Seconds within which systemd wants a sign of life, if it does, and of this process."""
    owner = os.environ.pop("WATCHDOG_PID", str(os.getpid()))
    try:
        seconds = int(os.environ.pop("WATCHDOG_USEC", "0")) / 1e6
    except ValueError:
        return None
    return seconds if seconds > 0 and owner == str(os.getpid()) else None
