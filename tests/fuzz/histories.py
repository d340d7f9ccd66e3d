"""A history: steps that are drawn, calls that may be refused, and whether two objects hold the same."""

from __future__ import annotations

import copy
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from manyclass import DecomposedIndex, SphericalClusterIndex

REFUSALS = (ValueError, TypeError, NotFittedError, AttributeError)


class BrokenError(Exception):
    """What a callback or an iterator of a history raises."""


@dataclass
class History(ABC):
    """One object, and what has been done to it.

    Attributes
    ----------
    number : int
    folder : Path
        Of its files.
    steps : list of str
    """

    number: int
    folder: Path

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([40, self.number])
        self.steps: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self, n_steps: int) -> None:
        """Make steps; AssertionError where something does not hold, with the steps so far."""
        try:
            for _ in range(n_steps):
                step = self.drawn()
                self.steps.append(step.__name__)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    step()
                    self.check()
                for one in caught:
                    told = issubclass(one.category, ConvergenceWarning | UserWarning)
                    assert told, f"{one.category.__name__}: {one.message} at {one.filename}:{one.lineno}"
                self.counts[step.__name__] += 1
        except Exception as error:
            where = traceback.format_exc(limit=-4)
            raise AssertionError(f"history {self.number}, {self}: {' / '.join(self.steps)}\n{where}") from error

    def drawn(self) -> Callable[[], None]:
        """Draw a step, by the weights of `ways`."""
        ways = self.ways()
        share = np.array([*ways.values()], float)
        return [*ways][int(self.rng.choice(len(ways), p=share / share.sum()))]

    @abstractmethod
    def ways(self) -> dict[Callable[[], None], float]:
        """Steps, and how often each comes."""

    @abstractmethod
    def check(self) -> None:
        """Look at what must hold after each step."""

    # What steps are made of

    def one(self, some: Any) -> Any:
        """Draw one of a sequence."""
        return some[int(self.rng.integers(len(some)))]

    def note(self, what: str) -> None:
        """Say more of the last step."""
        self.steps[-1] += f"({what})"

    def refused(self, call: Callable[[], Any], *, on: Any, must: bool | None = None, like: Any = None) -> bool:
        """Make a call that may be refused, or must; return whether it was. Then `on` is as before, or like `like`."""
        before = copy.deepcopy(inside(on)) if like is None else like
        error = self.error_of(call)
        if error is None:
            assert not must, "was not refused"
            return False
        assert must is not False, f"refused: {error}"
        assert_alike(inside(on), before)
        return True

    def error_of(self, call: Callable[[], Any]) -> Exception | None:
        """Make a call; return the error by which it is refused, which says something."""
        try:
            call()
        except BrokenError as broken:
            return broken
        except REFUSALS as refusal:
            error = refusal
        else:
            return None
        self.note(f"refused: {str(error)[:60]}")
        assert str(error), "an error says nothing"
        return error


def assert_alike(one: Any, other: Any, at: str = "") -> None:
    """Assert that two objects hold the same numbers, bit for bit."""
    if is_dataclass(one) and not isinstance(one, type):
        assert type(one) is type(other), f"{at}: {type(one)}, {type(other)}"
        for field in fields(one):
            assert_alike(getattr(one, field.name), getattr(other, field.name), f"{at}.{field.name}")
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), f"{at}: {one.keys() ^ other.keys()}"
        for name in one:
            if name != "seconds":  # of the processor, in a line of a report
                assert_alike(one[name], other[name], f"{at}.{name}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), at
        for i, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            assert_alike(mine, theirs, f"{at}[{i}]")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, f"{at}: {one.dtype}, {other.dtype}"
        np.testing.assert_array_equal(one, other, err_msg=at)
    elif isinstance(one, float | np.floating):
        assert one == other or (one != one and other != other), f"{at}: {one}, {other}"
    elif type(one).__module__.startswith("manyclass") and hasattr(one, "get_params"):
        assert_alike(one.get_params(), other.get_params(), at)
    elif isinstance(one, str | int | bytes | bool | None):
        assert one == other, f"{at}: {one!r}, {other!r}"


def inside(model: Any) -> dict[str, Any]:
    """What a copy of an object has; of an index, its parameters."""
    if isinstance(model, SphericalClusterIndex | DecomposedIndex):
        return dict(model.get_params())
    return {name: value for name, value in model.__getstate__().items() if name != "_sklearn_version"}


def fail(_: Any) -> bool:
    """A callback that fails."""
    raise BrokenError


def failing(parts: list[Any]) -> Iterator[Any]:
    """An iterator that fails behind some parts."""
    yield from parts
    raise BrokenError
