"""What `fit` takes beside the data: its options, and the part of its signature and its text that all classes share."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, getdoc, signature
from textwrap import indent
from typing import Any, TypedDict, TypeVar

from numpy.typing import ArrayLike

from manyclass.protocols import Encoder
from manyclass.training.checkpoint import EVERY
from manyclass.training.core_training import Callback
from manyclass.weights.tensor_file import PathLike


class SharedOptions(TypedDict, total=False):
    """The arguments of `fit` that all classifiers have.

    Parameters
    ----------
    groups : array-like of shape (n_samples,), default=None
        The group of each row, such as its person or typeface, by any labels: wherever rows are held out, to find
        scales, a temperature, a ridge or when to stop, whole groups are. None: histories of one user are a group.
    vectorizer : Encoder, default=None
        What makes rows of texts or of lists of items; the model keeps it.
    classes : array-like, default=None
        All labels, where X is a stream, whose rows max_memory counts: `help(manyclass.fitting.streams)`.
    max_memory : int or str such as "2GiB", default=None
        The most bytes of the model and its training, as predicted.
    callback : callable, default=None
        Called with a `TrainingState` after each pass; it returns True to stop.
    max_seconds : float, default=None
        Seconds after which training stops, even within a pass; those of callbacks do not count. A warning says
        where it stopped and, after Ctrl-C, too, the model is the one reached so far.
    checkpoint : path-like, default=None
        The folder of checkpoints: `help(manyclass.training.checkpoint)`.
    every : str such as "10min" or int, default="10min"
        After how long, or how many passes, a checkpoint is written.
    resume : bool, default=False
        Go on from the checkpoint that is there.
    """

    groups: ArrayLike | None
    vectorizer: Encoder | None
    classes: ArrayLike | None
    max_memory: int | str | None
    callback: Callback | None
    max_seconds: float | None
    checkpoint: PathLike | None
    every: str | int
    resume: bool


DEFAULTS = {"every": EVERY, "resume": False}  # of others None

Method = TypeVar("Method", bound=Callable[..., Any])


def with_shared_options(fit: Method) -> Method:
    """Give a `fit` that takes `SharedOptions` as keywords each of them in its signature and in its text."""
    bare = signature(fit)
    parameters = [parameter for parameter in bare.parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=kind.__forward_arg__)
        for name, kind in SharedOptions.__annotations__.items()
    ]
    fit.__signature__ = bare.replace(parameters=parameters)  # type: ignore[attr-defined]
    text, returns, rest = (fit.__doc__ or "").partition("\n\n        Returns\n")
    shared = (getdoc(SharedOptions) or "").partition("----------\n")[2]
    fit.__doc__ = f"{text}\n{indent(shared, 8 * ' ')}{returns}{rest}"
    return fit
