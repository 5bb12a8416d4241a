"""The base of all settings, of connectors and of everything else that is configured."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Strict, immutable, unknown keys refused, inputs never echoed in errors."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )
