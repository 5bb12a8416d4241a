"""Names of version 0.1 that are accepted for one release, each with a warning that gives the new one."""

from __future__ import annotations

GROUPS = {"aftermath": "diagnosis"}  # of config.yaml and of the Python interface
ANALYZERS = {"course": "trend", "explanation": "value_ranges", "verdict": "triage"}
MOVED = {("diagnosis", "regime", "exchange"): ("diagnosis", "exchange")}  # of config.yaml
METRICS = {
    "aftermath_cases_total": "diagnosis_cases_total",
    "aftermath_failures_total": "diagnosis_failures_total",
    "aftermath_seconds": "diagnosis_seconds",
}


def deprecated(old: str, new: str) -> str:
    """The warning."""
    return f"{old} is called {new} now; the old name is accepted until version 0.3"
