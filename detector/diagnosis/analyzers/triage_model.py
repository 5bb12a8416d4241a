"""Learning to triage incidents: from the labels of this site, or with other sites by one message each.

Only *critical* samples make a model, and only they are sent: `export` writes them, `merge` learns from the
files of all sites. Feature vectors and labels are sent as they are; values of sensors and names of nodes are
not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, get_args

import msgspec
import numpy as np

from detector.diagnosis.actions import ActionError, Arguments
from detector.diagnosis.case_features import NAMES, VERSION, features, shared_grid
from detector.diagnosis.repository import Repository
from detector.events.model import Labels
from detector.storage.cases import Model
from estimators.core.types import Floats
from estimators.sparse.federated import (
    CriticalSamples,
    ForeignMessage,
    critical_samples,
    merge_critical_samples,
)
from estimators.sparse.margin import PairwiseClassifier
from estimators.sparse.relaxation import Relaxation

KIND = "triage"
Question = Literal["alarm", "type"]
QUESTIONS: tuple[Question, ...] = get_args(Question)
MOST_FILES = 1000


def classifier() -> PairwiseClassifier:
    """gamma = 0: what is kept and sent are samples, so sparse kernels would save nothing and send more."""
    return PairwiseClassifier(shared_grid(), gamma=0.0, relaxation=Relaxation.linear(100.0), max_iter=2000)


def usable(model: Model) -> bool:
    """Whether it was learnt with today's features and grid."""
    return (model.meta.get("features"), model.meta.get("grid")) == (VERSION, shared_grid().id)


def load(model: Model) -> PairwiseClassifier:
    """The classifier of a usable model, solved from its own multipliers."""
    nu = {(a, b): row for (a, b), row in zip(model.meta["pairs"], model.arrays["nu"], strict=True)}
    return classifier().fit(model.arrays["X"], model.meta["labels"], nu)


def samples(repository: Repository, question: Question) -> tuple[Floats, list[str]]:
    """Features and labels of the settled cases that people labelled."""
    rows, labels = [], []
    for case, said in repository.labelled_cases("settled"):
        label = answer_of(said, question)
        if label:
            rows.append(features(case))
            labels.append(label)
    return (np.array(rows) if rows else np.zeros((0, len(NAMES)))), labels


def answer_of(said: Labels, question: Question) -> str:
    return (said.alarm if question == "alarm" else (said.type or "").strip()) or ""


# ---------------------------------------------------------------------------------------------- actions


class Asked(Arguments):
    """``question`` is what the labels are about."""

    question: Annotated[
        Question, msgspec.Meta(description="What was labelled: alarm (real or false, the default) or type.")
    ] = "alarm"


class Export(Asked, kw_only=True):
    site: Annotated[str, msgspec.Meta(description="Name of this site.", min_length=1, max_length=100)]


class Merge(Asked, kw_only=True):
    message: Annotated[
        list[bytes],
        msgspec.Meta(description="File that a site has exported.", min_length=1, max_length=MOST_FILES),
    ]


def train(repository: Repository, asked: Asked) -> dict[str, Any]:
    """From this site's labels alone."""
    X, labels = samples(repository, asked.question)
    _need_two(labels, "labelled incidents")
    message = critical_samples(classifier(), X, labels, site="here", features=VERSION)
    return learn_together(repository, asked.question, [message], "own labels")


def export(repository: Repository, asked: Export) -> dict[str, Any]:
    """One class alone is not an error here: another site may have the other."""
    X, labels = samples(repository, asked.question)
    if not labels:
        raise ActionError(f"no settled case file has a label for {asked.question}: nothing to send")
    message = critical_samples(classifier(), X, labels, site=asked.site, features=VERSION)
    body = msgspec.json.format(msgspec.json.encode(message.as_json() | {"question": asked.question}))
    return {"site": asked.site, "question": asked.question, "samples": len(labels), "sent": len(message.X),
            "classes": _counts(labels), "bytes": len(body), "file": body}  # fmt: skip


def merge_files(repository: Repository, asked: Merge) -> dict[str, Any]:
    """Nothing is installed unless every file is sound and of this question."""
    return learn_together(repository, asked.question, read_messages(asked.message, asked.question), "sites")


def read_messages(files: Sequence[bytes], question: Question) -> list[CriticalSamples]:
    messages = []
    for number, body in enumerate(files, 1):
        try:
            said = msgspec.json.decode(body)
            message = CriticalSamples.of_json(said)
        except msgspec.MsgspecError as error:
            raise ActionError(f"message {number} is no JSON, or cut off: {error}") from None
        except ForeignMessage as error:
            raise ActionError(f"message {number}: {error}") from None
        if said.get("question") != question:
            raise ActionError(f"message {number} of {message.site} is about {said.get('question')!r}, "
                              f"not about {question!r}")  # fmt: skip
        try:
            check_message(message)
        except ForeignMessage as error:
            raise ActionError(f"message {number} of {error}") from None
        messages.append(message)
    return messages


def check_message(message: CriticalSamples) -> None:
    """`ForeignMessage` if it was made for another grid or other features than those here."""
    message.check(shared_grid(), VERSION)


def learn_together(
    repository: Repository, question: Question, messages: list[CriticalSamples], source: str
) -> dict[str, Any]:
    _need_two([label for message in messages for label in message.labels], "samples of all sites")
    model = merge_critical_samples(classifier(), messages, features=VERSION)
    if not model.converged:
        raise ActionError("the solver did not converge; the model that was there stays")
    last = {message.site: message for message in messages}
    X = np.concatenate([message.X for message in last.values()])
    labels = [label for message in last.values() for label in message.labels]
    nu = {}
    for pair, part in model.pairs_.items():
        nu[pair] = np.zeros(len(X))
        nu[pair][np.isin(np.array(labels), pair)] = part.nu_
    meta = {
        "features": VERSION,
        "grid": model.grid.id,
        "source": source,
        "sites": sorted(last),
        "samples": sum(message.n_total for message in last.values()),
        "labels": labels,
        "pairs": [list(pair) for pair in nu],
    }
    right = float(np.mean([a == b for a, b in zip(model.predict(X), labels, strict=True)]))
    version = repository.save_model(KIND, question, meta, {"X": X, "nu": np.array(list(nu.values()))})
    return {"question": question, "version": version, "sites": sorted(last), "samples": meta["samples"],
            "critical": len(X), "classes": _counts(labels), "right_on_critical": round(right, 3)}  # fmt: skip


def show(repository: Repository, asked: Arguments) -> dict[str, Any]:
    """What there is to learn from, and what was learnt."""
    said = [labels for _, labels in repository.labelled_cases("settled")]
    return {
        "features": VERSION,
        "grid": shared_grid().id,
        "labels": [
            {"question": q, "answer": answer, "incidents": count}
            for q in QUESTIONS
            for answer, count in _counts(answer_of(labels, q) for labels in said).items()
        ],
        "models": [
            {"question": m.name, "version": m.version, "usable": usable(m), "source": m.meta["source"],
             "samples": m.meta["samples"], "critical": len(m.meta["labels"]),
             "sites": ", ".join(m.meta["sites"])}
            for m in repository.models(KIND)
        ],
    }  # fmt: skip


def forget(repository: Repository, asked: Asked) -> dict[str, Any]:
    if not repository.forget_model(KIND, asked.question):
        raise ActionError(f"there is no model for {asked.question}")
    return {"question": asked.question, "forgotten": True}


def _need_two(labels: Iterable[str], what: str) -> None:
    counts = _counts(labels)
    if len(counts) < 2:
        had = ", ".join(f"{count} {name!r}" for name, count in counts.items()) or "none"
        raise ActionError(f"{what}: {had}; a second answer is needed to tell one from the other")


def _counts(labels: Iterable[str]) -> dict[str, int]:
    names = [label for label in labels if label]
    return {name: names.count(name) for name in sorted(set(names))}
