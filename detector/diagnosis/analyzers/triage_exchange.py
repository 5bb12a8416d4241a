"""Learning to triage with other sites over the broker: what a person has shared is there for peers to ask.

The same critical samples as in the files of `export` and `merge`, and the same refusals. Sharing is an
action: feature vectors of incidents leave a site when somebody there says so, as they were at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from detector.diagnosis.actions import ActionError
from detector.diagnosis.analyzers.triage_model import (
    Asked,
    check_message,
    classifier,
    learn_together,
    samples,
)
from detector.diagnosis.case_features import VERSION, shared_grid
from detector.diagnosis.exchange.messages import MAX_BYTES, OtherSpec, TriageQuestion
from detector.diagnosis.repository import Repository
from estimators.sparse.federated import CriticalSamples, ForeignMessage, critical_samples

if TYPE_CHECKING:
    from detector.diagnosis.exchange.peers import PeerExchange

KIND = "triage_shared"  # under which a message is kept
MOST_BYTES = MAX_BYTES - 4096  # of one message, beside what every answer has


def spec() -> str:
    """Of what the numbers of a message mean."""
    return f"{VERSION}, grid {shared_grid().id}"


def answer_peers(repository: Repository) -> None:
    """From what was shared."""
    if repository.exchange is not None:
        shared = {model.name: model.meta["message"] for model in repository.models(KIND)}
        repository.exchange.hold(TriageQuestion, partial(answer, shared))


def answer(shared: Mapping[str, Any], question: TriageQuestion) -> dict[str, Any]:
    if not shared:
        return question.nothing()
    if question.spec != spec():
        raise OtherSpec(question.spec)
    return {"critical": shared.get(question.about)}


def share(repository: Repository, asked: Asked) -> dict[str, Any]:
    """Replaces what was shared before."""
    site = _exchange(repository).settings.name
    X, labels = samples(repository, asked.question)
    if not labels:
        raise ActionError(f"no settled case file has a label for {asked.question}: nothing to share")
    message = critical_samples(classifier(), X, labels, site=site, features=VERSION).as_json()
    size = len(msgspec.json.encode(message))
    if size > MOST_BYTES:
        raise ActionError(
            f"{size} bytes, at most {MOST_BYTES} go through the exchange: export a file instead"
        )
    repository.save_model(KIND, asked.question, {"message": message})
    return {"site": site, "question": asked.question, "samples": len(labels),
            "shared": len(message["critical"]), "bytes": size}  # fmt: skip


def withdraw(repository: Repository, asked: Asked) -> dict[str, Any]:
    if not repository.forget_model(KIND, asked.question):
        raise ActionError(f"nothing is shared for {asked.question}")
    return {"question": asked.question, "withdrawn": True}


def gather(repository: Repository, asked: Asked) -> dict[str, Any]:
    """Nothing is installed unless every answer is sound."""
    exchange = _exchange(repository)
    answers = exchange.ask(TriageQuestion, spec=spec(), about=asked.question)
    messages, without = [], []
    for peer, given in sorted(answers.items()):
        if given.critical is None:
            without.append(peer)
        else:
            messages.append(_read(peer, given.critical))
    if not messages:
        raise ActionError(f"nobody has shared anything about {asked.question}; {exchange.describe()}")
    X, labels = samples(repository, asked.question)
    if labels:
        site = exchange.settings.name
        messages.append(critical_samples(classifier(), X, labels, site=site, features=VERSION))
    said = learn_together(repository, asked.question, messages, "peers")
    missing = [peer for peer in exchange.peers if peer not in answers]
    return said | {"shared_nothing": without, "missing": missing}


def _read(peer: str, said: Any) -> CriticalSamples:
    try:
        message = CriticalSamples.of_json(said)
        check_message(message)
    except ForeignMessage as error:
        raise ActionError(f"what {peer} has shared: {error}") from None
    if message.site != peer:
        raise ActionError(f"what {peer} has shared is of {message.site}")
    return message


def _exchange(repository: Repository) -> PeerExchange:
    if repository.exchange is None:
        raise ActionError("there is no exchange with other sites: it needs diagnosis.exchange, and a daemon")
    return repository.exchange
