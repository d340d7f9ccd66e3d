"""Fit word vectors to a text and write them in word2vec's format.

Each objective has parameters of its own; one that the chosen objective has not is an error.

The text has a sentence a line, words between white space; it may be compressed. Results go to stdout, the progress
bar, in words per second, to stderr. Ctrl-C ends training and writes the vectors reached so far, without
evaluating them, with exit code 130.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping

from manyclass.checks import check_number
from manyclass.cli.arguments import (
    add_checkpoints,
    add_parameters,
    add_progress,
    checkpoints_from,
    documented_parameters,
    option,
    parameters_from,
    shows_progress,
)
from manyclass.cli.codes import INTERRUPTED
from manyclass.cli.messages import check_writable, note, print_table
from manyclass.training.checkpoint import Checkpoints
from manyclass.training.interrupts import was_interrupted
from manyclass.words.objectives import OBJECTIVES, objective_named, own_parameters
from manyclass.words.questions import Pairs, load_analogies, load_word_pairs
from manyclass.words.skip_gram import SkipGram

OWN = "objective__"  # before the name of an objective's parameter, as scikit-learn has it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("corpus", metavar="CORPUS", help="the text")
    parser.add_argument(
        "--output",
        required=True,
        metavar="PATH",
        help="file for the vectors, replaced if it exists: word2vec's binary format if it ends in .bin, else its text",
    )
    parser.add_argument(
        "--similarity", action="append", default=[], metavar="FILE", help="word pairs with human scores to compare with"
    )
    parser.add_argument("--analogies", metavar="FILE", help="analogies to answer, in the form of questions-words.txt")
    parser.add_argument("--evaluate", action="store_true", help="print the exact objective, over all words")
    parser.add_argument(
        "--evaluate-sample", type=int, metavar="N", help="print the objective, estimated from N drawn centre words"
    )
    add_checkpoints(parser)
    add_progress(parser)
    add_parameters(parser, SkipGram)
    _add_objective_parameters(parser)


def _add_objective_parameters(parser: argparse.ArgumentParser) -> None:
    """Add an option for each parameter of any objective, which is no argument at all unless given."""
    group = parser.add_argument_group("parameters of the objective")
    having: dict[str, list[str]] = {}
    for objective, kind in OBJECTIVES.items():
        for name in own_parameters(kind):
            having.setdefault(name, []).append(objective)
    for name, objectives in having.items():
        kind = OBJECTIVES[objectives[0]]
        parameter = own_parameters(kind)[name]
        options = option(parameter, *documented_parameters(kind)[name])
        about = f"For {', '.join(objectives)}. {options['help']} (default: {parameter.default})"
        options.update(default=argparse.SUPPRESS, help=about)
        group.add_argument("--" + name.replace("_", "-"), dest=OWN + name, **options)


def _model(args: argparse.Namespace, *, verbose: bool) -> SkipGram:
    given = {name.removeprefix(OWN): value for name, value in vars(args).items() if name.startswith(OWN)}
    parameters = parameters_from(args, SkipGram)
    return SkipGram(**{**parameters, "objective": objective_named(args.objective, **given)}, verbose=int(verbose))


def run(args: argparse.Namespace) -> int:
    """Fit, write, tell."""
    progress = shows_progress(args)
    model = _model(args, verbose=progress)
    model.check_parameters()
    check_writable(args.output)
    more = checkpoints_from(args)
    Checkpoints.of(**more)
    if args.evaluate_sample is not None:
        check_number("--evaluate-sample", args.evaluate_sample, low=1, integer=True)
    pairs = {path: load_word_pairs(path) for path in args.similarity}
    if args.analogies:
        load_analogies(args.analogies)

    begin = time.perf_counter()
    interrupted = was_interrupted(lambda: model.fit(args.corpus, **more))
    seconds = time.perf_counter() - begin
    model.save_word2vec(args.output, binary=args.output.endswith(".bin"))
    rows = {
        "words": int(model.counts_.sum()),
        "vocabulary": len(model.counts_),
        "passes": model.n_iter_,
        "seconds": f"{seconds:.2f}, reading among them",
        "words per second": f"{model.words_per_second_:.0f} in training",
        "loss": f"{model.loss_curve_[-1]:.4f} nats a pair, as trained on" if model.loss_curve_ else "none",
    }
    rows["vectors"] = f"{args.output} ({os.path.getsize(args.output)} bytes)"
    print_table(rows if interrupted else {**rows, **_evaluated(args, model, pairs)})
    if interrupted:
        sys.stdout.flush()
        note(f"interrupted; {args.output} has the vectors reached so far")
    return INTERRUPTED if interrupted else 0


def _evaluated(args: argparse.Namespace, model: SkipGram, pairs: Mapping[str, Pairs]) -> dict[str, str]:
    rows = {}
    if args.evaluate or args.evaluate_sample:
        rows["objective"] = f"{model.objective_value(args.evaluate_sample):.6f} nats per co-occurrence"
    for path, found in pairs.items():
        score = model.score_similarity(found)
        name = os.path.basename(path)
        rows[name] = f"Spearman {score['spearman']:.4f}, {score['n_pairs']} pairs, {score['n_missing']} missing"
    if args.analogies:
        score = model.score_analogies(args.analogies)
        rows[os.path.basename(args.analogies)] = f"{score['accuracy']:.4f} of {score['n_questions']} right"
    return rows
