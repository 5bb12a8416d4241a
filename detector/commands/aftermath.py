"""`detector aftermath`: what was learnt from incidents, and what people have done with it."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.commands.base import RUNTIME, Failure, config_option, failure_of, json_option, load_config
from detector.commands.client import Daemon, NotRunning
from detector.commands.options import files_of, options_of
from detector.commands.output import print_json, print_table

if TYPE_CHECKING:
    from detector.aftermath.actions import Action
    from detector.aftermath.shelf import Shelf
    from detector.config import Config


class Kinds(click.Group):
    """Its groups are the kinds of findings, their commands the actions; imported when somebody looks."""

    _given: MutableMapping[str, click.Command]
    _made: dict[str, click.Command] | None = None

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        if self._made is None:
            from detector.aftermath.kinds import KINDS, kind_module

            modules = {kind: kind_module(kind) for kind in KINDS}
            self._made = {**self._given} | {
                kind: _group(kind, module) for kind, module in modules.items() if module.ACTIONS
            }
        return self._made

    @commands.setter
    def commands(self, given: MutableMapping[str, click.Command]) -> None:
        self._given = given


def _group(kind: str, module: Any) -> click.Group:
    about = (module.__doc__ or kind).strip().split("\n\n")[0]
    made = {name: _command(kind, name, action) for name, action in module.ACTIONS.items()}
    return click.Group(kind, made, help=" ".join(about.split()))


def _command(kind: str, name: str, action: Action) -> click.Command:
    options, values = options_of(action.arguments)

    def run(config_path: Path, as_json: bool, output: Path | None = None, **given: Any) -> None:
        result = act(load_config(config_path), kind, name, values(given), files_of(given))
        if action.file:
            assert output is not None
            output.write_bytes(base64.b64decode(result.pop("file")))
        if as_json:
            print_json(result)
        else:
            _print(result)

    run = config_option(json_option(run))
    made = click.command(name, help=action.help)(run)
    made.params[:0] = options
    if action.file:
        path = click.Path(path_type=Path, dir_okay=False)
        made.params.append(
            click.Option(["--output", "-o"], type=path, required=True, help="Write the result to this file.")
        )
    return made


def act(
    config: Config, kind: str, name: str, arguments: dict[str, Any], files: Mapping[str, Path]
) -> dict[str, Any]:
    """Have the running daemon do it; if there is none, do it here with its database.

    ``files`` are those that arguments were read from, by what an error calls them.
    """
    try:
        try:
            return Daemon(config).act(f"/api/v1/aftermath/{kind}/{name}", arguments)
        except NotRunning:
            return _here(config, lambda shelf: _directly(shelf, kind, name, arguments))
    except (Failure, ValueError) as error:
        failure = error if isinstance(error, Failure) else failure_of(error)
        for said, path in files.items():
            if re.match(rf"{said}\b", failure.message):
                raise Failure(f"{path}{failure.message[len(said) :]}", failure.exit_code) from None
        raise


def _directly(shelf: Shelf, kind: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    import msgspec

    from detector.aftermath.actions import parse
    from detector.aftermath.kinds import find_action

    action = find_action(kind, name)
    given = action.run(shelf, parse(action, msgspec.json.encode(arguments)))
    plain: dict[str, Any] = msgspec.to_builtins(given)  # bytes become base64, as over HTTP
    return plain


def _here(config: Config, work: Callable[[Shelf], dict[str, Any]]) -> dict[str, Any]:
    from detector.aftermath.shelf import Shelf
    from detector.database import FILE, StateRefused
    from detector.state import Store

    folder = config.state.folder()
    if not (folder / FILE).exists():
        raise Failure(f"no daemon answers, and there is no state in {folder}", RUNTIME)
    try:
        store = Store(folder, config.state.history, config.aftermath.bounds)
    except StateRefused as error:
        raise Failure(f"no daemon answers, and {error}", RUNTIME) from None
    try:
        return work(Shelf(store, settings=config.aftermath))
    finally:
        store.close()


def _print(result: dict[str, Any]) -> None:
    """Lists of mappings as tables, the rest as one."""
    lists = {key: value for key, value in result.items() if _is_table(value)}
    plain = [[key, _words(value)] for key, value in result.items() if key not in lists]
    if plain:
        print_table(["what", "value"], plain)
    for key, rows in lists.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        print_table(columns, [[_words(row.get(column)) for column in columns] for row in rows], key)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _words(value: Any) -> str:
    from detector.commands.output import as_json_text

    if isinstance(value, float):
        return f"{value:.6g}"
    return (
        as_json_text(value) if isinstance(value, (dict, list, bool)) else "" if value is None else str(value)
    )


@click.command()
@config_option
@json_option
def status(config_path: Path, as_json: bool) -> None:
    """Say which kinds examine, what was learnt, and how much waits."""
    from detector.events import iso

    config = load_config(config_path)
    try:
        found: dict[str, Any] = Daemon(config).get("/api/v1/aftermath")
    except NotRunning:
        from detector.state_view import inspect

        seen = inspect(config.state.folder())
        found = {"waiting": seen["case_files"]["waiting"], "models": seen["models"]}
    if as_json:
        print_json(found)
    else:
        _print(found | {"models": [one | {"created": iso(one["created"])} for one in found["models"]]})


aftermath = Kinds(
    "aftermath",
    {"status": status},
    help="Have incidents examined, and teach those who examine.\n\nA kind goes by its name alone, too: "
    "`detector footprint` is `detector aftermath footprint`.",
)
