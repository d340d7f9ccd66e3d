"""Word vectors of a text."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import KW_ONLY, dataclass
from typing import Any

from manyclass.checks import check_number
from manyclass.cli import options
from manyclass.cli.messages import check_readable, check_writable, interrupted, print_table, written
from manyclass.cli.options import CheckpointOptions, WithProgress, add_parameters, flag, parameters_from
from manyclass.training.passes import keeping
from manyclass.words.objectives import OBJECTIVES, objective_named, own_parameters
from manyclass.words.skip_gram import SkipGram

OWN = "objective__"  # before the name of an objective's parameter, as scikit-learn has it


@dataclass
class SkipgramArguments(WithProgress):
    """Arguments of the command.

    Attributes
    ----------
    corpus : CORPUS
        the text
    output : PATH
        file for the vectors, replaced if it exists: word2vec's binary format if it ends in .bin, else its text
    similarity : FILE
        word pairs with human scores to compare with; may be given several times
    analogies : FILE
        analogies to answer, in the form of questions-words.txt
    evaluate : bool
        print the exact objective, over all words
    evaluate_sample : N
        print the objective, estimated from N drawn centre words
    parsed : Namespace
        The parameters of `SkipGram` and of objectives among all arguments.
    """

    corpus: str
    _: KW_ONLY
    output: str
    similarity: list[str] | None = None
    analogies: str | None = None
    evaluate: bool = False
    evaluate_sample: int | None = None
    checkpoints: CheckpointOptions
    parsed: argparse.Namespace


def add_to_skipgram(parser: argparse.ArgumentParser, _argv: object) -> None:
    """Add the parameters of `SkipGram`, and those of any objective, which are parsed only where they are given."""
    add_parameters(parser, SkipGram)
    group = parser.add_argument_group("parameters of the objective")
    for name in dict.fromkeys(name for kind in OBJECTIVES.values() for name in own_parameters(kind)):
        objectives = [objective for objective, kind in OBJECTIVES.items() if name in own_parameters(kind)]
        kind = OBJECTIVES[objectives[0]]
        described = options.option(own_parameters(kind)[name], *options.documented_parameters(kind)[name])
        described |= {"help": f"For {', '.join(objectives)}. {described['help']}", "default": argparse.SUPPRESS}
        group.add_argument(flag(name), dest=OWN + name, **described)


def skipgram(args: SkipgramArguments) -> int:
    """Fit word vectors to a text and write them in word2vec's format.

    The text has one sentence a line, with blanks between words; it may be compressed. Each objective has parameters of
    its own, and refuses those of others. Results go to stdout, the progress bar, in words per second, to stderr. Ctrl-C
    ends training and writes the vectors reached so far, without evaluating them, with exit code 130.
    """
    parameters = parameters_from(args.parsed, SkipGram)
    own = {name.removeprefix(OWN): value for name, value in vars(args.parsed).items() if name.startswith(OWN)}
    parameters["objective"] = objective_named(parameters["objective"], **own)
    model = SkipGram(**parameters, verbose=int(args.progress))
    model.check_parameters()
    check_writable(args.output)
    check_readable(args.analogies, *(args.similarity or ()))
    if args.evaluate_sample is not None:
        check_number("--evaluate-sample", args.evaluate_sample, low=1, integer=True)
    begin = time.perf_counter()
    with keeping("best") as interruptions:
        model.fit(args.corpus, keep="best", **args.checkpoints.how)
    seconds = time.perf_counter() - begin
    model.save_word2vec(args.output, binary=args.output.endswith(".bin"))
    rows: dict[str, Any] = {
        "words": int(model.counts_.sum()),
        "vocabulary": len(model.counts_),
        "passes": model.n_iter_,
        "seconds": f"{seconds:.2f}, reading among them",
        "words per second": f"{model.words_per_second_:.0f} in training",
        "loss": f"{model.loss_curve_[-1]:.4f} nats a pair, as trained on" if model.loss_curve_ else "none",
        "vectors": written(args.output),
    }
    if interruptions:
        print_table(rows)
        return interrupted(f"{args.output} has the vectors reached so far")
    if args.evaluate or args.evaluate_sample:
        rows["objective"] = f"{model.objective_value(args.evaluate_sample):.6f} nats per co-occurrence"
    for path in args.similarity or ():
        score = model.score_similarity(path)
        shown = f"Spearman {score['spearman']:.4f}, {score['n_pairs']} pairs, {score['n_missing']} missing"
        rows[os.path.basename(path)] = shown
    if args.analogies:
        score = model.score_analogies(args.analogies)
        rows[os.path.basename(args.analogies)] = f"{score['accuracy']:.4f} of {score['n_questions']} right"
    print_table(rows)
    return 0
