"""Settings of the regime analyzer: how sure it has to be, and whether labels teach it by themselves."""

from __future__ import annotations

from pydantic import Field

from detector.diagnosis.analyzer import AnalyzerSettings


class Settings(AnalyzerSettings):
    """Which known regime the nodes have entered, or that it is a new one."""

    alpha: float = Field(
        default=0.05, description="Share of windows of a known regime that may be called novel.", gt=0, le=0.5
    )
    enrol: bool = Field(
        default=True, description="Whether a type is enrolled by itself once labels give it enough windows."
    )
