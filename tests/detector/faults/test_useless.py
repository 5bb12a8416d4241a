"""A source that sends what cannot be used looks healthy to everybody but us (T26)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.detector import rig


def test_late_unknown_and_malformed_samples_are_told(tmp_path: Path, learnt_state: Path) -> None:
    """By the answer to the sender, in the log with an example, by readiness, by a metric, in the status."""
    rig.copy_state(learnt_state, tmp_path)
    lines = list(rig.lines(rig.LEARN + 60, rig.LEARN + 100))
    config = rig.write_config(tmp_path, sources={"push": {"type": "http"}}, diagnosis=rig.only())
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.ask("/readyz")[0] == 200)

        def push(text: str) -> tuple[int, dict[str, object]]:
            return service.ask("/ingest", "POST", text)

        every = len(lines)
        assert push("\n".join(lines)) == (200, {"received": every, "accepted": every, "rejected": {}})
        assert service.ask("/readyz")[1]["status"] == "ready"
        foreign = "\n".join(line.replace('"node": "n', '"node": "pump') for line in lines[-60:])
        assert push(foreign) == (422, {"received": 60, "accepted": 0, "rejected": {"unknown_node": 60}})
        late = "\n".join(rig.lines(rig.LEARN + 60, rig.LEARN + 65, seed=2))
        two = json.dumps({"time": rig.START + rig.LEARN + 100, "node": "n1", "values": [1.0, 2.0]})
        status, told = push(
            "\n".join(
                [late, two, "{", lines[-1].replace("n7", "n8"), *rig.lines(rig.LEARN + 100, rig.LEARN + 101)]
            )
        )
        assert status == 200
        assert told == {
            "received": 51,
            "accepted": 8,
            "rejected": {"malformed": 1, "late": 40, "dimension": 1, "unknown_node": 1},
        }
        rig.wait_for(lambda: service.ask("/readyz")[1]["status"] == "degraded")
        code, ready = service.ask("/readyz")
        assert code == 200
        assert any("not in the network; e.g. node" in text for text in ready["sources"]["push"]["trouble"])
        assert service.ask("/api/v1/status")[1]["sources"]["push"]["trouble"]
        assert service.metric("source_useless_ratio", source="push", kind="unknown") > 0.1
        rig.wait_for(
            lambda: (
                "of its samples are of nodes that are not in the network; for example node" in service.said()
            )
        )
        assert service.stop() == 0
