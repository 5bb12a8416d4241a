"""The public Python interface is documented as scikit-learn's is, and every example in it runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from typing import Any

import pytest

import detector
import detector.river
import estimators

PUBLIC: dict[str, Any] = {
    **{f"estimators.{name}": getattr(estimators, name) for name in estimators.__all__},
    "detector.NetworkDetector": detector.NetworkDetector,
    "detector.AdaptedModel": detector.AdaptedModel,
    "detector.river.GrulsifDrift": detector.river.GrulsifDrift,
}
OBJECTS = {name: found for name, found in PUBLIC.items() if callable(found)}  # the others are tables
MODULES = sorted({found.__module__ for found in OBJECTS.values()})
METHODS = {
    f"{name}.{method}": getattr(found, method)
    for name, found in OBJECTS.items()
    if isinstance(found, type)
    for method, given in vars(found).items()
    if not method.startswith("_") and (inspect.isfunction(given) or isinstance(given, classmethod))
}
UNDERLINED = re.compile(r"^(\w[\w ]*)\n-{4,}$", re.MULTILINE)


def sections(text: str) -> set[str]:
    return set(UNDERLINED.findall(text))


def told(text: str, parameter: str) -> bool:
    """A parameter has its line under Parameters, perhaps together with others."""
    body = re.split(r"^Parameters\n-+$", text, maxsplit=1, flags=re.MULTILINE)[1]
    heads = re.findall(r"^(\S.*?)(?: : .*)?$", re.split(r"^\w[\w ]*\n-{4,}$", body, flags=re.MULTILINE)[0],
                       re.MULTILINE)  # fmt: skip
    return parameter in {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def parameters(found: Any) -> list[str]:
    names = list(inspect.signature(found).parameters)
    return [name for name in names if name not in ("self", "cls")]


@pytest.mark.parametrize("name", OBJECTS)
def test_every_public_object_is_documented(name: str) -> None:
    found = OBJECTS[name]
    text = inspect.getdoc(found) or ""
    summary = text.split("\n")[0]
    assert summary.endswith((".", "?")), f"no summary in one line: {summary!r}"
    assert "Examples" in sections(text)
    if isinstance(found, type) and issubclass(found, BaseException):
        return
    if name != "estimators.Estimator":  # the base has no constructor of its own
        assert {"Parameters"} <= sections(text)
        lacking = [one for one in parameters(found) if not told(text, one)]
        assert not lacking, f"parameters without a line: {lacking}"


@pytest.mark.parametrize("name", METHODS)
def test_every_public_method_is_documented(name: str) -> None:
    method = METHODS[name]
    text = inspect.getdoc(method) or ""
    assert text.split("\n")[0].endswith((".", "?")), f"no summary in one line: {text[:80]!r}"
    if parameters(method):
        assert "Parameters" in sections(text)
        lacking = [one for one in parameters(method) if not told(text, one)]
        assert not lacking, f"parameters without a line: {lacking}"
    if inspect.signature(method).return_annotation not in ("None", None):
        assert "Returns" in sections(text)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))
    assert done.failed == 0
    assert done.attempted > 0


def test_an_undocumented_parameter_would_be_seen() -> None:
    text = "Sum.\n\nParameters\n----------\na, b : float\n    Terms.\n\nReturns\n-------\nfloat\n"
    assert sections(text) == {"Parameters", "Returns"}
    assert told(text, "a")
    assert told(text, "b")
    assert not told(text, "float")
    assert not told(text, "c")
