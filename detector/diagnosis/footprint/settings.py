"""Settings of the footprint analyzer: when it learns from labels, and when what it learnt is used."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from detector.diagnosis.analyzer import AnalyzerSettings


class Settings(AnalyzerSettings):
    """Which nodes are actually affected, and by which type of event, learnt from labelled incidents."""

    min_events: int = Field(
        default=5,
        ge=2,
        description="Number of labelled incidents needed before anything is learnt; until then thresholds "
        "are used.",
    )
    use: Literal["better", "always", "never"] = Field(
        default="better",
        description="When to use what was learnt: if it names nodes of incidents left out better than "
        "thresholds do, always, or never.",
    )
    retrain: bool = Field(default=True, description="Whether to retrain after each new label.")
    loss: Literal["costs", "f1"] = Field(
        default="costs",
        description="What is learnt for: least costs of single nodes, or F1 of the set of affected nodes, "
        "for which a missed node counts less the larger the incident is.",
    )
    peers: bool = Field(
        default=True,
        description="Whether other daemons are asked where labels are too few here, and answered; needs "
        "diagnosis.exchange.",
    )
    miss_cost: float = Field(
        default=2.0,
        gt=0,
        le=100,
        description="Cost of a missed node; a wrongly named one costs 1. Not used with loss f1.",
    )
    one_type: bool = Field(
        default=True, description="Whether all nodes of an incident are affected by the same type of event."
    )
    edge_weight: float = Field(
        default=0.0, ge=0, lt=1,
        description="Share of linked nodes being affected together in the decision; 0 does not couple them.",
    )  # fmt: skip
    node_identity: float = Field(
        default=0.0, ge=0, le=1000,
        description="Extra weight of a node's own history; 0 also covers nodes never seen.",
    )  # fmt: skip

    @model_validator(mode="after")
    def _coupled(self) -> Settings:
        if self.loss == "f1" and self.edge_weight:
            raise ValueError("edge_weight: linked nodes are coupled with loss costs only")
        return self
