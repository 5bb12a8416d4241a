"""Labelled recordings of real and simulated networks: the statistic and the threshold, judged apart.

    OPENBLAS_NUM_THREADS=1 python benchmarks/realdata.py --data FOLDER [--quick] [--sets a,b] [--jobs 2]

The recordings are not part of the distribution; benchmarks/recordings/sets.py says how a folder must look.
One rule for all sets: `difference: auto`, `whiten: auto`, the largest of three banks of windows that the
quiet part allows, a budget of one false incident per 1000 ticks; an incident that has not grown for 100
ticks is accepted.

First table: how well a statistic tells labels from quiet, whatever its threshold, beside rivals and dummies.
The detector's own incidents act on its statistic: while one is open the reference of its nodes waits, and
afterwards their charts may start anew. "Undisturbed" is the statistic without that, as the rivals' are.
Second table: what the detector does at the threshold it has set itself, through its own incidents.
Results are kept in a folder by set and method, so that a run that was stopped goes on; another state of the
detector's code has another folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from recordings.harness import PER, TIMELY, Outcome, areas
from recordings.product import NEVER, watch
from recordings.rivals import RIVALS, SLOW, dummies
from recordings.sets import LARGE, MEAN, SETS, Recording, load
from tables import machine, table

ROOT = Path(__file__).parents[1]
REPEATS = 10  # of the dummies
QUICK = ("umich_rss", "wsn_suthaharan")
DETECTORS: dict[str, dict[str, Any]] = {
    "detector": {"name": "grulsif"},
    "without level charts": {"name": "grulsif", "level_charts": False},
    "POOL": {"name": "pool"},
    "river Page–Hinkley": {"name": "page-hinkley"},
}
BINARY = {"river Page–Hinkley"}  # its statistic in the detector is an alarm already: nothing to sweep
UNDISTURBED = {f"{name} (undisturbed)": DETECTORS[name] for name in ("detector", "without level charts")}
DUMMIES = {"random dummy": False, "periodic dummy": True}
Result = dict[str, Any]


def own(recordings: list[Recording], method: str) -> Result:
    """The detector itself: found, found in time and false at its own threshold; areas of its statistic."""
    outcome, statistics = Outcome(), []
    for rec in recordings:
        watched = watch(rec, **DETECTORS[method])
        for (x, labels), (S, alarms, promised) in zip(rec.streams, watched, strict=True):
            outcome.add(alarms, labels, len(x), promised if np.isfinite(promised).all() else None)
            statistics.append(S)
    result: Result = {
        "labels": len(outcome.delays), "found": outcome.recall, "timely": outcome.timely,
        "false": outcome.false, "expected": outcome.expected, "promised": outcome.promised,
    }  # fmt: skip
    if method not in BINARY:
        result["area"], result["timely_area"] = areas(recordings, statistics)
    return result


def undisturbed(recordings: list[Recording], method: str) -> Result:
    statistics = [S for rec in recordings for S, *_ in watch(rec, NEVER, **UNDISTURBED[method])]
    area, timely = areas(recordings, statistics)
    return {"area": area, "timely_area": timely}


def rival(recordings: list[Recording], method: str) -> Result:
    statistics = []
    for rec in recordings:
        statistic = RIVALS[method](rec)
        statistics += [statistic(x) for x, _ in rec.streams]
    area, timely = areas(recordings, statistics)
    return {"area": area, "timely_area": timely}


def dummy(recordings: list[Recording], method: str) -> Result:
    found = [areas(recordings, list(dummies(recordings, DUMMIES[method], k))) for k in range(REPEATS)]
    area, timely = np.mean(found, axis=0).tolist()
    return {"area": area, "timely_area": timely}


# By kind and by name in the tables; Page–Hinkley is judged both by its own alarms and with swept thresholds.
STUDIES: dict[tuple[str, str], Callable[[list[Recording], str], Result]] = {
    **{("own", name): own for name in DETECTORS},
    **{("swept", name): undisturbed for name in UNDISTURBED},
    **{("swept", name): rival for name in RIVALS},
    **{("swept", name): dummy for name in DUMMIES},
}


def study(data: Path, cache: Path, name: str, kind: str, method: str) -> tuple[Result, float]:
    begin = time.perf_counter()
    result = STUDIES[kind, method](load(data, name), method)
    cache.mkdir(parents=True, exist_ok=True)
    _stored(cache, name, kind, method).write_text(json.dumps(result))
    return result, time.perf_counter() - begin


def _stored(cache: Path, name: str, kind: str, method: str) -> Path:
    return cache / f"{name}.{kind}.{method.replace(' ', '-')}.json"


def _cache() -> Path:
    """By what makes the detector's figures, so that none of another version is shown."""
    digest = hashlib.sha256()
    for package in ("detector", "estimators"):
        for path in sorted((ROOT / package).rglob("*.py*")):
            if path.suffix in (".py", ".pyx"):
                digest.update(path.read_bytes())
    return Path(tempfile.gettempdir()) / f"detector-realdata-{digest.hexdigest()[:12]}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of the sets")
    parser.add_argument("--quick", action="store_true", help=f"{' and '.join(QUICK)} only")
    parser.add_argument("--sets", default=",".join(SETS), help="some of them, by comma (default: all)")
    parser.add_argument("--methods", help="some of them, by comma (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--cache", type=Path, help="folder of results (default: a temporary one)")
    args = parser.parse_args()
    names = list(QUICK) if args.quick else args.sets.split(",")
    unknown = [name for name in names if name not in SETS]
    methods = {method for _, method in STUDIES}
    chosen = set(args.methods.split(",")) if args.methods else methods
    if unknown or chosen - methods:
        parser.error(f"unknown: {', '.join([*unknown, *sorted(chosen - methods)])}")
    if args.data is None or not args.data.is_dir():
        print("recordings are not part of the distribution: give their folder by --data", file=sys.stderr)
        sys.exit(0 if args.quick else 2)
    cache = args.cache or _cache()
    print(f"results: {cache}", file=sys.stderr)
    tasks = [
        (name, kind, method)
        for name in names
        for kind, method in STUDIES
        if method in chosen and not (kind == "swept" and method in SLOW and name in LARGE)
    ]
    results = {task: json.loads(_stored(cache, *task).read_text()) for task in tasks
               if _stored(cache, *task).exists()}  # fmt: skip
    waiting = [task for task in tasks if task not in results]
    failed = []
    with ProcessPoolExecutor(args.jobs) as pool:
        jobs = {pool.submit(study, args.data, cache, *task): task for task in waiting}
        for done in as_completed(jobs):
            name, kind, method = task = jobs[done]
            what = f"{name}: {method}, {kind}"
            try:
                results[task], seconds = done.result()
            except Exception as error:  # one method that cannot learn from one set must not cost the others
                failed.append(what)
                print(f"FAILED {what}: {error!r}", file=sys.stderr)
            else:
                print(f"{len(results)}/{len(tasks)} {what} ({seconds:.0f} s)", file=sys.stderr)
    show(names, results)
    if failed:
        sys.exit(f"failed, and missing in the tables: {'; '.join(failed)}")


def show(names: list[str], results: dict[tuple[str, str, str], Result]) -> None:
    print(f"{machine()}\n")
    mean = [name for name in names if name in MEAN]
    rows: list[list[str]] = []
    for kind, method in STUDIES:
        found = {name: results[name, kind, method] for name in names if (name, kind, method) in results}
        pairs = {name: (r["area"], r["timely_area"]) for name, r in found.items() if "area" in r}
        if pairs:
            whole = [pairs[name] for name in mean if name in pairs]
            average = tuple(np.mean(whole, axis=0)) if whole and len(whole) == len(mean) else None
            last = [_pair(average)] if mean else []
            rows.append([method, *(_pair(pairs.get(name)) for name in names), *last])
    print(f"Statistic: area under recall / the same within {TIMELY} ticks, .25 to 5 false per {PER} ticks")
    print(table(["method", *names, *([f"mean of {len(mean)}"] if mean else [])], rows))
    print(
        f"\nThreshold: false incidents at a budget of 1 per {PER} ticks, over those budgeted and over those\n"
        f"promised (histories too short for the budget promise less); labels found, found within {TIMELY}"
    )
    header = ["set", "labels", "budgeted", "promised",
              *(f"{m}: false (over budgeted, promised), found" for m in DETECTORS)]  # fmt: skip
    print(table(header, [_line(name, results) for name in names]))


def _pair(values: tuple[float, float] | None) -> str:
    return "–" if values is None else f"{values[0]:.2f} / {values[1]:.2f}"


def _line(name: str, results: dict[tuple[str, str, str], Result]) -> list[str]:
    found = [results.get((name, "own", method)) for method in DETECTORS]
    some = next((r for r in found if r), None)
    cells = [
        f"{r['false']} ({r['false'] / max(r['expected'], 1e-9):.1f}, "
        f"{r['false'] / max(r['promised'], 1e-9):.1f}), {r['found']:.2f} / {r['timely']:.2f}"
        if r else "–"
        for r in found
    ]  # fmt: skip
    first = ("–", "–", "–")
    if some:
        first = (str(some["labels"]), f"{some['expected']:.1f}", f"{some['promised']:.1f}")
    return [name, *first, *cells]


if __name__ == "__main__":
    main()
