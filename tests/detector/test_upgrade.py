"""A state that an earlier release left behind: brought up to date, and gone on with as before (T22)."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

from detector import database
from tests.detector import rig

DATA = Path(__file__).parents[1] / "data"


def test_a_state_of_version_1_goes_on(tmp_path: Path) -> None:
    """What waited is sent, what was labelled is known, and the later records are those of the old program."""
    (tmp_path / "state").mkdir(mode=0o700)
    path = tmp_path / "state" / database.FILE
    path.write_bytes(gzip.decompress((DATA / "state_version_1.db.gz").read_bytes()))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        waiting = [row[0] for row in connection.execute("SELECT id FROM outbox WHERE sink = 'hook'")]
    assert len(waiting) > 5
    # The file is another one than the old daemon read: from its beginning, and what is known counts as late.
    lines = [*rig.lines(rig.LEARN + 60, 640, every=120, lasts=200), *rig.lines(640, 1100, every=90)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    hook = rig.Receiver()
    sinks = {
        "out": {"type": "file", "path": str(tmp_path / "out.jsonl")},
        "hook": {"type": "webhook", "url": hook.url},
    }
    with rig.Service(rig.write_config(tmp_path, sinks=sinks), "--once") as service:
        assert service.process.wait(60) == 0, service.said()
        assert "1440 samples repeated, phase watching" in service.said()
        assert "damaged" not in service.said()
    hook.close()
    expected = (DATA / "state_version_1.ids").read_text().split()
    assert rig.without_findings(rig.ids(tmp_path / "out.jsonl")) == expected
    assert set(waiting) | set(expected) == set(rig.without_findings(hook.ids))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (database.VERSION,)
        assert connection.execute("SELECT count(*) FROM label").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM case_file").fetchone()[0] > 0
