"""Does the time of a refusal tell how much of a guessed token was right?

Guesses that share nothing, half, and all but the last letter with the token, in random order over one
connection to a real daemon. For each: the median time of an answer, and how far it is from that of the first
kind, with a 95 % interval by a bootstrap. Beside it the same for a plain comparison, which stops at the first
difference, without a network in between.

    python benchmarks/token_time.py [--quick]
"""

from __future__ import annotations

import argparse
import http.client
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.tables import machine, table
from detector.http.auth import _token_matches
from estimators.core.types import Floats
from tests.detector import rig

TOKEN = "k3" * 32
KINDS = {"nothing": "x" * 64, "half": TOKEN[:32] + "x" * 32, "all but the last": TOKEN[:-1] + "x"}
INNER = 200  # comparisons in one measurement without a network


def over_http(port: int, count: int, rng: np.random.Generator) -> dict[str, Floats]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(guess: str) -> None:
        connection.request("GET", "/api/v1/status", headers={"Authorization": f"Bearer {guess}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 401

    for _ in range(200):
        ask("warm")
    return timed(ask, count, rng)


def timed(call: Callable[[str], object], count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Microseconds by kind of guess."""
    found: dict[str, list[float]] = {name: [] for name in KINDS}
    for name in rng.permutation(np.repeat(list(KINDS), count)).tolist():
        begun = time.perf_counter_ns()
        call(KINDS[name])
        found[name].append((time.perf_counter_ns() - begun) / 1e3)
    return {name: np.array(values) for name, values in found.items()}


def plain(guess: str) -> bool:
    """What must not be done."""
    return all(a == b for a, b in zip(guess, TOKEN, strict=True))


def rows(what: str, found: dict[str, Floats], rng: np.random.Generator) -> list[list[object]]:
    first = found["nothing"]
    listed: list[list[object]] = []
    for name, values in found.items():
        drawn = [
            np.median(rng.choice(values, len(values))) - np.median(rng.choice(first, len(first)))
            for _ in range(500)
        ]
        low, high = np.quantile(drawn, (0.025, 0.975))
        listed.append([what, name, len(values), float(np.median(values)), f"{low:+.3f} to {high:+.3f}"])
    return listed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the guesses")
    count = 300 if parser.parse_args().quick else 3000
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "token").write_text(TOKEN)
        (folder / "in.jsonl").write_text("\n".join(rig.lines(0, 20)) + "\n")
        config = rig.write_config(folder, http={"port": 0, "token_file": str(folder / "token")})
        with rig.Service(config) as service:
            service.wait_ready()
            listed = rows("a real daemon", over_http(service.port, count, rng), rng)

    def repeated(match: Callable[[str], object]) -> Callable[[str], object]:
        return lambda guess: [match(guess) for _ in range(INNER)]

    ours = timed(repeated(lambda guess: _token_matches(f"Bearer {guess}", TOKEN)), count, rng)
    listed += rows(f"{INNER} of our comparisons", ours, rng)
    listed += rows(f"{INNER} plain comparisons", timed(repeated(plain), count, rng), rng)
    print(machine())
    print(table(("what", "right letters", "guesses", "median µs", "more than with none, 95 %"), listed))


if __name__ == "__main__":
    main()
