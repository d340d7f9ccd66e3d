"""What the scores are made of: one class for each model, to be given as `model=`."""

from __future__ import annotations

from typing import Literal

from manyclass.parts import Part, Setting

# What may be given as `model=` by name, for editors and type checkers; a test holds it to `MODELS`.
ModelName = Literal["auto", "linear", "embedding"]


class Model(Part):
    """Base class of the models."""


class Linear(Model):
    """Scores are W x + b: one weight for each feature and class."""

    name = "linear"

    def __init__(self) -> None:
        super().__init__()


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
