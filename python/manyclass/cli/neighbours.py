"""Print the words nearest to a word, or the classes nearest to a class, by the cosine of their vectors.

FILE holds word vectors (word2vec's text or binary form) or a model, whose classes have a vector each: their weights.
Each line has the name that was asked for, a neighbour and its cosine, with tabs between; the nearest come first.
"""

from __future__ import annotations

import json
import sys
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from manyclass.checks import check_number
from manyclass.cli.messages import waiting
from manyclass.cli.vectors import as_lines, check_known, named_vectors
from manyclass.compressed import STDIN
from manyclass.datasets.inputs import Input


@dataclass
class NeighboursArguments:
    """Arguments of the command.

    Attributes
    ----------
    file : FILE
        word vectors, or a model
    names : NAME
        words or classes; - reads them from stdin, one a line
    k : int
        number of neighbours of each
    output_format : {"tsv", "jsonl"}
        form of the output
    """

    file: str
    names: tuple[str, ...]
    _: KW_ONLY
    k: int = 10
    output_format: Literal["tsv", "jsonl"] = "tsv"


def run(args: NeighboursArguments) -> int:
    """Find the neighbours, and print them."""
    check_number("k", args.k, low=1, integer=True)
    with waiting(f"reading {args.file}"):
        vectors = named_vectors(args.file)
    names = [*Input.of(STDIN).lines()] if [*args.names] == [STDIN] else [*args.names]
    check_known(vectors, names, args.file)  # all are known, or nothing is printed
    for name in names:
        neighbours = [(other, f"{cosine:.6g}") for other, cosine in vectors.most_similar(name, topn=args.k)]
        if args.output_format == "tsv":
            sys.stdout.write(as_lines([(name, *neighbour) for neighbour in neighbours]))
        else:
            near, cosines = [other for other, _ in neighbours], [float(cosine) for _, cosine in neighbours]
            print(json.dumps({"name": name, "neighbours": near, "cosines": cosines}, ensure_ascii=False))
    return 0
