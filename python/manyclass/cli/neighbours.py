"""Print the words nearest to a word, or the classes nearest to a class, by the cosine of their vectors.

FILE holds word vectors (word2vec's text or binary form) or a model, whose class vectors are the rows of W. Each line is
the name that was asked for, a neighbour and its cosine, nearest first, separated by tabs.
"""

from __future__ import annotations

import argparse
import json
import sys

from manyclass.checks import check_number
from manyclass.cli.forms import lines_of
from manyclass.cli.messages import waiting
from manyclass.cli.sources import STDIN, Source
from manyclass.cli.vectors import as_lines, named_vectors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="word vectors, or a model")
    parser.add_argument(
        "names", metavar="NAME", nargs="+", help="words or classes; - reads them from stdin, one a line"
    )
    parser.add_argument("-k", type=int, default=10, help="neighbours of each")
    parser.add_argument("--output-format", choices=("tsv", "jsonl"), default="tsv", help="form of the output")


def run(args: argparse.Namespace) -> int:
    """Find, print."""
    check_number("k", args.k, low=1, integer=True)
    with waiting(f"reading {args.file}"):
        named = named_vectors(args.file)
    asked = lines_of(Source.of(STDIN)) if args.names == [STDIN] else args.names
    rows = [named.row(name) for name in asked]  # all are known, or nothing is printed
    for name, row in zip(asked, rows, strict=True):
        found = named.nearest(row, args.k)
        if args.output_format == "tsv":
            sys.stdout.write(as_lines([(name, other, f"{cosine:.6g}") for other, cosine in found]))
        else:
            near, cosines = [other for other, _ in found], [float(f"{cosine:.6g}") for _, cosine in found]
            print(json.dumps({"name": name, "neighbours": near, "cosines": cosines}, ensure_ascii=False))
    return 0
