"""The reference of metrics, made from the table: ``python -m detector.metrics_page > docs/metrics.md``."""

from __future__ import annotations

from detector.metrics import TABLE

HEAD = """# Metrics

`GET /metrics` gives these in Prometheus' text format, besides `process_*` (memory, CPU, descriptors). All
names begin with `detector_`. Counters start anew with each process; `rate()` and `increase()` know. There is
a series per source, sink, reason or state, and never one per node, except `detector_node_statistic`: by
default the 20 nodes with the largest statistic, at most 200 (`http.node_metrics`).

Alert rules with their tests and a Grafana dashboard are in `monitoring/`.

This page is made from the table in `detector/metrics.py`.

| Metric | Type | Labels | Meaning |
|---|---|---|---|
"""


def page() -> str:
    rows = (
        f"| `detector_{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in TABLE
    )
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(page(), end="")
