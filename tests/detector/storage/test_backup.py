"""`detector state backup|restore`, and the copies that the daemon makes by itself."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detector.cli.main import cli
from detector.storage import backup
from detector.storage.database import FILE
from detector.storage.inspect import inspect
from detector.storage.schema import VERSION
from tests.detector import rig


def command(config: Path, *arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["state", *map(str, arguments), "--config", str(config)])


def write(folder: Path, first: int, last: int) -> None:
    with (folder / "in.jsonl").open("a") as file:
        file.write("\n".join(rig.lines(first, last, every=60)) + "\n")


def test_backup_and_restore(tmp_path: Path, learnt_state: Path) -> None:
    """Saved while the daemon works; put back, it goes on from the moment of the copy."""
    rig.copy_state(learnt_state, tmp_path)
    write(tmp_path, rig.LEARN + 60, 600)
    sources = {"in": {"type": "file", "path": str(tmp_path / "in.jsonl"), "mode": "tail", "poll": "20ms"}}
    config = rig.write_config(tmp_path, sources=sources, diagnosis=rig.only())
    copy = tmp_path / "copy.db"
    with rig.Service(config) as service:
        service.wait_ready()
        rig.wait_for(lambda: service.metric("ticks_total") > 120)
        rig.wait_for(lambda: rig.ids(tmp_path / "out.jsonl"))
        rig.wait_for(lambda: service.metric("outbox_records", sink="out") == 0)
        said = command(config, "backup", copy)
        assert said.exit_code == 0, said.stderr
        assert "state saved in" in said.stdout
        said = command(config, "backup", copy)
        assert (said.exit_code, "exists already" in said.stderr) == (74, True)
        said = command(config, "restore", copy)
        assert (said.exit_code, "in use by another process" in said.stderr) == (74, True)
        write(tmp_path, 600, 760)
        rig.wait_for(lambda: service.metric("ticks_total") > 280)
        assert service.stop() == 0
    known = rig.ids(tmp_path / "out.jsonl")
    with sqlite3.connect(copy) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        saved = connection.execute("SELECT max(number) FROM record").fetchone()[0]
    assert not list(tmp_path.glob("copy.db?*")), "a copy is one file"

    said = command(config, "restore", copy)
    assert said.exit_code == 0, said.stderr
    assert f"{FILE}.replaced-" in said.stdout
    (tmp_path / "out.jsonl").unlink()
    with rig.Service(config) as service:
        service.wait_ready()
        assert "damaged" not in service.said()
        assert service.metric("watching") == 1
        rig.wait_for(lambda: service.metric("ticks_total") > 150)
        assert service.stop() == 0
    again = rig.ids(tmp_path / "out.jsonl")
    assert again, "what came after the copy is found again"
    assert set(again) <= set(known), "under the same ids"
    assert len(known) - saved <= len(again) < len(known)


def test_restoring_what_the_daemon_copied_itself(tmp_path: Path, learnt_state: Path) -> None:
    """Without a name it is the newest copy; into an empty folder a copy from elsewhere."""
    rig.copy_state(learnt_state, tmp_path)
    config = rig.write_config(tmp_path)
    found = inspect(tmp_path / "state")["backups"]
    assert found[0]["name"] == "backups/learnt-0001.db", "made after the calibration"
    said = command(config, "restore")
    assert said.exit_code == 0, said.stderr
    write(tmp_path, rig.LEARN + 60, 500)
    with rig.Service(config, "--once") as service:
        assert service.process.wait(rig.PATIENCE_S) == 0, service.said()
        assert "phase watching" in service.said()
    shutil.move(tmp_path / "state", tmp_path / "elsewhere")
    assert command(config, "restore").exit_code == 2
    assert command(config, "restore", backup.copies(tmp_path / "elsewhere")[0]).exit_code == 0
    with sqlite3.connect(tmp_path / "state" / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM snapshot").fetchone() == (1,)


@pytest.mark.parametrize("fault", ["missing", "text", "damaged", "newer"])
def test_what_is_no_sound_copy_is_refused(tmp_path: Path, learnt_state: Path, fault: str) -> None:
    """The state stays as it is."""
    rig.copy_state(learnt_state, tmp_path)
    config = rig.write_config(tmp_path)
    copy = tmp_path / "copy.db"
    if fault != "missing":
        shutil.copy(backup.copies(tmp_path / "state")[0], copy)
    if fault == "text":
        copy.write_text("no database at all " * 500)
    elif fault == "damaged":
        with sqlite3.connect(copy) as connection:
            connection.execute("UPDATE snapshot_piece SET body = randomblob(length(body))")
    elif fault == "newer":
        with sqlite3.connect(copy) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = (tmp_path / "state" / FILE).read_bytes()
    said = command(config, "restore", copy)
    assert said.exit_code == 74
    assert "copy.db" in said.stderr
    assert "Traceback" not in said.stderr
    assert (tmp_path / "state" / FILE).read_bytes() == before


def test_an_older_copy_is_brought_up_to_date(tmp_path: Path) -> None:
    """A whole state that version 0.1 left behind is a copy too."""
    copy = tmp_path / "old.db"
    data = Path(__file__).parents[2] / "data" / "state_version_2.db.gz"
    copy.write_bytes(gzip.decompress(data.read_bytes()))
    assert backup.restore(tmp_path / "state", copy) is None
    assert inspect(tmp_path / "state")["version"] == VERSION
