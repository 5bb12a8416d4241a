"""Wires between network namespaces that delay and drop packets: what netem does, in a program of one thread.

    box k (10.77.k.2) ── tun ── this program ── tun ── hub (10.77.0.1), where the broker listens

IP packets of a box wait ``delay`` seconds in each direction and are dropped with probability ``loss``; TCP on
both sides is the kernel's, so that a lost packet costs what it costs on a real line: a retransmission.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import time
from multiprocessing import Process

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
HUB = "10.77.0.1"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _enter(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter {path}")
    os.close(descriptor)


def _tun(namespace: str, name: str) -> int:
    """The program's end of a new interface in that namespace."""
    _enter(f"/run/netns/{namespace}")
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22s", name.encode(), _IFF_TUN | _IFF_NO_PI, b""))
    return descriptor


class Wires:
    """Namespaces ``prefix-hub`` and ``prefix-1`` to ``prefix-k``, and the process between them."""

    def __init__(self, prefix: str, k: int, delay: float, loss: float) -> None:
        self.prefix, self.k = prefix, k
        self.names = [f"{prefix}-hub", *(f"{prefix}-{b}" for b in range(1, k + 1))]
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        self.process = Process(target=_carry, args=(self.names, delay, loss), daemon=True)
        self.process.start()
        for b, name in enumerate(self.names):
            while subprocess.run(
                ["ip", "-n", name, "link", "show", "wire"], capture_output=True, check=False
            ).returncode:
                time.sleep(0.02)
            address = f"{HUB}/16" if b == 0 else f"10.77.{b}.2/16"
            ip("-n", name, "addr", "add", address, "dev", "wire")
            ip("-n", name, "link", "set", "wire", "up")

    def inside(self, b: int) -> list[str]:
        """Words before a command that is to run in a namespace; 0: the hub."""
        return ["ip", "netns", "exec", self.names[b]]

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        for name in self.names:
            ip("netns", "del", name)


def _carry(names: list[str], delay: float, loss: float) -> None:
    ends = [_tun(name, "wire") for name in names]
    rng = random.Random(0)
    waiting: list[tuple[float, int, int, bytes]] = []
    number = 0
    while True:
        timeout = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else 1.0
        ready, _, _ = select.select(ends, [], [], timeout)
        now = time.monotonic()
        for end in ready:
            try:
                packet = os.read(end, 65536)
            except OSError:  # not up yet
                continue
            if packet[0] >> 4 != 4 or rng.random() < loss:
                continue
            to = packet[18] if end == ends[0] else 0  # 10.77.k.2: the third number of the address it goes to
            if to < len(ends):
                number += 1
                heapq.heappush(waiting, (now + delay, number, ends[to], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            try:
                os.write(end, packet)
            except OSError:
                continue
