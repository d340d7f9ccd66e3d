"""Plans of estimators for data, without a fit, and estimators whose choices have other figures behind them."""

from contextlib import contextmanager
from dataclasses import replace
from functools import wraps

import numpy as np

from manyclass import models
from manyclass.choosing.costs import Facts
from manyclass.choosing.plans import softmax_batches_plan
from manyclass.choosing.recipes import Choice, recipes
from manyclass.figures import FIGURES
from manyclass.fitting.trials import plan_full_passes, plan_points
from manyclass.parts import Chosen, Parameters
from manyclass.training.plan import Labels
from manyclass.training.state import Features, Points


@contextmanager
def figures_with(**values):
    """The figures of the package with other numbers; all of its modules read the same ones."""
    before = {name: getattr(FIGURES, name) for name in values}
    for name, value in values.items():
        object.__setattr__(FIGURES, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(FIGURES, name, value)


def with_figures(model, **values):
    """The same estimator, of a class whose fits and calls have these among the figures behind them."""

    def with_values(method):
        @wraps(method)
        def called(*args, **named):
            with figures_with(**values):
                return method(*args, **named)

        return called

    methods = {name: with_values(getattr(type(model), name)) for name in ("fit", "partial_fit")}
    return type(type(model).__name__, (type(model),), methods)(**model.get_params(deep=False))


def with_planner(model, **methods):
    """The same estimator, of a class whose planner has these methods."""
    planner = type(model)._planner
    other = type(planner.__name__, (planner,), methods)
    return type(type(model).__name__, (type(model),), {"_planner": other})(**model.get_params(deep=False))


def chosen_of(model):
    """The parts of an estimator, with a linear model where it names none."""
    chosen = model.check_parameters()
    return replace(chosen, model=chosen.model or models.Linear()) if isinstance(chosen, Chosen) else chosen


def points_of_arrays(x, labels, n_classes, weights=None):
    """The points of a fit to rows of one label, whose classes are numbers."""
    data = (x, Labels.single(labels), np.arange(n_classes), Features(x.shape[1], None))
    return Points(*data, weights=weights, n_given=len(labels))


def by_points(model, x, labels, n_classes, *, timed=False, candidates=False, weights=None):
    """The plan of a linear model of one label a row, point by point."""
    given = {"timed": timed, "candidates": candidates, "by_steps": True}
    chosen = model.check_parameters()
    facts = Facts.of(x, n_classes)
    choice = Choice(Parameters.of(model), chosen, facts, **given)
    return plan_points(choice, points_of_arrays(x, labels, n_classes, weights))


def by_full_passes(model, x, labels, n_classes):
    choice = Choice(Parameters.of(model), model.check_parameters(), Facts.of(x, n_classes))
    return plan_full_passes(choice, points_of_arrays(x, labels, n_classes))


def by_batches(model, x, n_classes, *, embeds=False):
    """The plan of minibatches; `embeds`: embeddings are what the size of W asks for."""
    taken = next(recipe for recipe in recipes() if recipe.name == "embeddings alone") if embeds else None
    chosen = model.check_parameters() if embeds else chosen_of(model)
    facts = Facts.of(x, n_classes, several=not embeds)
    return softmax_batches_plan(Choice(Parameters.of(model), chosen, facts, by_steps=True, taken=taken))


def question(model, facts, **given):
    """What is chosen for an estimator and data of such facts."""
    return Choice(Parameters.of(model), model.check_parameters(), facts, **given)


def lists(n, n_labels):
    """Labels of n rows, so many each, all the same."""
    return Labels(np.arange(0, n * n_labels + 1, n_labels), np.tile(np.arange(n_labels, dtype=np.int32), n))
