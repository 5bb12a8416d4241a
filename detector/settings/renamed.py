"""Names of version 0.1 that are accepted for one release, each with a warning that gives the new one."""

from __future__ import annotations

GROUPS = {"aftermath": "diagnosis"}  # of config.yaml and of the Python interface
ANALYZERS = {"course": "trend", "explanation": "value_ranges", "verdict": "triage"}
MOVED = {("diagnosis", "regime", "exchange"): ("diagnosis", "exchange")}  # of config.yaml
DROPPED = {  # (group, key) that is ignored: those that do its work now
    ("incidents", f"{level}_{by}"): (f"{level}_share", f"{level}_size")
    for level in ("warning", "critical") for by in ("nodes", "excess")
}  # fmt: skip
METRICS = {
    "aftermath_cases_total": "diagnosis_cases_total",
    "aftermath_failures_total": "diagnosis_failures_total",
    "aftermath_seconds": "diagnosis_seconds",
}


def deprecated(old: str, new: str) -> str:
    """The warning."""
    return f"{old} is called {new} now; the old name is accepted until version 0.3"


def dropped(old: str, now: tuple[str, ...]) -> str:
    """The warning where a key has no successor of the same meaning."""
    return f"{old} is ignored: {' and '.join(now)} are used instead; it is refused from version 0.3 on"
