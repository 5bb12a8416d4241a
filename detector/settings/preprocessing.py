"""The `preprocess:` group of config.yaml."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from connectors.registry import PluginError
from detector.settings.base import Group, setting
from detector.settings.registries import STEPS
from detector.settings.span import Time

Count = Annotated[int, Field(ge=0)]


def _known(steps: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each is a step of another package, with keys that it takes; only those that are named are imported."""
    for name, keys in steps.items():
        if name not in STEPS or name in STEPS.builtin:
            brought = ", ".join(step for step in STEPS if step not in STEPS.builtin)
            raise ValueError(f"{name}: no installed package brings such a step; known: {brought or 'none'}")
        try:
            STEPS.load(name).Config.model_validate(keys)
        except PluginError as error:
            raise ValueError(str(error)) from None
        except AttributeError:
            raise ValueError(str(STEPS.refusal(name, "has no Config"))) from None
        except ValidationError as error:
            wrong = [f"{name}.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            raise ValueError("; ".join(wrong)) from None
    return steps


class PreprocessSettings(Group):
    """Scales values to units of their baseline spread. 0 and null switch a step off.

    What auto chose, and why, is in the report of the calibration. Plain levels are watched beside differenced
    or whitened values, so that neither hides a lasting change of level.
    """

    seasonal: Time | None = setting(
        None,
        "Period of a seasonal profile that is learnt and subtracted, for example 24h; null: none.",
        applies="relearn",
        gt=0,
    )
    screen: Literal["off", "on"] = setting(
        "off",
        "on: isolated corrupt readings, at most two in a row and a tenth of the longest test window, never "
        "enter the windows; a single node that jumps is seen up to two readings later.",
        applies="relearn",
    )
    seasonal_bins: int = setting(48, "Steps of the seasonal profile.", applies="relearn", ge=2)
    difference: Count | Literal["auto"] = setting(
        "auto",
        "Use differences at this lag (in samples) instead of values; 0: none; auto: lag 1 where the level "
        "drifts.",
        applies="relearn",
    )
    whiten: Count | Literal["aic", "auto"] = setting(
        "auto",
        "Order of the autoregression that is removed; 0: none; aic: chosen per node and component; auto: "
        "aic where samples are correlated.",
        applies="relearn",
    )
    max_order: int = setting(8, "Largest order for aic and auto.", applies="relearn", ge=1)
    embed: int = setting(
        1, "Consecutive samples of a node joined into one vector; 1: none.", applies="relearn", ge=1
    )
    clip: float = setting(
        20.0,
        "Values beyond this many robust standard deviations are clipped.",
        applies="relearn",
        ge=1,
        le=1e6,
    )
    steps: Annotated[dict[str, dict[str, Any]], AfterValidator(_known)] = setting(
        {}, "Steps of other installed packages: name, and the keys of that step.", applies="relearn"
    )
