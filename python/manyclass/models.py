"""What the scores are made of: one class for each model, to be given as `model=`."""

from __future__ import annotations

from typing import Literal

from manyclass.parts import Part, Setting

# What may be given as `model=` by name, for editors and type checkers; a test holds it to `MODELS`.
ModelName = Literal["auto", "linear", "embedding"]


class Model(Part):
    """Base class of the models."""


_SCALING = Setting(
    "scaling", "auto", "Whether features are scaled for training.", "choice", ("standard", "none"), ("auto",)
)


class Linear(Model):
    """Scores are W x + b: one weight for each feature and class.

    Parameters
    ----------
    scaling : {"standard", "none"} or "auto", default="auto"
        With "standard" features are scaled for training, and W and b folded back, so that the model takes X as it is;
        the ridge is that of the weights of the scaled features. Dense features have mean 0, if there is an intercept,
        and standard deviation 1 then; those of mostly zeros keep them, and their other values have root mean square 1.
        Sparse ones keep their zeros, too: where these root mean squares differ by a factor of more than 100 each is
        made 1, else all are divided by the power of two that brings the length of rows to 1 to 8. Takes a copy of X, of
        its values where X is sparse. For one label a row. "auto" is "standard" with solver="auto", else "none".
    """

    name = "linear"
    settings = (_SCALING,)

    def __init__(self, *, scaling: str = "auto") -> None:
        super().__init__(scaling=scaling)


class Embedding(Model):
    """Scores are W phi(x) + b, phi(x) being the sum of the embeddings of the row's features, `dim` numbers long.

    Parameters
    ----------
    activation : {"linear", "relu"}, default="linear"
        What the sum of embeddings goes through.
    """

    name = "embedding"
    settings = (
        Setting("activation", "linear", "What the sum of embeddings goes through.", "choice", ("linear", "relu")),
    )

    def __init__(self, *, activation: str = "linear") -> None:
        super().__init__(activation=activation)


MODELS: dict[str, type[Part]] = {"linear": Linear, "embedding": Embedding}

__all__ = ["Embedding", "Linear"]
