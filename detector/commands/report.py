"""`--report` and `--png`: what a command found as a page, and its pictures as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from detector.commands.base import Command

if TYPE_CHECKING:
    from detector.report_parts import Page


def report_options(about: str) -> Callable[[Command], Command]:
    """Both options; ``about`` says what the page shows."""
    page = click.option("--report", "report_path", type=click.Path(path_type=Path, dir_okay=False),
                        metavar="FILE.html", help=about)  # fmt: skip
    pictures = click.option(
        "--png", "png_folder", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
        callback=_drawable, help="Write the pictures of the report as PNG files; needs the extra `plot`.",
    )  # fmt: skip
    return lambda command: page(pictures(command))


def _drawable(context: click.Context, option: click.Parameter, folder: Path | None) -> Path | None:
    """Said before the long work."""
    from detector.drawing import need_matplotlib

    if folder is not None:
        need_matplotlib()
    return folder


def write_report(page: Page, report_path: Path | None, png_folder: Path | None) -> None:
    from detector.report_png import save_pictures

    if report_path is not None:
        report_path.write_text(page.html(), encoding="utf-8")
    if png_folder is not None:
        save_pictures(png_folder, page)
