"""A head for other networks: values and gradients by definition, unbiased by enumeration, and a torch function."""

import re
from itertools import combinations

import numpy as np
import pytest
from reference.epoch import seed_of
from reference.output_layer import double_sum, every_class, log_loss, sampled_sums, slopes
from reference.problems import maximum_likelihood, planted
from scipy.special import logsumexp, softmax
from testing_core import pieces

from manyclass import heads, samplers
from manyclass.heads import SoftmaxHead

# Single precision: sums of up to D products and K exponentials of scores below 10, whose terms are below 1.
ATOL = 3e-6
K, D, N = 7, 4, 5


def some_head(seed, n=N, intercept=True, **parameters):
    """A head with random weights, and a batch of n examples for it."""
    rng = np.random.default_rng(seed)
    head = SoftmaxHead(D, K, fit_intercept=intercept, random_state=3, **{"n_examples": 20} | parameters)
    head.coef_[:] = rng.normal(size=head.coef_.shape)
    head.intercept_[:] = rng.normal(size=head.intercept_.shape)
    X, y = rng.normal(size=(n, D)).astype(np.float32), rng.integers(K, size=n)
    return head, X, y, rng


def true_u(head, X, y):
    """log A of all classes."""
    sums = sampled_sums(X, y, head.coef_, head.intercept_, [every_class(label, K) for label in y])
    return np.log(sums)


def dense(found):
    """The gradients in all rows of W, in b and in X."""
    dW, db = np.zeros((K, D)), np.zeros(K if len(found.db) else 0)
    dW[found.rows] = found.dW
    if len(found.db):
        db[found.rows] = found.db
    return dW, db, found.dX


def check_gradient(found, value, X, W, b):
    """`found` is the slope of value(X, W, b) in each of them."""
    X, W, b = (part.astype(np.float64) for part in (X, W, b))
    dW, db, dX = dense(found)
    np.testing.assert_allclose(dX, slopes(lambda x: value(x, W, b), X), rtol=1e-5, atol=ATOL)
    np.testing.assert_allclose(dW, slopes(lambda w: value(X, w, b), W), rtol=1e-5, atol=ATOL)
    np.testing.assert_allclose(db, slopes(lambda c: value(X, W, c), b), rtol=1e-5, atol=ATOL)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no_intercept"])
def test_the_exact_loss_is_the_definitions_and_its_gradients_are_its_slopes(intercept, seed):
    head, X, y, _ = some_head(seed, intercept=intercept)
    found = head.exact(X, y)
    assert found.value == pytest.approx(log_loss(X, y, head.coef_, head.intercept_), rel=1e-6)
    check_gradient(found, lambda x, w, b: log_loss(x, y, w, b), X, head.coef_, head.intercept_)
    np.testing.assert_allclose(found.u, true_u(head, X, y), rtol=1e-5, atol=ATOL)


@pytest.mark.parametrize("shape", [(1, 1, 2), (17, 33, 2100), (40, 70, 65)], ids=str)
def test_the_exact_gradient_of_many_classes_is_that_of_a_softmax(shape, seed):
    n, n_features, n_classes = shape
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, n_features)).astype(np.float32), rng.integers(n_classes, size=n)
    made = []
    for n_jobs in (1, 2, 3):
        head = SoftmaxHead(n_features, n_classes, n_jobs=n_jobs)
        head.coef_[:] = np.random.default_rng(seed).normal(size=head.coef_.shape)
        head.intercept_[:] = np.random.default_rng(seed).normal(size=n_classes)
        made.append(head.exact(X, y))
    z = X.astype(np.float64) @ head.coef_.astype(np.float64).T + head.intercept_
    p = softmax(z, axis=1)
    p[np.arange(n), y] -= 1
    # Scores are sums of up to 70 products in single precision, and so are gradients of up to 2,100 terms.
    size = max(1.0, np.abs(z).max()) * 2.0**-20
    for found in made:
        np.testing.assert_allclose(found.dW, p.T @ X / n, rtol=0, atol=size)
        np.testing.assert_allclose(found.dX, p @ head.coef_ / n, rtol=0, atol=size * np.abs(head.coef_).max())
        np.testing.assert_allclose(found.db, p.sum(axis=0) / n, rtol=0, atol=size)
        np.testing.assert_allclose(found.u, logsumexp(z, axis=1) - z[np.arange(n), y], rtol=1e-5, atol=size)
        for one, other in zip(found, made[0], strict=True):
            np.testing.assert_array_equal(one, other)


SAMPLERS = {"uniform": 3, "block": 3, "frequency": 3, "frequency_block": 16, "all": "auto"}


def draws_of(name, m, y, items, step):
    """The classes and weights of each example, as single draws give them."""
    m = K if m == "auto" else min(m, K)
    return [
        pieces.draw(name, K, m, int(label), seed_of(3), step, int(item)) for label, item in zip(y, items, strict=True)
    ]


def head_by(name, m, seed, **more):
    """A head with this sampler, which counts class k k + 1 times, as single draws do."""
    counted = {"labels": np.repeat(np.arange(K), np.arange(K) + 1)} if "frequency" in name else {}
    return some_head(seed, sampler=name, n_negatives=m if m == "auto" else min(m, K), **counted, **more)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no_intercept"])
@pytest.mark.parametrize(("name", "m"), SAMPLERS.items())
def test_a_sampled_loss_is_the_definitions_for_its_draw_and_its_gradients_are_its_slopes(name, m, intercept, seed):
    head, X, y, rng = head_by(name, m, seed, intercept=intercept, delta=np.inf)
    ids = rng.permutation(20)[:N]
    head.u_[:] = rng.uniform(0, 4, size=20)
    for step in (0, 5):
        draws = draws_of(name, m, y, ids, step)
        found = head.sampled(X, y, step=step, ids=ids)
        u = head.u_[ids]

        def value(x, w, b, u=u, draws=draws):
            return double_sum(u, sampled_sums(x, y, w, b, draws))

        assert found.value == pytest.approx(value(X, head.coef_, head.intercept_), rel=1e-5, abs=1e-5)
        # Terms are weighted by up to K / m and e^-u: relative to the largest.
        size = max(1.0, float(np.abs(found.dW).max()))
        small = found._replace(dW=found.dW / size, db=found.db / size, dX=found.dX / size)
        check_gradient(
            small, lambda x, w, b, size=size, value=value: value(x, w, b) / size, X, head.coef_, head.intercept_
        )
        of_u = slopes(lambda v, draws=draws: double_sum(v, sampled_sums(X, y, head.coef_, head.intercept_, draws)), u)
        np.testing.assert_allclose(found.du, of_u, rtol=1e-5, atol=ATOL)
        np.testing.assert_array_equal(found.u, u)
        assert set(found.rows) == {*y, *(k for d in draws for k, alpha in zip(*d, strict=True) if alpha > 0)}


@pytest.mark.parametrize(("name", "m"), SAMPLERS.items())
def test_without_ids_u_is_the_logarithm_of_the_sampled_sum(name, m, seed):
    head, X, y, _ = head_by(name, m, seed)
    draws = draws_of(name, m, y, range(N), 2)
    found = head.sampled(X, y, step=2)

    def value(x, w, b):
        return float(np.mean(np.log(sampled_sums(x, y, w, b, draws))))

    assert found.value == pytest.approx(value(X, head.coef_, head.intercept_), rel=1e-5, abs=1e-6)
    check_gradient(found, value, X, head.coef_, head.intercept_)
    np.testing.assert_allclose(found.du, 0, atol=1e-15)
    assert not len(found.ids)


def collected(head, X, y, ids, n_outcomes):
    """One answer for each set of classes that one example draws, by trying steps until all have come."""
    seen = {}
    for step in range(100_000):
        found = head.sampled(X, y, step=step, ids=ids)
        seen.setdefault(tuple(found.rows), found)
        if len(seen) == n_outcomes:
            return seen
    raise AssertionError(f"only {len(seen)} of {n_outcomes} draws came")


@pytest.mark.parametrize("at", ["anywhere", "optimum"])
@pytest.mark.parametrize("name", ["uniform", "frequency"])
def test_the_mean_over_all_draws_is_the_double_sum_and_at_the_optimum_the_log_loss(name, at, seed):
    m = 2 if name == "uniform" else 1
    head, X, y, rng = head_by(name, m, seed, n=1, delta=np.inf)
    head.u_[4] = true_u(head, X, y)[0] if at == "optimum" else rng.uniform(0, 4)
    if name == "uniform":
        sets = [tuple(sorted({y[0], *s})) for s in combinations([k for k in range(K) if k != y[0]], 2)]
        chances = np.full(len(sets), 1 / len(sets))
    else:
        sets = [tuple(sorted({y[0], k})) for k in range(K)]  # one draw by the counts to the power of 0.75
        chances = (np.arange(K) + 1) ** 0.75 / np.sum((np.arange(K) + 1) ** 0.75)
    answers = collected(head, X, y, [4], len(sets))
    means = [sum(c * part for c, part in zip(chances, parts, strict=True)) for parts in
             zip(*((answers[s].value, *dense(answers[s]), answers[s].du) for s in sets), strict=True)]  # fmt: skip

    def value(x, w, b, u=head.u_[[4]]):
        return double_sum(u, sampled_sums(x, y, w, b, [every_class(y[0], K)]))

    # Weights of up to 1 / q of the rarest class, of terms e^(d - u).
    atol = ATOL * max(1.0, *(float(np.abs(a.dW).max()) for a in answers.values()))
    X, W, b = X.astype(np.float64), head.coef_.astype(np.float64), head.intercept_.astype(np.float64)
    np.testing.assert_allclose(means[0], value(X, W, b), rtol=1e-5, atol=atol)
    np.testing.assert_allclose(means[1], slopes(lambda w: value(X, w, b), W), rtol=0, atol=atol)
    np.testing.assert_allclose(means[2], slopes(lambda c: value(X, W, c), b), rtol=0, atol=atol)
    np.testing.assert_allclose(means[3], slopes(lambda x: value(x, W, b), X), rtol=0, atol=atol)
    np.testing.assert_allclose(
        means[4], slopes(lambda u: value(X, W, b, u), head.u_[[4]]), rtol=0, atol=max(atol, 1e-5)
    )
    if at == "optimum":
        exact = head.exact(X, y)
        np.testing.assert_allclose(means[0], exact.value, rtol=1e-5, atol=atol)
        for mean, part in zip(means[1:4], dense(exact), strict=True):
            np.testing.assert_allclose(mean, part, rtol=0, atol=atol)
        np.testing.assert_allclose(means[4], 0, atol=max(atol, 1e-5))


def test_a_draw_is_named_by_seed_step_and_example_alone(seed):
    head, X, y, rng = some_head(seed, n=40, n_negatives=3, n_examples=60)
    ids = rng.permutation(60)[:40]
    order = rng.permutation(40)
    one = head.sampled(X, y, step=7, ids=ids)
    other = head.sampled(X[order], y[order], step=7, ids=ids[order])
    np.testing.assert_array_equal(one.dX[order], other.dX)
    np.testing.assert_array_equal(one.du[order], other.du)
    np.testing.assert_allclose(one.dW, other.dW, rtol=0, atol=1e-6)  # sums in another order
    threads = SoftmaxHead(D, K, n_negatives=3, n_examples=60, random_state=3, n_jobs=3)
    threads.coef_[:], threads.intercept_[:] = head.coef_, head.intercept_
    for a, b in zip(threads.sampled(X, y, step=7, ids=ids), one, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (head.sampled(X, y, step=8, ids=ids).dX != one.dX).any()


def test_a_u_that_is_far_too_low_is_raised_first_and_the_loss_falls_by_it(seed):
    head, X, y, _ = some_head(seed, n_negatives=3)
    ids = np.arange(N)
    head.u_[:] = -50
    found = head.sampled(X, y, step=0, ids=ids)
    assert (found.u > -50).all()
    assert (found.u <= true_u(head, X, y) + 1e-5).all()
    # No coefficient is above alpha e^(d - u) of classes that the bound has counted.
    assert np.abs(found.dX).max() <= (K - 1) / 3 * 2 * np.abs(head.coef_).max()
    wild = some_head(seed, n_negatives=3, delta=np.inf)[0]
    wild.u_[:] = -50
    assert wild.sampled(X, y, step=0, ids=ids).value > 1e15
    # Within delta of the bound nothing is raised.
    head.u_[:] = 20
    np.testing.assert_array_equal(head.sampled(X, y, step=0, ids=ids).u, head.u_[ids])


def test_sampled_steps_alone_reach_the_maximum_of_the_likelihood(seed):
    X, y = planted(np.random.default_rng(seed), 400, 4, 12, scale=3)
    best = maximum_likelihood(X, y, 12)
    head = SoftmaxHead(4, 12, n_negatives=4, n_examples=400, random_state=seed)
    rng = np.random.default_rng(seed)
    step = 0
    for epoch in range(150):
        for ids in np.split(rng.permutation(400), 20):
            found = head.sampled(X[ids], y[ids], step=step, ids=ids)
            head.update(found, 4.0 * 0.97**epoch, u_learning_rate=0.97**epoch)
            step += 1
    gap = head.exact(X, y).value - best
    assert -1e-5 < gap < 0.01 * np.log(12)


def test_exact_steps_go_down_to_the_maximum_of_the_likelihood(seed):
    X, y = planted(np.random.default_rng(seed), 100, 3, 5, scale=2)
    head = SoftmaxHead(3, 5)
    for _ in range(3000):
        head.update(head.exact(X, y), 1.0)
    assert head.exact(X, y).value - maximum_likelihood(X, y, 5) < 1e-3


def test_the_input_gradient_trains_the_layer_below(seed):
    """A network of one hidden layer, by hand: the slope in its weights is X' (dX * tanh')."""
    head, X, y, rng = some_head(seed)
    V = rng.normal(size=(D, D))

    def loss(v):
        return log_loss(np.tanh(X @ v), y, head.coef_, head.intercept_)

    hidden = np.tanh(X @ V)
    found = X.T @ (head.exact(hidden, y).dX * (1 - hidden**2))
    np.testing.assert_allclose(found, slopes(loss, V), rtol=1e-4, atol=1e-5)


def torch_example():
    """The function of the module's documentation."""
    found = re.search(r"::\n\n((?: {4}.*\n)+)", heads.__doc__)
    return "\n".join(line[4:] for line in found.group(1).splitlines())


def test_the_documented_torch_function_has_ten_lines():
    code = [line for line in torch_example().splitlines() if line.strip()]
    assert len(code) - 1 <= 10  # beside its first line, `class Head`
    compile(torch_example(), "example", "exec")


def test_the_documented_torch_function_trains_a_network(seed):
    torch = pytest.importorskip("torch")
    names = {"torch": torch}
    exec(torch_example(), names)
    head, X, y, _ = some_head(seed, n_negatives=3)
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(D, D), torch.nn.Tanh())
    hidden = network(torch.from_numpy(X))
    expected = head.sampled(hidden.detach().numpy(), y, ids=np.arange(N), step=0)
    hidden.retain_grad()
    before = head.coef_.copy()
    value = names["Head"].apply(hidden, head, y, np.arange(N), 0, 0.1)
    (3 * value).backward()
    assert value.item() == pytest.approx(expected.value)
    np.testing.assert_allclose(hidden.grad.numpy(), 3 * expected.dX, rtol=1e-6)
    assert network[0].weight.grad.abs().sum() > 0
    np.testing.assert_array_equal(head.coef_[expected.rows], before[expected.rows] - np.float32(0.1) * expected.dW)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sampler": "search"}, "sampler is 'search'; it must be one of"),
        ({"sampler": "head_tail"}, "sampler is 'head_tail'; it must be one of"),
        ({"sampler": "frequency"}, "labels is None with sampler='frequency', which count labels"),
        ({"labels": [0, 1]}, "labels is given with sampler='uniform', which count no labels"),
        ({"sampler": "frequency", "labels": [0, 7]}, r"labels holds 7; ids are in \[0, 7\)"),
        ({"sampler": "frequency", "labels": []}, "labels"),
        ({"sampler": "all", "n_negatives": 3}, "n_negatives is 3, which has no effect with sampler='all'"),
        ({"n_negatives": "many"}, "n_negatives is 'many'; it must be a number or 'auto'"),
        ({"n_negatives": 8}, "n_negatives is 8; it must be at least 1 and at most 7"),
        ({"n_examples": 0, "delta": 2.0}, "delta is 2.0, which has no effect without u"),
        ({"delta": -1.0}, "delta is -1.0"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SoftmaxHead(D, K, **parameters)


def test_arguments_that_do_not_fit_are_refused():
    head, X, y, _ = some_head(0)
    for x, labels, message in (
        (X[:, 1:], y, r"X has shape \(5, 3\); it must have shape \(n, 4\)"),
        (X[:0], y[:0], r"X has shape \(0, 4\)"),
        (X * np.nan, y, r"X\[0, 0\] is nan"),
        (X, y[1:], r"y has shape \(4,\); it must have shape \(5,\)"),
        (X, y + K, r"y holds \d+; ids are in \[0, 7\)"),
    ):
        with pytest.raises(ValueError, match=message):
            head.exact(x, labels)
        with pytest.raises(ValueError, match=message):
            head.sampled(x, labels, step=0)
    with pytest.raises(TypeError, match="y has dtype float64"):
        head.exact(X, y.astype(float))
    for ids, message in (
        ([0, 1, 2, 3, 3], "ids holds 3 more than once"),
        ([0, 1, 2, 3, 20], r"ids holds 20; ids are in \[0, 20\)"),
        ([0, 1], r"ids has shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            head.sampled(X, y, step=0, ids=ids)
    with pytest.raises(ValueError, match="step is -1"):
        head.sampled(X, y, step=-1)
    with pytest.raises(ValueError, match="ids are given to a head without u"):
        SoftmaxHead(D, K).sampled(X, y, step=0, ids=np.arange(N))
    with pytest.raises(ValueError, match=r"u_learning_rate is 2\.0, which has no effect without ids"):
        head.update(head.sampled(X, y, step=0), 0.1, u_learning_rate=2.0)
    with pytest.raises(ValueError, match="learning_rate is 0"):
        head.update(head.exact(X, y), 0)


def test_an_object_of_samplers_has_its_own_parameters(seed):
    labels = np.repeat(np.arange(K), np.arange(K) + 1)
    even = some_head(seed, sampler=samplers.Frequency(power=0.0), n_negatives=1, labels=labels, n=1, delta=np.inf)
    answers = collected(*even[:3], [0], K)
    head, X, y, _ = even
    d = (X @ head.coef_.T + head.intercept_)[0]
    for a in answers.values():
        for k, slope in zip(a.rows, a.db, strict=True):
            if k != y[0]:  # each class is drawn as often as any other: its weight is K
                assert slope == pytest.approx(K * np.exp(d[k] - d[y[0]] - a.u[0]), rel=1e-5)
