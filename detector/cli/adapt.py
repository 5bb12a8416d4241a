"""`detector adapt`: refit a calibration or soft-sensor model under the shift that was seen."""

from __future__ import annotations

import base64
import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.common import load_config, print_json, print_table
from detector.cli.options import config_option, json_option

if TYPE_CHECKING:
    from detector.adaptation.refit import Pairs
    from estimators.core.types import Floats

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
WRITTEN = click.Path(path_type=Path, dir_okay=False)


@click.group()
def adapt() -> None:
    """Refit a calibration or soft-sensor model to the values after a change."""


@adapt.command()
@click.argument("pairs", type=FILE)
@click.option("--target", "targets", required=True, multiple=True, metavar="COLUMN",
              help="What the model predicts; may be repeated: several have one model.")  # fmt: skip
@click.option("--feature", "features", multiple=True, metavar="COLUMN",
              help="Input column; may be repeated. Default: all other columns; with --incident all "
              "components of the node.")  # fmt: skip
@click.option("--present", multiple=True, metavar="COLUMN",
              help="Column with the predictions of the present model, for comparison; one for each "
              "target.")  # fmt: skip
@click.option("--values", "values_path", type=FILE, help="CSV of the features since the change.")
@click.option("--reference", "reference_path", type=FILE,
              help="CSV of the features before the change; default: the labelled pairs.")  # fmt: skip
@click.option("--incident", help="Take the values since the change from this incident instead of a file.")
@click.option("--node", help="Node of the incident; default: the one with the largest statistic.")
@click.option("--name", help="Name of the model in the state; default: NODE.TARGET.")
@click.option("--ratio", type=click.Choice(["spectral", "grulsif"]), default="spectral", show_default=True,
              help="Method that estimates the weights.")  # fmt: skip
@click.option("--model", type=click.Choice(["kernels", "line"]), default="kernels", show_default=True,
              help="What is fitted.")  # fmt: skip
@click.option("--scheme", type=click.Choice(["tikhonov", "iterated", "cutoff", "landweber"]),
              default="iterated", show_default=True,
              help="Regularisation of the ratio and of the model.")  # fmt: skip
@click.option("--order", type=click.IntRange(1, 20), help="Order of the iterated scheme; default: 3.")
@click.option("--least-size", type=click.FloatRange(min=5.0), default=30.0, show_default=True,
              help="Refuse below this effective sample size.")  # fmt: skip
@click.option("--most-outside", type=click.FloatRange(0.0, 1.0), default=0.5, show_default=True,
              help="Refuse if a larger share of the values lies outside the range of the pairs.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the cross-validation folds.")
@click.option("--output", "-o", type=WRITTEN, required=True, metavar="MODEL.json", help="The model file.")
@click.option("--report", "report_path", type=WRITTEN, metavar="FILE.html", help="Write an HTML report.")
@config_option
@json_option
def fit(
    pairs: Path, targets: tuple[str, ...], features: tuple[str, ...], present: tuple[str, ...],
    values_path: Path | None, reference_path: Path | None, incident: str | None, node: str | None,
    name: str | None, output: Path, report_path: Path | None, config_path: Path, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Refit a model, weighting labelled PAIRS by the distribution of the present values.

    PAIRS is a CSV file with a header: one row per labelled observation. The values since the change are in a
    file (--values; needs neither daemon nor configuration), or in the case file of an incident (--incident).
    The model in --output predicts the target from the features; `detector adapt predict`, or AdaptedModel of
    the Python package, evaluates it. Exit code 1 if the labelled pairs cannot tell what the model should be.
    """
    if (values_path is None) == (incident is None):
        raise click.UsageError("give one of --values and --incident")
    if incident is None:
        assert values_path is not None
        if node is not None or name is not None:
            raise click.UsageError("--node and --name belong to --incident")
        labelled = _pairs(pairs, targets, features, present)
        result = _from_files(labelled, values_path, reference_path, report_path is not None, given)
    else:
        if reference_path is not None:
            raise click.UsageError("--reference belongs to --values; an incident has its own")
        asked = {"target": list(targets), "features": list(features), "present": list(present) or None,
                 "incident": incident, "node": node, "name": name, "page": report_path is not None,
                 **given}  # fmt: skip
        result = _from_incident(config_path, pairs, asked)
    output.write_bytes(result.pop("file"))
    page = result.pop("page", None)
    if report_path is not None:
        report_path.write_bytes(page)
    show_facts(result, as_json)


def _from_files(pairs: Pairs, values_path: Path, reference_path: Path | None, page: bool,
                given: dict[str, Any]) -> dict[str, Any]:  # fmt: skip
    import msgspec

    from detector.adaptation.refit import Options, alone, spectral
    from detector.adaptation.refit import adapt as compute

    options = Options(**given)
    now = _rows(values_path, pairs.features)
    reference = pairs.x if reference_path is None else _rows(reference_path, pairs.features)
    weigh = alone(reference, now) if options.ratio == "grulsif" else spectral(reference, now, options)
    made = compute(pairs, now, weigh, options)
    said = {"ratio": options.ratio, "scheme": options.scheme, **made.facts()}
    model = msgspec.structs.replace(made.model, about=said)
    result = {**said, "file": model.encode()}
    if page:
        from detector.adaptation.page import adaptation_page

        source = [("values from", values_path.name), ("ratio", options.ratio)]
        result["page"] = adaptation_page(made, source).encode()
    return result


def _from_incident(config_path: Path, pairs: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """By the running daemon, or with its state."""
    from detector.cli.diagnosis import act

    body = {key: value for key, value in asked.items() if value is not None}
    body["pairs"] = base64.b64encode(pairs.read_bytes()).decode()
    result = act(load_config(config_path), "adapt", "fit", body, {"pairs": pairs})
    return result | {key: base64.b64decode(result[key]) for key in ("file", "page") if key in result}


def _pairs(
    path: Path, targets: tuple[str, ...], features: tuple[str, ...], present: tuple[str, ...]
) -> Pairs:
    from detector.adaptation.csv_table import Columns
    from detector.adaptation.refit import pairs_of

    made, dropped = pairs_of(Columns.read(path.read_bytes(), str(path)), targets, features, present)
    _tell(path, dropped)
    return made


def _rows(path: Path, features: tuple[str, ...]) -> Floats:
    from detector.adaptation.csv_table import Columns, complete, thinned
    from detector.adaptation.refit import MOST_ROWS

    values, dropped = complete(Columns.read(path.read_bytes(), str(path)).numbers(features))
    _tell(path, dropped)
    if not len(values):
        raise ValueError(f"{path}: there is no complete row")
    return thinned(values, MOST_ROWS)


def _tell(path: Path, dropped: int) -> None:
    if dropped:
        click.echo(f"{path}: {dropped} rows with a missing cell were left out", err=True)


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
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_words(name, one)}" for key, one in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@adapt.command()
@click.argument("model", type=FILE)
@click.argument("values", type=FILE)
@click.option("--output", "-o", type=WRITTEN, help="Write to this file.")
def predict(model: Path, values: Path, output: Path | None) -> None:
    """Evaluate a MODEL file at the rows of VALUES, a CSV file with the model's features.

    The rows come back with one more column for each target; it is empty where a feature is missing.
    """
    import numpy as np

    from detector.adaptation.csv_table import Columns
    from detector.adaptation.model_file import AdaptedModel

    adapted = AdaptedModel.load(model)
    columns = Columns.read(values.read_bytes(), str(values))
    x = columns.numbers(adapted.features)
    whole = np.isfinite(x).all(axis=1)
    found = np.full((len(x), len(adapted.targets)), np.nan)
    if whole.any():
        found[whole] = adapted.predict(x[whole]).reshape(-1, len(adapted.targets))
    names = [one if one not in columns.names else f"{one}_predicted" for one in adapted.targets]
    with click.open_file(str(output) if output else "-", "w", encoding="utf-8") as out:
        table = csv.writer(out if output else sys.stdout, lineterminator="\n")
        table.writerow([*columns.names, *names])
        for row, predicted in zip(columns.rows, found.tolist(), strict=True):
            table.writerow([*row, *(f"{y:.10g}" if np.isfinite(y) else "" for y in predicted)])


@adapt.command()
@click.argument("model", type=FILE)
@json_option
def show(model: Path, as_json: bool) -> None:
    """Show what a MODEL file predicts, and how accurate it was when it was fitted."""
    from detector.adaptation.model_file import AdaptedModel

    found = AdaptedModel.load(model)
    kind = "line" if not found.centres else f"{len(found.centres)} {found.kernel} kernels"
    said = {
        "target": ", ".join(found.targets),
        "features": ", ".join(found.features),
        "model": kind,
        **found.about,
    }
    show_facts(said, as_json)
