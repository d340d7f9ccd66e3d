"""Readers of data sets, a mapped binary cache, the papers' preprocessing, texts, and planted data."""

import importlib
from typing import TYPE_CHECKING

from manyclass.datasets.binary_csr import load_csr, save_csr
from manyclass.datasets.planted import Planted, make_planted
from manyclass.datasets.preprocessing import (
    drop_empty_rows,
    drop_unseen_classes,
    first_label,
    l2_normalize,
    scale_by_max,
    truncate_features,
)
from manyclass.datasets.sources import fetch
from manyclass.datasets.stream import Stream
from manyclass.datasets.text import TextVectorizer
from manyclass.datasets.xmc import Multiclass, load_multiclass, load_xmc

if TYPE_CHECKING:
    from manyclass.choice.sets import ChoiceSets, choice_sets
    from manyclass.choice.tables import from_long, from_wide
    from manyclass.datasets.sequences import SequenceEncoder

__all__ = [
    "ChoiceSets",
    "Multiclass",
    "Planted",
    "SequenceEncoder",
    "Stream",
    "TextVectorizer",
    "choice_sets",
    "drop_empty_rows",
    "drop_unseen_classes",
    "fetch",
    "first_label",
    "from_long",
    "from_wide",
    "l2_normalize",
    "load_csr",
    "load_multiclass",
    "load_xmc",
    "make_planted",
    "save_csr",
    "scale_by_max",
    "truncate_features",
]

# The wing of choice stands above the readers here, and histories, whose memory a small training tells, above those.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        tables = dict.fromkeys(("from_long", "from_wide"), "choice.tables")
        home = {**tables, "SequenceEncoder": "datasets.sequences"}.get(name, "choice.sets")
        return getattr(importlib.import_module(f"manyclass.{home}"), name)
