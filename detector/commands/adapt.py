"""`detector adapt`: refit a calibration or soft-sensor model under the shift that was seen."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.commands.base import json_option
from detector.commands.output import print_json, print_table

if TYPE_CHECKING:
    from detector.adaptation import Adaptation, Options, Pairs
    from detector.samples import Floats

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
WRITTEN = click.Path(path_type=Path, dir_okay=False)


@click.group()
def adapt() -> None:
    """Refit a calibration or soft-sensor model to where the values are after a change."""


@adapt.command()
@click.argument("pairs", type=FILE)
@click.option("--target", required=True, metavar="COLUMN", help="What the model predicts.")
@click.option("--feature", "features", multiple=True, metavar="COLUMN",
              help="What it predicts from; may be repeated. All other columns if not given.")  # fmt: skip
@click.option("--present", metavar="COLUMN", help="Predictions of the model in use, to compare with.")
@click.option("--values", "values_path", type=FILE, required=True,
              help="CSV of the features since the change.")  # fmt: skip
@click.option("--reference", "reference_path", type=FILE,
              help="CSV of the features before it; the labelled pairs if not given.")  # fmt: skip
@click.option("--ratio", type=click.Choice(["spectral", "grulsif"]), default="spectral", show_default=True,
              help="How the weights are estimated.")  # fmt: skip
@click.option("--model", type=click.Choice(["kernels", "line"]), default="kernels", show_default=True,
              help="What is fitted.")  # fmt: skip
@click.option("--least-size", type=click.FloatRange(min=5.0), default=30.0, show_default=True,
              help="Refuse below this effective sample size.")  # fmt: skip
@click.option("--most-outside", type=click.FloatRange(0.0, 1.0), default=0.5, show_default=True,
              help="Refuse if a larger share of the values lies where no pair is.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the folds.")
@click.option("--output", "-o", type=WRITTEN, required=True, metavar="MODEL.json", help="The model file.")
@click.option("--report", "report_path", type=WRITTEN, metavar="FILE.html", help="Write a page about it.")
@json_option
def fit(
    pairs: Path, target: str, features: tuple[str, ...], present: str | None, values_path: Path,
    reference_path: Path | None, output: Path, report_path: Path | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Weight labelled PAIRS by where the values are now, and fit the model again.

    PAIRS is a CSV file with a header: one row per labelled observation. The model in --output predicts the
    target from the features; `detector adapt predict`, or AdaptedModel of the Python package, evaluates it.
    Exit code 1 if the labelled pairs cannot tell what the model should be.
    """
    from detector.adaptation import Options, alone, spectral
    from detector.adaptation import adapt as compute

    options = Options(**given)
    labelled = _pairs(pairs, target, features, present)
    now = _rows(values_path, labelled.features, "values since the change")
    reference = (
        labelled.x if reference_path is None else _rows(reference_path, labelled.features, "reference")
    )
    if options.ratio == "spectral":
        weigh = spectral(reference, now, options.seed)
    else:
        weigh = alone(reference, now)
    made = compute(labelled, now, weigh, options)
    source = [("pairs from", pairs.name), ("values from", values_path.name), ("weights by", options.ratio)]
    _write(made, options, source, output, report_path, as_json)


def _pairs(path: Path, target: str, features: tuple[str, ...], present: str | None) -> Pairs:
    from detector.adaptation import pairs_of
    from detector.columns import Columns

    made, dropped = pairs_of(Columns.read(path.read_bytes(), str(path)), target, features, present)
    _tell(path, dropped)
    return made


def _rows(path: Path, features: tuple[str, ...], what: str) -> Floats:
    from detector.adaptation import MOST_ROWS
    from detector.columns import Columns, complete, thinned

    values, dropped = complete(Columns.read(path.read_bytes(), str(path)).numbers(features))
    _tell(path, dropped)
    if not len(values):
        raise ValueError(f"{path}: no complete row: there are no {what}")
    return thinned(values, MOST_ROWS)


def _tell(path: Path, dropped: int) -> None:
    if dropped:
        click.echo(f"{path}: {dropped} rows with a missing cell were left out", err=True)


def _write(made: Adaptation, options: Options, source: list[tuple[str, str]], output: Path,
           report_path: Path | None, as_json: bool) -> None:  # fmt: skip
    import msgspec

    said = made.facts()
    model = msgspec.structs.replace(made.model, about={"ratio": options.ratio, **said})
    output.write_bytes(model.encode())
    if report_path is not None:
        from detector.report_adaptation import write_adaptation

        write_adaptation(report_path, made, source)
    show_facts(said, as_json)
    click.echo(f"{output}: predicts {model.target} from {', '.join(model.features)}", err=True)


def show_facts(said: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    rows = [
        [name.replace("_", " "), _words(name, value)] for name, value in said.items() if value is not None
    ]
    print_table(["what", "value"], rows)


def _words(name: str, value: Any) -> str:
    if name == "outside":
        return f"{value:.1%}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@adapt.command()
@click.argument("model", type=FILE)
@click.argument("values", type=FILE)
@click.option("--output", "-o", type=WRITTEN, help="Write to this file.")
def predict(model: Path, values: Path, output: Path | None) -> None:
    """Evaluate a MODEL file at the rows of VALUES, a CSV file with the model's features.

    The rows come back with one more column, the target; it is empty where a feature is missing.
    """
    import numpy as np

    from detector.adapted import AdaptedModel
    from detector.columns import Columns

    adapted = AdaptedModel.load(model)
    columns = Columns.read(values.read_bytes(), str(values))
    x = columns.numbers(adapted.features)
    whole = np.isfinite(x).all(axis=1)
    found = np.full(len(x), np.nan)
    if whole.any():
        found[whole] = adapted.predict(x[whole])
    name = adapted.target if adapted.target not in columns.names else f"{adapted.target}_predicted"
    with click.open_file(str(output) if output else "-", "w", encoding="utf-8") as out:
        table = csv.writer(out if output else sys.stdout, lineterminator="\n")
        table.writerow([*columns.names, name])
        for row, y in zip(columns.rows, found.tolist(), strict=True):
            table.writerow([*row, f"{y:.10g}" if np.isfinite(y) else ""])


@adapt.command()
@click.argument("model", type=FILE)
@json_option
def show(model: Path, as_json: bool) -> None:
    """Say what a MODEL file predicts, and how good it was when it was made."""
    from detector.adapted import AdaptedModel

    found = AdaptedModel.load(model)
    kind = "line" if not found.centres else f"{len(found.centres)} {found.kernel} kernels"
    said = {"target": found.target, "features": ", ".join(found.features), "model": kind, **found.about}
    show_facts(said, as_json)
