"""Write the vectors of rows, of words or of classes, as .npy or as lines with tabs.

With a model that has embeddings (--model embedding), DATA are rows or texts, and each gets the vector that the hidden
layer makes of it. With word vectors DATA are words, one a line. With --classes the vectors of a model's classes are
written, without any data. A line of TSV is a vector; that of a word or a class begins with its name.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from manyclass.classifiers.base import LabelClassifier
from manyclass.cli.data import text_output
from manyclass.cli.messages import check_writable, waiting
from manyclass.cli.models import OnMappedModel
from manyclass.cli.vectors import as_lines, check_known, holds_words, named_vectors
from manyclass.datasets.inputs import Input, is_safetensors
from manyclass.weights.tensor_file import replacing


@dataclass
class EmbedArguments(OnMappedModel):
    """Arguments of the command.

    Attributes
    ----------
    model : FILE
        a model with embeddings, or word vectors
    data : DATA
        rows, in one of the forms below, or for word vectors words, one a line; - reads stdin
    classes : bool
        write the vectors of the model's classes
    output : PATH
        file: an array if it ends in .npy, else TSV; default: stdout
    """

    data: str | None = None
    _: KW_ONLY
    classes: bool = False
    output: str | None = None


def run(args: EmbedArguments) -> int:
    """Look vectors up or compute them, and write them."""
    if args.classes == (args.data is not None):
        raise ValueError("give either DATA or --classes")
    if args.output:
        check_writable(args.output)
    names, vectors = _vectors(args)
    if args.output and args.output.endswith(".npy"):
        with replacing(args.output) as file:
            # Not by np.save, which asks a file for its position: a pipe has none.
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(vectors))
            file.write(vectors.data)
        return 0
    rows = [[f"{value:.7g}" for value in vector] for vector in vectors]
    if names is not None:
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
    with text_output(args.output) as out:
        out.write(as_lines(rows))
    return 0


def _vectors(args: EmbedArguments) -> tuple[list[str] | None, NDArray[np.float32]]:
    """Return vectors, and their names where they have some."""
    if args.data is None or not is_safetensors(args.model) or holds_words(args.model):
        with waiting(f"reading {args.model}"):
            named = named_vectors(args.model)
        if args.data is None and holds_words(args.model):
            raise ValueError(f"{args.model} holds word vectors; --classes is for models")
        names = named.index_to_key if args.data is None else [*Input.of(args.data).lines()]
        check_known(named, names, args.model)
        return names, np.ascontiguousarray(named[names])
    model = args.opened()
    if not isinstance(model, LabelClassifier) or not hasattr(model, "embedding_"):
        raise ValueError(f"{args.model} holds a {type(model).__name__}, which has no embeddings")
    return None, np.ascontiguousarray(model.embed(args.features_of(model, args.data)))
