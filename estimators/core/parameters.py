"""Conventions of scikit-learn, without it: parameters, `sklearn.base.clone`, fitted or not."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, ClassVar, Literal, Self

import numpy as np


class NotFittedError(ValueError, AttributeError):
    """An estimator was asked for results before ``fit``.

    Where scikit-learn is installed, it is also an error of that library's class of this name.

    Examples
    --------
    >>> from estimators import Grulsif, NotFittedError
    >>> try:
    ...     Grulsif().divergence()
    ... except NotFittedError as error:
    ...     print(error)
    Grulsif: call fit first
    """

    def __new__(cls, *args: Any) -> NotFittedError:
        return super().__new__(_also_of_scikit_learn() if cls is NotFittedError else cls, *args)

    def __reduce__(self) -> tuple[Any, ...]:
        return NotFittedError, self.args


@cache
def _also_of_scikit_learn() -> type[NotFittedError]:
    """Looked for when there is an error, and never before: nothing else here needs the library."""
    try:
        from sklearn.exceptions import NotFittedError as Theirs
    except ImportError:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, Theirs), {"__module__": __name__})


class Parameters:
    """For classes whose constructor stores every parameter under its own name, and checks it.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from estimators import Rulsif
    >>> model = Rulsif(alpha=0.2)
    >>> clone(model).set_params(gamma=0.5)
    Rulsif(alpha=0.2, gamma=0.5)
    """

    _estimator_type: ClassVar[Literal["regressor", "classifier"] | None] = None
    _result: ClassVar[str]  # attribute that a fitted one has
    _multi_output: ClassVar[bool] = False  # whether labels may be vectors

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor.

        Parameters
        ----------
        deep : bool, default=True
            As scikit-learn has it; no parameter is an estimator, so it makes no difference.

        Returns
        -------
        dict of str to object
            ``type(self)(**self.get_params())`` is the same estimator, not fitted.
        """
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change parameters, checked as the constructor does; what was fitted stays until ``fit``.

        Parameters
        ----------
        **params
            Parameters of the constructor.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no such parameter, or its value is out of range.
        """
        known = self.get_params()
        for name in params:
            if name not in known:
                raise ValueError(
                    f"{name}: {type(self).__name__} has no such parameter; it has {', '.join(known)}"
                )
        self.__dict__.update(type(self)(**{**known, **params}).__dict__)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of the steps of a pipeline; only it calls this."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        kind = self._estimator_type
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=kind is not None, multi_output=self._multi_output),
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, self._result):
            raise NotFittedError(f"{type(self).__name__}: call fit first")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        told = []
        for name, value in self.get_params().items():
            default = defaults[name].default
            if not _same(value, default):
                long = isinstance(value, np.ndarray | list)
                told.append(f"{name}=<{len(value)} nodes>" if long else f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(told)})"


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    plain = (bool, int, float, str, tuple)
    return isinstance(value, plain) and isinstance(default, plain) and value == default
