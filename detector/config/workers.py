"""Workers that a configuration asks for and that will have nothing to do."""

from __future__ import annotations

from detector.config.yaml_reader import KeyPath
from detector.events.wording import counted
from detector.settings.estimator import MOST_PARTS, EngineSettings


def idle_workers(engine: EngineSettings, n_nodes: int, boxed: bool) -> tuple[KeyPath, str] | None:
    """The key and what is wrong with it.

    ``boxed``: other daemons watch the rest of the network, and what this one watches is one part.
    """
    if engine.type == "inline":
        return None
    if boxed:
        return ("engine", "type"), "with edge a box is one part, which one core computes, as with inline"
    parts, workers, nodes = engine.n_parts(n_nodes), engine.workers, counted(n_nodes, "node")
    if workers != "auto" and workers > parts:
        automatic = f" (auto, for {nodes})" if engine.parts == "auto" else ""
        return ("engine", "workers"), (
            f"the network has {counted(parts, 'part')}{automatic}, so that {workers - parts} of {workers} "
            f"workers have nothing to do after learning; engine.parts: {workers} would use them"
        )
    if engine.type == "ray" and engine.parts == "auto":
        return ("engine", "parts"), (
            f"auto gives {counted(parts, 'part')} for {nodes}, and never more than {MOST_PARTS}: there are "
            "no more actors than that, however large the cluster is"
        )
    return None
