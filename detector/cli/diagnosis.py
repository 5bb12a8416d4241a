"""`detector diagnosis`: what the analyzers have learnt from incidents, and the actions they offer."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detector.cli.client import Daemon, NotRunning
from detector.cli.common import (
    RUNTIME,
    Failure,
    as_json_text,
    failure_of,
    load_config,
    print_json,
    print_table,
    print_text,
)
from detector.cli.options import config_option, files_of, json_option, options_of
from detector.settings.renamed import ANALYZERS, deprecated

if TYPE_CHECKING:
    from detector.config.config import Config
    from detector.diagnosis.actions import Action
    from detector.diagnosis.repository import Repository

# How several sites learn triage together: by a file of each, or over the broker.
TOGETHER = ("export", "merge", "share", "gather", "withdraw", "show")


class Analyzers(click.Group):
    """Its groups are the analyzers, their commands the actions; imported when they are needed."""

    _given: MutableMapping[str, click.Command]
    _made: dict[str, click.Command] | None = None

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        if self._made is None:
            from connectors.registry import PluginError
            from detector.diagnosis.registry import ANALYZERS, load

            self._made = {**self._given}
            for name in ANALYZERS:
                with contextlib.suppress(PluginError):  # one that cannot be loaded has no commands
                    module = load(name)
                    self._made |= {name: _group(name, module)} if module.ACTIONS else {}
        return self._made

    @commands.setter
    def commands(self, given: MutableMapping[str, click.Command]) -> None:
        self._given = given

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Also by the names of version 0.1."""
        return super().get_command(context, renamed_to(ANALYZERS, name))


def renamed_to(names: Mapping[str, str], name: str) -> str:
    """The present name of something that may be given by an old one, with a warning then."""
    if name not in names:
        return name
    click.echo(f"Warning: {deprecated(name, names[name])}", err=True)
    return names[name]


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
            return Daemon(config).act(f"/api/v1/diagnosis/{kind}/{name}", arguments)
        except NotRunning:
            return _here(config, lambda repository: _directly(repository, kind, name, arguments))
    except (Failure, ValueError) as error:
        failure = error if isinstance(error, Failure) else failure_of(error)
        for said, path in files.items():
            if re.match(rf"{said}\b", failure.message):
                raise Failure(f"{path}{failure.message[len(said) :]}", failure.exit_code) from None
        raise


def _directly(repository: Repository, kind: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    import msgspec

    from detector.diagnosis.actions import parse
    from detector.diagnosis.registry import find_action

    action = find_action(kind, name)
    given = action.run(repository, parse(action, msgspec.json.encode(arguments)))
    plain: dict[str, Any] = msgspec.to_builtins(given)  # bytes become base64, as over HTTP
    return plain


def _here(config: Config, work: Callable[[Repository], dict[str, Any]]) -> dict[str, Any]:
    from detector.diagnosis.repository import Repository
    from detector.storage.database import FILE, StateRefused
    from detector.storage.store import Store
    from detector.storage.upkeep import Bounds

    folder = config.state.folder()
    if not (folder / FILE).exists():
        raise Failure(f"no daemon answers, and there is no state in {folder}", RUNTIME)
    try:
        store = Store(folder, Bounds.of(config.state, config.diagnosis))
    except StateRefused as error:
        raise Failure(f"no daemon answers, and {error}", RUNTIME) from None
    try:
        return work(Repository(store, settings=config.diagnosis))
    finally:
        store.close()


def _print(result: dict[str, Any]) -> None:
    """Lists of mappings as tables, what has words in them, the rest as one table."""
    worded = {key: _sentences(value) for key, value in result.items() if _sentences(value)}
    result = {key: value for key, value in result.items() if key not in worded}
    lists = {key: value for key, value in result.items() if _is_table(value)}
    plain = [[key, _words(value)] for key, value in result.items() if key not in lists]
    if plain:
        print_table(["what", "value"], plain)
    for key, rows in lists.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        print_table(columns, [[_words(row.get(column)) for column in columns] for row in rows], key)
    for key, sentences in worded.items():
        print_text([f"{key}:", *(f"  {sentence}" for sentence in sentences)])


def _sentences(value: Any) -> list[str]:
    """Those of a mapping, or of mappings, that say in words what their numbers mean."""
    rows = value if isinstance(value, list) else [value]
    return [one for row in rows if isinstance(row, dict) for one in row.get("in_words", ())]


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return (
        as_json_text(value) if isinstance(value, (dict, list, bool)) else "" if value is None else str(value)
    )


@click.command()
@config_option
@json_option
def status(config_path: Path, as_json: bool) -> None:
    """Show which analyzers are active, what was learnt, and how many case files are waiting."""
    from detector.events.model import iso

    config = load_config(config_path)
    try:
        found: dict[str, Any] = Daemon(config).get("/api/v1/diagnosis")
    except NotRunning:
        from detector.storage.inspect import inspect

        seen = inspect(config.state.folder())
        found = {"waiting": seen["case_files"]["waiting"], "models": seen["models"]}
    if as_json:
        print_json(found)
    else:
        _print(found | {"models": [one | {"created": iso(one["created"])} for one in found["models"]]})


diagnosis = Analyzers(
    "diagnosis",
    {"status": status},
    help="Show and train the analyzers, which examine incidents after the alarm.\n\nThe name of "
    "an analyzer is enough: `detector footprint` is `detector diagnosis footprint`.",
)


class Federate(click.Group):
    """Those commands of `diagnosis triage`; imported when they are needed."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        triage = diagnosis.commands["triage"]
        assert isinstance(triage, click.Group)
        return {name: triage.commands[name] for name in TOGETHER}

    @commands.setter
    def commands(self, given: MutableMapping[str, click.Command]) -> None:
        """Click sets what it was given: nothing."""


federate = Federate(
    "federate", help="Learn together with other sites which incidents are false, and of which type."
)
