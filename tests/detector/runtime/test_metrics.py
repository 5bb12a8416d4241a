"""Metrics: one table, clean by Prometheus' own tools, bounded; rules, dashboard and manual agree with it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import yaml

from detector.runtime.metrics import TABLE, Metrics
from tests import servers

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "monitoring"
NAMES = {f"detector_{metric.name}" for metric in TABLE}


def exposed() -> set[str]:
    """Names as they are exposed, with the parts of histograms."""
    found = set(NAMES)
    for metric in TABLE:
        if metric.kind == "histogram":
            found |= {f"detector_{metric.name}{part}" for part in ("_bucket", "_sum", "_count")}
    return found


def test_promtool_finds_no_fault() -> None:
    """The real promtool accepts the page, with every label set in use."""
    metrics = Metrics()
    for name in ("a", "b"):
        metrics.add_source(name)
        metrics.add_sink(name)
    metrics.replace("node_statistic", "node", [('we"ird\\\nname', 1.0)])
    checked = subprocess.run(
        [servers.program("promtool"), "check", "metrics"], input=metrics.page(), capture_output=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert not checked.stdout


def test_names_follow_the_conventions() -> None:
    """Counters end in _total, nothing else does; every metric has a sentence."""
    for metric in TABLE:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")
        assert re.fullmatch(r"[a-z][a-z_]+", metric.name)
        assert len(metric.labels) <= 2


def test_counts_and_forgets() -> None:
    """Counting, setting, replacing; the series of a source that is gone are gone."""
    metrics = Metrics()
    metrics.add_source("a")
    metrics.add_source("b")
    metrics.count("samples_received_total", 5, source="a")
    metrics.replace("node_statistic", "node", [("x", 1.0), ("y", 2.0)])
    metrics.replace("node_statistic", "node", [("y" * 500, 3.0)])
    text = metrics.page().decode()
    assert 'detector_samples_received_total{source="a"} 5.0' in text
    assert text.count("detector_node_statistic{") == 1
    assert "y" * 129 not in text
    metrics.forget("source", "a")
    text = metrics.page().decode()
    assert 'source="a"' not in text
    assert 'source="b"' in text
    with pytest.raises(KeyError):
        metrics.count("no_such_total")


def test_manual_has_every_metric() -> None:
    """docs/metrics.md is the table."""
    made = run_path(str(ROOT / "scripts" / "metrics-reference"))["page"]()
    assert (ROOT / "docs" / "metrics.md").read_text() == made


def test_alert_rules_fire_and_stay_silent() -> None:
    """promtool runs a firing and a silent case for each rule."""
    for arguments in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            [servers.program("promtool"), *arguments], cwd=MONITORING, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    cases = yaml.safe_load((MONITORING / "alerts_test.yml").read_text())["tests"]
    for rule in rules:
        tried = [
            case["alert_rule_test"][0]
            for case in cases
            if case["alert_rule_test"][0]["alertname"] == rule["alert"]
        ]
        assert sorted(bool(case.get("exp_alerts")) for case in tried) == [False, True], rule["alert"]
        assert {"summary", "description"} <= set(rule["annotations"])
        assert _named(rule["expr"]) <= exposed()


def _named(expression: str) -> set[str]:
    return set(re.findall(r"\bdetector_[a-z_]+", expression))


def _panels() -> list[dict[str, Any]]:
    return json.loads((MONITORING / "dashboard.json").read_text())["panels"]


def test_dashboard_is_portable() -> None:
    """Fixed uid, no id, tags; data source, job and instance are variables."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    assert dashboard["uid"] == "detector"
    assert dashboard["id"] is None
    assert dashboard["tags"]
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == [
        "datasource",
        "job",
        "instance",
    ]


@pytest.mark.parametrize("panel", _panels(), ids=lambda panel: panel["title"])
def test_every_panel_is_whole(panel: dict[str, Any]) -> None:
    """Title, description, unit, templated data source; real metrics, chosen by job and instance."""
    assert panel["title"]
    assert panel["description"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        expression = target["expr"]
        assert target["datasource"]["uid"] == "${datasource}"
        named = _named(expression)
        assert named
        assert named <= exposed()
        assert expression.count('job=~"$job", instance=~"$instance"') == len(
            re.findall(r"detector_[a-z_]+\{", expression)
        )
        assert ("rate(" in expression) == ("[$__rate_interval]" in expression)


def test_dashboard_queries_are_valid(tmp_path: Path) -> None:
    """promtool parses each query, as a rule."""
    fill = {"$__rate_interval": "5m", "$job": ".+", "$instance": ".+"}
    rules = []
    for number, target in enumerate(target for panel in _panels() for target in panel["targets"]):
        expression = target["expr"]
        for name, value in fill.items():
            expression = expression.replace(name, value)
        rules.append({"record": f"query:{number}", "expr": expression})
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        [servers.program("promtool"), "check", "rules", path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
