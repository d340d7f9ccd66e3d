"""Selections of wrong classes: the code's draws are the twin's, and the twin's estimate without bias."""

from math import comb

import numpy as np
import pytest
from reference.rng import Rng, every_outcome
from reference.selections import INCLUSION, SELECTIONS, Choice, alias_table
from scipy.stats import chi2
from testing_core import pieces

from manyclass import SoftmaxClassifier
from manyclass.registry import names
from manyclass.samplers import Frequency
from manyclass.solvers import Adagrad

# (n_classes, n_negatives): one class at a time, a short last block, m = K - 1, m >= K, powers of two
SIZES = [(2, 1), (5, 1), (7, 3), (8, 4), (7, 6), (6, 6), (6, 50), (40, 16), (40, 30)]
FALSE_ALARM = 1e-7  # of each chi-square test; 100 seeds and a handful of tests stay below 1e-4


def test_every_selection_has_a_twin():
    assert set(SELECTIONS) == set(names("selection"))


def choice_of(n_classes, m, *, with_label=False):
    """Frequencies are those that pieces.draw gives its classes."""
    return Choice(n_classes, m, with_label=with_label, counts=range(1, n_classes + 1))


def heads_of(selection, n_classes, rng):
    """Heads to try: none, one class, several with repeats, and places that are empty."""
    if selection != "head_tail":
        return [[]]
    return [[], [0], rng.integers(-1, n_classes, size=3).tolist(), rng.integers(-1, n_classes, size=6).tolist()]


def both_kinds():
    for selection in names("selection"):
        yield selection, "implicit"
        if selection != "head_tail":
            yield selection, "is"  # its draws are from all classes


@pytest.mark.parametrize(("selection", "solver"), list(both_kinds()))
@pytest.mark.parametrize(("n_classes", "m"), SIZES)
def test_draws_equal_the_twin(selection, solver, n_classes, m, seed):
    some = np.random.default_rng(seed)
    choice = choice_of(n_classes, m, with_label=solver == "is")
    for _ in range(50):
        label, epoch, item = (int(some.integers(0, high)) for high in (n_classes, 100, 10**9))
        for head in heads_of(selection, n_classes, some):
            n = min(m, n_classes)  # as the estimator asks
            classes, alpha = pieces.draw(selection, n_classes, n, label, seed, epoch, item, solver, head)
            expected = SELECTIONS[selection](Rng(seed, epoch, item), choice, label, head)
            assert classes == expected.classes.tolist()
            np.testing.assert_allclose(alpha, expected.alpha, rtol=2**-22)  # q, m q and its inverse, times: 4 roundings


# Draws marked in words of bits, of which the last is full or has one bit, and draws kept in order (5,000 and 8).
@pytest.mark.parametrize(("n_classes", "m"), [(65, 8), (66, 9), (129, 128), (5000, 64), (5000, 8)])
def test_uniform_draws_of_many_classes_equal_the_twin(n_classes, m, seed):
    choice = choice_of(n_classes, m)
    for item in range(5):
        label = (n_classes - 1) * item // 4
        classes, _ = pieces.draw("uniform", n_classes, m, label, seed, 0, item)
        assert classes == SELECTIONS["uniform"](Rng(seed, 0, item), choice, label).classes.tolist()


@pytest.mark.parametrize(
    ("selection", "solver", "n_classes", "m"),
    [(*kind, *size) for kind in both_kinds() for size in SIZES if kind[0] == "frequency_block" or size[0] < 9],
)
def test_each_wrong_class_counts_once_on_average_and_the_label_only_where_it_is_drawn(
    selection, solver, n_classes, m, seed
):
    if selection == "frequency" and (2 * n_classes) ** min(m, n_classes) > 5000:
        m = 2  # n_classes^m tuples, of two alias outcomes a class
    choice = choice_of(n_classes, m, with_label=solver == "is")
    labels = [0, n_classes - 1] if selection.startswith("frequency") else range(n_classes)
    for label in labels:
        for head in heads_of(selection, n_classes, np.random.default_rng(seed)):
            counted, included = np.zeros(n_classes), np.zeros(n_classes)
            outcomes = every_outcome(
                lambda rng, label=label, head=head: SELECTIONS[selection](rng, choice, label, head)
            )
            for probability, drawn in outcomes:
                assert len(set(drawn.classes.tolist())) == len(drawn.classes)
                counted[drawn.classes] += probability * drawn.alpha
                included[drawn.classes[drawn.random]] += probability
            # Sums of doubles of about 1, each addition and each product of probabilities off by some ulp of 1.
            atol = (len(outcomes) + 10 * m) * 2**-52
            assert sum(probability for probability, _ in outcomes) == pytest.approx(1, abs=atol)
            wanted = np.ones(n_classes) if solver == "is" else (np.arange(n_classes) != label) * 1.0
            np.testing.assert_allclose(counted, wanted, rtol=0, atol=atol)
            wrong = np.arange(n_classes) != label
            np.testing.assert_allclose(included[wrong], INCLUSION[selection](choice)[wrong], rtol=0, atol=atol)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_each_class_that_is_no_label_counts_once_on_average_for_points_with_several(selection):
    for labels in ([], [0], [1, 4], [0, 2, 3, 4, 5]):
        choice = choice_of(6, 2)
        counted = np.zeros(6)
        for probability, drawn in every_outcome(lambda rng, c=choice, P=labels: SELECTIONS[selection](rng, c, P, [2])):
            counted[drawn.classes] += probability * drawn.alpha
        np.testing.assert_allclose(counted, [k not in labels for k in range(6)], rtol=0, atol=1e-13)


def test_the_alias_table_has_the_probabilities_it_is_made_from(seed):
    rng = np.random.default_rng(seed)
    for counts, power in ((rng.integers(1, 1000, size=50), 0.75), (np.ones(7), 1.0), (np.arange(1, 9) ** 5, 1.0)):
        choice = Choice(len(counts), 1, counts=counts.tolist(), power=power)
        accept, alias = alias_table(choice.q)
        probabilities = np.zeros(len(counts))
        for k, (p, other) in enumerate(zip(accept, alias, strict=True)):
            probabilities[k] += p / len(counts)
            probabilities[other] += (1 - p) / len(counts)
        np.testing.assert_allclose(probabilities, choice.q, rtol=0, atol=1e-14)


@pytest.mark.parametrize("share_classes", [False, True])
@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5])
def test_a_class_without_points_is_drawn_only_where_all_classes_weigh_the_same(power, share_classes, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(60, 5)), np.eye(9, dtype=np.int64)[rng.integers(0, 8, 60)]  # the last column is empty
    solver = Adagrad(share_classes=share_classes, batch_size=2)
    model = SoftmaxClassifier(solver=solver, sampler=Frequency(power=power), n_negatives=4, random_state=seed)
    model.set_params(max_iter=3).fit(X, Y)
    assert model.coef_[8].any() == (power == 0)
    assert model.coef_[:8].any(axis=1).all()


@pytest.mark.parametrize(("n_classes", "m"), [(5, 1), (7, 3), (6, 5)])
def test_uniform_makes_every_subset_equally_likely(n_classes, m):
    probabilities: dict[tuple[int, ...], float] = {}
    for probability, drawn in every_outcome(lambda rng: SELECTIONS["uniform"](rng, choice_of(n_classes, m), 2)):
        subset = tuple(drawn.classes.tolist())
        probabilities[subset] = probabilities.get(subset, 0.0) + probability
    assert len(probabilities) == comb(n_classes - 1, m)
    np.testing.assert_allclose(list(probabilities.values()), 1 / comb(n_classes - 1, m), rtol=1e-12)


@pytest.mark.parametrize(("selection", "n_outcomes"), [("block", 4), ("uniform", 35)])
def test_the_draws_of_many_points_are_spread_evenly(selection, n_outcomes, seed):
    n, n_classes, m = 7000, 8, 2 if selection == "block" else 3
    drawn = [tuple(pieces.draw(selection, n_classes, m, 7, seed, 0, item)[0]) for item in range(n)]
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == n_outcomes
    expected = n / n_outcomes
    assert np.sum((counts - expected) ** 2) / expected < chi2.isf(FALSE_ALARM, n_outcomes - 1)


def test_draws_of_neighbouring_points_and_passes_are_independent(seed):
    first, second = (
        np.array([pieces.draw("block", 8, 2, 7, seed, epoch, i)[0][0] // 2 for i in range(8000)]) for epoch in (0, 1)
    )
    for before, after in ((first[:-1], first[1:]), (first, second)):
        counts = np.bincount(4 * before + after, minlength=16)
        expected = len(before) / 16
        assert np.sum((counts - expected) ** 2) / expected < chi2.isf(FALSE_ALARM, 15)


def test_an_unknown_selection_is_refused_with_the_choices():
    with pytest.raises(ValueError, match="selection is 'blocks'; it must be one of 'block', 'uniform', 'all'"):
        pieces.draw("blocks", 4, 1, 0, 0, 0, 0)


@pytest.mark.parametrize("solver", ["is", "nce"])
def test_a_head_is_refused_where_the_label_is_drawn_too(solver):
    with pytest.raises(ValueError, match="selection 'head_tail' cannot draw the label, which the solver needs"):
        pieces.draw("head_tail", 4, 1, 0, 0, 0, 0, solver)
