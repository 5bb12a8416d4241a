"""What MkDocs adds to docs/: documents from elsewhere, executed notebooks, the gallery, the reference."""

from __future__ import annotations

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

import nbformat
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[1]
# Documents that are not in docs/, by the path that their links start from, and their pages here.
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "CHANGELOG.md": "changelog.md",
    "systemd/README.md": "systemd.md",
}
FROM = {page: path for path, page in ELSEWHERE.items()}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
PARTS = {  # pages of the reference: title, and where their names are from
    "ratio": "Two samples",
    "core": "Building blocks",
    "structured": "Which nodes",
    "regimes": "Which regime",
    "spectral": "Adapting a model",
    "sparse": "Sparse explanations",
    "datasets": "Data sets",
}
WATCHING = [
    "detector.api.NetworkDetector",
    "detector.trial.trial.try_recording",
    "detector.trial.trial.Trial",
    "detector.river.GrulsifDrift",
    "detector.adaptation.model_file.AdaptedModel",
    "detector.events.model.Event",
    "detector.engines.calibration_report.CalibrationReport",
]
CONNECTORS = ["Sample", "Batch", "Source", "Sink", "ConnectorError"]  # what packages with their own need


def on_config(config: MkDocsConfig) -> None:
    """Pages of docs/ that mkdocs.yml does not name are shown at the end: a new page must not be forgotten."""
    assert config.nav is not None
    docs = Path(config.docs_dir)
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    if rest := sorted(pages - set(re.findall(r"[\w/-]+\.md", str(config.nav)))):
        config.nav.append({"More": rest})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    pictures = _notebooks(files, config)
    files.append(File.generated(config, "gallery.md", content=_gallery(pictures)))
    for name, text in _reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between documents lead to pages; files of code, which have no page, become their names."""
    own = page.file.src_uri
    source = FROM.get(own, f"docs/{own}")

    def changed(match: re.Match[str]) -> str:
        mark, words, link = match.groups()
        if re.match(r"[a-z]+:|#", link):
            return match[0]
        place, _, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), place))
        uri = ELSEWHERE.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(uri) is None:
            if not (ROOT / target).exists():
                return match[0]  # MkDocs tells that it leads nowhere
            return f"{words} (`{target}`)" if words.strip("`") != target else f"`{target}`"
        relative = posixpath.relpath(uri, posixpath.dirname(own) or ".")
        return f"{mark}[{words}]({relative}{'#' + anchor if anchor else ''})"

    return LINK.sub(changed, markdown)


def _notebooks(files: Files, config: MkDocsConfig) -> dict[str, str]:
    """A page for each notebook, with its outputs; the first picture of each, by title and page."""
    folder = Path(config.extra["notebooks"] or ROOT / "build" / "notebooks")
    found = {}
    for source in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")):
        executed = folder / source.name
        if not executed.exists():
            raise PluginError(f"{source.name} is not executed: run scripts/run-notebooks {folder}")
        notebook: Any = nbformat.read(executed, as_version=4)
        prefix = {"output_files_dir": source.stem, "unique_key": source.stem}
        text, resources = MarkdownExporter().from_notebook_node(notebook, resources=prefix)
        for name, data in resources["outputs"].items():
            files.append(File.generated(config, f"notebooks/{name}", content=data))
        note = f"*`examples/notebooks/{source.name}`; all outputs were made when this page was built.*"
        title, _, rest = text.lstrip().partition("\n")
        files.append(
            File.generated(config, f"notebooks/{source.stem}.md", content=f"{title}\n\n{note}\n{rest}")
        )
        found[source.stem] = next(iter(resources["outputs"]))
    return found


def _gallery(pictures: dict[str, str]) -> str:
    """One picture of everything there is to see, with a sentence and a link."""
    lines = ["# Gallery", "", '<div class="grid cards" markdown>', ""]
    for card in yaml.safe_load((ROOT / "site" / "gallery.yaml").read_text()):
        title, words, stem = card["title"], card["words"], card.get("notebook")
        picture = f"notebooks/{pictures[stem]}" if stem else card["picture"]
        link = f"notebooks/{stem}.md" if stem else card["link"]
        lines += [
            f"-   [![{title}]({picture})]({link})",
            "",
            f"    **[{title}]({link})**",
            "",
            f"    {words}",
            "",
        ]
    return "\n".join([*lines, "</div>", ""])


def _reference() -> dict[str, str]:
    """A page per part of the Python interface, from the docstrings of what is public."""
    estimators, connectors = importlib.import_module("estimators"), importlib.import_module("connectors")
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    for name in sorted(estimators.__all__, key=str.lower):
        module = getattr(getattr(estimators, name), "__module__", "")
        if module.startswith("estimators."):
            parts[module.split(".")[1]].append(f"{module}.{name}")
    pages = {part: _page(title, "from estimators import ...", parts[part]) for part, title in PARTS.items()}
    pages["detector"] = _page("Watching a network", "from detector import NetworkDetector", WATCHING)
    made = [getattr(connectors, name) for name in CONNECTORS]
    names = [f"{one.__module__}.{one.__name__}" for one in made]
    pages["connectors"] = _page("Connectors", "from connectors import Source, Sink, Sample", names)
    rows = [("Watching a network", "detector", WATCHING), *((t, p, parts[p]) for p, t in PARTS.items()),
            ("Connectors", "connectors", names)]  # fmt: skip
    lines = [f"| [{title}]({page}.md) | {_short(held)} |" for title, page, held in rows]
    head = (
        "# Python reference\n\nMade from the docstrings. Estimators follow the conventions of scikit-learn."
    )
    pages["index"] = "\n".join([head, "", "| page | names |", "|---|---|", *lines, ""])
    return pages


def _page(title: str, imported: str, names: list[str]) -> str:
    entries = "\n\n".join(f"::: {name}" for name in names)
    return f"# {title}\n\n`{imported}`\n\n{entries}\n"


def _short(names: list[str]) -> str:
    return ", ".join(f"`{name.rpartition('.')[2]}`" for name in names)
