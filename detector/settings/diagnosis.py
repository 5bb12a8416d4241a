"""The `diagnosis:` group of config.yaml: when case files are taken, how many are kept, the time limit.

Each analyzer has a key of its own in this group; its settings are in its own module (detector.diagnosis).
"""

from __future__ import annotations

from pydantic import Field

from connectors.settings.units import Duration, Size
from detector.settings.base import Group as Model


class CaseSettings(Model):
    """When the pipeline takes case files: the part that decides what a replay finds."""

    early: int = Field(
        default=10, description="Ticks after the opening at which the early case file is taken.", ge=1
    )
    settle: int = Field(
        default=64,
        description="Samples past the onset after which an incident is settled; at most the longest test "
        "window.",
        ge=1,
    )


class DiagnosisSettings(CaseSettings):
    """What is found out about incidents after the alarm, off the path of detection; one key per analyzer."""

    keep: int = Field(default=1000, description="Case files kept of unlabelled incidents.", ge=1)
    keep_size: Size = Field(
        default=12 * 2**20, description="Largest total size of case files of unlabelled incidents.", ge=2**20
    )
    keep_labelled_size: Size = Field(
        default=12 * 2**20, description="Largest total size of case files of labelled incidents.", ge=2**20
    )
    time_limit: Duration = Field(
        default=20.0,
        description="CPU time limit of one analyzer for one case file; ten times as much in real time.",
        gt=0,
        le=600,
    )

    @property
    def cases(self) -> CaseSettings:
        return CaseSettings(early=self.early, settle=self.settle)
