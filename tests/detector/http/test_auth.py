"""Several tokens: each has a role, and its name is in the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detector.http.routes import ROUTES
from tests.detector import rig

ROLES = {"Vera": "view", "Otto": "operate", "Ada": "admin"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, learnt_state: Path) -> Iterator[rig.Service]:
    folder = tmp_path_factory.mktemp("auth")
    rig.copy_state(learnt_state, folder)
    (folder / "in.jsonl").write_text("\n".join(rig.lines(rig.LEARN + 60, 700, every=60)) + "\n")
    tokens = []
    for name, role in ROLES.items():
        (folder / name).write_text(f"secret of {name}\n")
        tokens.append({"name": name, "role": role, "token_file": str(folder / name)})
    with rig.Service(rig.write_config(folder, http={"port": 0, "tokens": tokens})) as service:
        service.wait_ready()
        rig.wait_for(lambda: ask(service, "Vera", "/api/v1/incidents")[1]["incidents"])
        yield service


def ask(
    service: rig.Service, who: str | None, path: str, method: str = "GET", body: str = ""
) -> tuple[int, Any]:
    given = {} if who is None else {"Authorization": f"Bearer secret of {who}"}
    found: tuple[int, Any] = service.ask(path, method, body, given)
    return found


def test_what_changes_something_needs_more_than_view() -> None:
    for route in ROUTES:
        assert route.method == "GET" or route.role != "view", route.path


def test_roles(service: rig.Service) -> None:
    incident = ask(service, "Vera", "/api/v1/incidents")[1]["incidents"][0]["incident"]
    comments = f"/api/v1/incidents/{incident}/comments"
    assert ask(service, None, "/api/v1/incidents")[0] == 401
    assert ask(service, "Eve", "/api/v1/incidents")[0] == 401
    status, answer = ask(service, "Vera", comments, "POST", '{"text": "seen"}')
    assert (status, answer) == (403, {"error": "Vera has the role view; this needs operate"})
    assert ask(service, "Otto", comments, "POST", '{"text": "seen"}')[0] == 200
    assert ask(service, "Ada", comments, "POST", '{"text": "seen, too"}')[0] == 200
    assert ask(service, "Ada", comments, "POST", '{"text": " "}')[0] == 400
    told = ask(service, "Vera", comments)[1]["comments"]
    assert [(one["who"], one["text"]) for one in told] == [("Otto", "seen"), ("Ada", "seen, too")]
    label = f"/api/v1/incidents/{incident}/label"
    assert ask(service, "Otto", label, "POST", '{"alarm": "true"}')[0] == 200
    trail = ask(service, "Vera", f"/api/v1/audit?subject={incident}")[1]["audit"]
    assert [(one["who"], one["action"]) for one in trail] == [
        ("Otto", "label"), ("Ada", "comment"), ("Otto", "comment"),
    ]  # fmt: skip


def test_signals_of_an_incident(service: rig.Service) -> None:
    """Before, during and after; the distributions of before and since differ as the data do."""
    listed = ask(service, "Vera", "/api/v1/incidents")[1]["incidents"]
    first = min((one for one in listed if one["resolution"]), key=lambda one: one["opened"])
    status, found = ask(service, "Vera", f"/api/v1/incidents/{first['incident']}/signals")
    assert status == 200
    strongest = found["nodes"][0]
    times, values = strongest["times"], strongest["mean"][0]
    before = [v for t, v in zip(times, values, strict=True) if t < found["onset"] - 2]
    during = [v for t, v in zip(times, values, strict=True) if found["onset"] + 1 <= t < found["onset"] + 9]
    assert min(len(before), len(during)) >= 7
    assert abs(sum(before) / len(before)) < 0.7
    assert sum(during) / len(during) > 4.5
    assert max(times) > found["ended"]
    assert max(x for x in strongest["statistic"] if x is not None) > found["threshold"]
    drawn = found["distributions"][0]
    assert len(drawn["edges"]) == len(drawn["before"]) + 1 == len(drawn["after"]) + 1
    assert sum(drawn["before"]) == pytest.approx(1.0, abs=0.01)
    assert ask(service, "Vera", "/api/v1/incidents/none/signals")[0] == 404
