"""Checkpoints: what a training moves, written now and then, so that a `fit` that was stopped goes on from there.

`fit(X, y, checkpoint="run")` writes into the folder "run"; `fit(X, y, checkpoint="run", resume=True)`, of the same data
and parameters, goes on from what is there, or begins where nothing is. In deterministic mode its model is bit for bit
that of a fit that was not stopped, with any `n_jobs`. What that does not hold for: solver "lbfgs", which begins at the
iterate anew, to the same optimum within `tol`; searches (samplers.Search, or those of `objectives.Descent`), whose
index is made anew from the weights; and hogwild, which depends on threads anyway.

- checkpoint : str or path-like, a folder, made if it is not there. None: no checkpoints.
- every : "10min" by default, also "30s", "2h", "1d"; or an int, of passes (lbfgs: iterations). By time they are written
  within passes, too. One is written at the end, too, but not where training diverged or Ctrl-C came.
- resume : False: a folder that has checkpoints is an error; True: go on.

A file holds weights, averages, sums of squares, what points carry, the loss curve and the place in the pass; a draw is
named by (seed, pass, point) and has no state. Each training of a fit (runs of n_models, both parts of a hybrid) has a
file of its own, which takes the place of the one before when it is whole on the disk; where it cannot be, a warning
says so, and training goes on. Trials of "auto" are made again, as they were; `max_seconds` counts those of this call.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import re
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from manyclass.checks import check_flag, check_number, outer_level
from manyclass.weights.tensor_file import PathLike, Position, Saved, make_metadata, open_format, reading, write_tensors

FORMAT = ("manyclass checkpoint", 1, "a checkpoint")  # with its version, and in words
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
EVERY = "10min"
OF_A_RUN = ("n_jobs", "verbose", "random_state")  # what may be another where a fit is resumed; a seed is kept beside

# Statistics of the data differ in their last digits from processor to processor, and by how they are summed.
_FLOAT, _ROUNDING = re.compile(r"\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)"), 1e-6


# What files of versions up to 0.2.0 call otherwise: a plan, a model by its name and as an object.
_RENAMED = {"PostingsPlan(": "PairsPlan(", "'sparse'": "'pairs'", "Sparse(": "Pairs("}


def _alike(was: Any, now: Any) -> bool:
    """Whether values of a fit are equal, texts but for the rounding of the numbers in them."""
    if not isinstance(was, str) or not isinstance(now, str):
        return bool(was == now)
    for former_name, name in _RENAMED.items():
        was = was.replace(former_name, name)
    pairs = zip(_FLOAT.findall(was), _FLOAT.findall(now), strict=False)
    same = all(math.isclose(float(a), float(b), rel_tol=_ROUNDING) for a, b in pairs)
    return _FLOAT.sub("", was) == _FLOAT.sub("", now) and same


class Stage:
    """The file of one training of a fit."""

    def __init__(self, path: Path, fit: dict[str, Any], checkpoints: Checkpoints) -> None:
        self._path, self._fit, self._checkpoints, self._last = path, fit, checkpoints, time.monotonic()

    def begin(self, training: Any) -> Position:
        """Give a training what the file has, if there is one; raises ValueError for that of another fit."""
        if not (self._checkpoints.resumes and self._path.exists()):
            return Position()
        file = open_format(self._path, *FORMAT)
        with reading(file):
            fit_of_file, numbers = (json.loads(file.metadata[name]) for name in ("fit", "numbers"))
            for name, value in self._fit.items():
                if not _alike(fit_of_file.get(name), value):
                    was = f"its {name} was {fit_of_file.get(name)!s:.500}, now it is {value}"
                    raise ValueError(f"{file.path} is of another fit: {was}; name another checkpoint folder")
            saved = Saved(file, _as_now(numbers))
            _check_like("numbers", saved.numbers, {**training.numbers(), "position": vars(Position())})
            training.restore(saved)
            position = Position(**saved.numbers["position"])
            position.curve = list(map(float, position.curve))
            return position

    def is_due(self, n_passes: int | None = None) -> bool:
        """Whether to write now, after this number of whole passes; None: within one."""
        every = self._checkpoints.every
        if self._checkpoints.by_passes:
            return n_passes is not None and n_passes % int(every) == 0
        return time.monotonic() - self._last >= every

    def write_or_warn(self, training: Any, position: Position) -> bool:
        """Put the file in the place of the one before; where that fails, warn, and return False."""
        self._last = time.monotonic()
        arrays = {name: array for name, array in training.arrays().items() if array.size}
        numbers = {**training.numbers(), "position": vars(position)}
        metadata = make_metadata(*FORMAT[:2], fit=self._fit, numbers=numbers)
        try:
            write_tensors(self._path, arrays, metadata)
        except OSError as error:
            message = f"no checkpoint was written, and the one before stays: {error}; training goes on"
            warnings.warn(message, UserWarning, stacklevel=outer_level())
            return False
        return True


def _as_now(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a file as trainings have them now; up to 0.2.0 some of L-BFGS and of validation differ."""
    if "passes" not in numbers:
        curve = numbers["position"]["curve"]
        state = {"n_iter": len(curve), "seconds": numbers["seconds"], "loss": [math.nan, *curve][-1]}
        passes = {"loss": state["loss"], "class_updates": numbers["class_updates"], "looks": []}
        passes["training"] = {"validation": numbers["validation"]}
        numbers = {"passes": passes, "state": state, "position": numbers["position"]}
    validation = numbers["passes"].get("training", {}).pop("validation", None)
    return numbers if validation is None else {**numbers, "passes": {**numbers["passes"], "validation": validation}}


def _check_like(name: str, value: Any, like: Any) -> None:
    """Raise TypeError unless a value of a file is of the kind of what a training begins with."""
    if isinstance(like, dict):
        if not isinstance(value, dict) or value.keys() != like.keys():
            raise TypeError(f"{name} is {value!r:.200}; it must have {', '.join(like)}")
        for key in like:
            _check_like(key, value[key], like[key])
    elif isinstance(like, list):
        if not isinstance(value, list):
            raise TypeError(f"{name} is {value!r:.200}; it must be a list")
        for element in value:
            for number in element if isinstance(element, list) else [element]:
                _check_like(name, number, 0.0)
    elif isinstance(like, bool | np.bool_):
        check_flag(name, value)
    elif isinstance(like, numbers.Integral):
        check_number(name, value, low=0, high=2**63 - 1, integer=True)
    elif not (value is None and like is None) and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise TypeError(f"{name} is {value!r:.200}; it must be a number")


@dataclass
class Checkpoints:
    """The checkpoints of one fit.

    Attributes
    ----------
    folder : Path
    every : float
        Seconds or, with
    by_passes : bool
        passes.
    resumes : bool
    """

    folder: Path
    every: float
    by_passes: bool
    resumes: bool
    _fit: dict[str, Any] = field(default_factory=dict)
    _n_stages: int = 0

    @classmethod
    def of(cls, checkpoint: PathLike | None, every: str | int, resume: bool) -> Checkpoints | None:
        """Check what `fit` was given; None: no checkpoints.

        Raises
        ------
        ValueError
            For an interval of another form, options without a folder, or a folder with the checkpoints of a fit that is
            not to be resumed.
        OSError
            If the folder cannot be made.
        """
        check_flag("resume", resume)
        if checkpoint is None:
            if resume or every != EVERY:
                raise ValueError("resume or every is given without checkpoint; name the folder")
            return None
        seconds, by_passes = _interval(every)
        folder = Path(checkpoint)
        folder.mkdir(parents=True, exist_ok=True)
        checkpoints = cls(folder, seconds, by_passes, resume)
        if not resume and checkpoints._path(0).exists():
            raise ValueError(f"checkpoint {str(folder)!r} is of a fit; resume=True goes on with it")
        return checkpoints

    def seed(self, parameters: Mapping[str, Any], data: Mapping[str, Any]) -> int:
        """Note the parameters and the data of a fit; return its seed.

        That is their own if it is a number, else that of the checkpoints, or of a new fit, drawn.
        """
        random_state = parameters["random_state"]
        seed = int(random_state) if isinstance(random_state, int | np.integer) else self._seed_there()
        if seed is None:
            seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        in_words = {name: _told(value) for name, value in parameters.items() if name not in OF_A_RUN}
        self._fit = in_words | {"random_state": seed} | {name: digest(value) for name, value in data.items()}
        return seed

    def stage(self, plan: Any) -> Stage:
        """Return the file of the next training of the fit, which is made as the plan says."""
        stage = Stage(self._path(self._n_stages), {**self._fit, "plan": _told(plan)}, self)
        self._n_stages += 1
        return stage

    def _path(self, n: int) -> Path:
        return self.folder / f"training-{n:03d}.safetensors"

    def _seed_there(self) -> int | None:
        if not (self.resumes and self._path(0).exists()):
            return None
        file = open_format(self._path(0), *FORMAT)
        with reading(file):
            return int(json.loads(file.metadata["fit"])["random_state"])


def _told(value: Any) -> str:
    return " ".join(repr(value).split())


def _interval(every: str | int) -> tuple[float, bool]:
    """Seconds, or passes and True."""
    if isinstance(every, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d)\s*", every)
        if match is None:
            raise ValueError(f"every is {every!r}; it must be a time as '30s', '10min' or '2h', or a number of passes")
        return float(match[1]) * SECONDS[match[2]], False
    check_number("every", every, low=1, integer=True)
    return float(every), True


def digest(value: Any) -> str:
    """Name data by their bytes: arrays, sparse matrices, anything with a short repr."""
    if not isinstance(value, sp.csr_array | np.ndarray):
        return repr(value)
    digest_of_bytes = hashlib.blake2b(digest_size=16)
    for array in [value] if isinstance(value, np.ndarray) else [value.indptr, value.indices, value.data]:
        if array.dtype == object:
            digest_of_bytes.update(repr(array.tolist()).encode())
        elif array.size:
            digest_of_bytes.update(np.ascontiguousarray(array).view(np.uint8).data)
    return f"{value.shape} {digest_of_bytes.hexdigest()}"
