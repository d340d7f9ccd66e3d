r"""The last layer of any network: losses over very many classes with gradients in the weights and in the input.

A network gives n rows x; `SoftmaxHead` holds one row w_k and one number b_k for each of K classes and answers with the
value of the mean loss, its gradient in the few rows of W that a batch touches, and its gradient dX in the input, which
is all that the layers below need. PyTorch is no dependency; a head becomes one of its functions in ten lines, the head
taking its own steps and an optimiser those of the layers below::

    class Head(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, head, y, ids, step, learning_rate):
            found = head.sampled(x.detach().numpy(), y, ids=ids, step=step)
            head.update(found, learning_rate)
            ctx.save_for_backward(torch.from_numpy(found.dX))
            return x.new_tensor(found.value)
        @staticmethod
        def backward(ctx, slope):
            return slope * ctx.saved_tensors[0], None, None, None, None, None

and then ``Head.apply(network(batch), head, y, ids, step, 0.1).backward()``. To let an optimiser have W, too, make
``torch.from_numpy(head.coef_)`` a parameter, which shares its memory, and give it ``found.rows`` and ``found.dW`` as
the gradient, dense or as ``torch.sparse_coo_tensor``.

The theory is that of linear models: nothing in the double sum says where x comes from (Fagan & Iyengar 2018, section 5,
"the final layer of any neural network").
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from manyclass import _core
from manyclass.checks import check_flag, check_number, checked_ids, n_threads_from, real_array, seed_from
from manyclass.parts import Part, check_open, resolve_part
from manyclass.registry import parts
from manyclass.samplers import SAMPLERS
from manyclass.weights.arrays import Doubles, Floats

__all__ = ["HeadGradient", "SoftmaxHead"]

Ids = NDArray[np.int64]

N_NEGATIVES = 16

# A search and heads follow rows of W through training, which is the estimators' work.
_SAMPLERS = {name: part for name, part in SAMPLERS.items() if name not in ("search", "head_tail")}


class HeadGradient(NamedTuple):
    """The value of a mean loss over n examples, and its gradients.

    Attributes
    ----------
    value : float
        In nats.
    rows : ndarray of shape (r,), int32
        The classes that have a gradient, ascending; all others have none.
    dW : ndarray of shape (r, D), float32
        The gradient in their rows of W,
    db : ndarray of shape (r,), float32
        and in their intercepts; empty without.
    dX : ndarray of shape (n, D), float32
        The gradient in the input.
    ids : ndarray of shape (n,), int64
        The examples whose u was used; empty where it was not.
    u : ndarray of shape (n,), float64
        The u of each example at which the value and the gradients were taken,
    du : ndarray of shape (n,), float64
        and the gradient in it. For the exact loss u is the log-normaliser less the label's score, and du is 0.
    """

    value: float
    rows: NDArray[np.int32]
    dW: Floats  # noqa: N815
    db: Floats
    dX: Floats  # noqa: N815
    ids: Ids
    u: Doubles
    du: Doubles


class SoftmaxHead:
    r"""A softmax layer over K classes whose loss is exact, or an unbiased sample of a few classes for each example.

    With scores :math:`z_{ik} = \langle w_k, x_i \rangle + b_k` the mean log-loss is the minimum over u of

    .. math:: \frac1n \sum_i \Bigl[u_i + e^{-u_i} \Bigl(1 + \sum_{k \ne y_i} e^{z_{ik} - z_{i y_i}}\Bigr) - 1\Bigr]

    (Fagan & Iyengar 2018, eq. 5). `exact` gives the log-loss itself at the cost of all K classes. `sampled` gives the
    sum above with the inner sum over m drawn classes, weighted so that value and gradients are unbiased at the u that
    the head carries for each training example; the cost is O(n m D).

    Parameters
    ----------
    n_features : int
        D, the width of the input.
    n_classes : int
        K, at least 2.
    sampler : {"uniform", "block", "frequency", "frequency_block", "all"} or object, default="uniform"
        How classes are drawn; an object of `manyclass.samplers`. Blocks are neighbours in the order of class numbers.
    n_negatives : int or "auto", default="auto"
        m, classes drawn for an example; "auto" is 16. Leave it with `sampler="all"`.
    labels : array-like of int, optional
        Labels of the training set; what samplers by frequency count, and no others.
    n_examples : int, default=0
        Number of training examples, each of which has a u; their ids are in [0, n_examples).
    delta : float, default=1.0
        A u that is more than this below a bound on its optimum is raised to that bound before the gradient is taken
        (U-max, Algorithm 1 of the paper), so that no gradient explodes; ``np.inf`` never raises one. Needs
        `n_examples`.
    fit_intercept : bool, default=True
        Whether there are b_k.
    random_state : int, RandomState or None, default=None
        Seed of the draws. A draw is named by it, the step and the example's id, whatever else is in the batch.
    n_jobs : int or None, default=None
        Threads (-1: all cores). Results do not depend on it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features), float32
        W, zeros at first; may be changed in place.
    intercept_ : ndarray of shape (n_classes,), float32
        b, or empty.
    u_ : ndarray of shape (n_examples,), float64
        Near log sum_k e^{z_k - z_y} of each example; log K at first, which is exact for W = 0.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or without effect.
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        sampler: str | Part = "uniform",
        n_negatives: int | str = "auto",
        labels: ArrayLike | None = None,
        n_examples: int = 0,
        delta: float = 1.0,
        fit_intercept: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        check_number("n_features", n_features, low=1, high=2**31 - 1, integer=True)
        check_number("n_classes", n_classes, low=2, high=2**31 - 1, integer=True)
        check_number("n_examples", n_examples, low=0, integer=True)
        check_flag("fit_intercept", fit_intercept)
        if delta != np.inf:
            check_number("delta", delta, low=0)
        if n_examples == 0 and delta != 1.0:
            raise ValueError(f"delta is {delta!r}, which has no effect without u: set n_examples, or leave it 1.0")
        self._sampler = _core_sampler(sampler, n_negatives, labels, int(n_classes))
        self.coef_: Floats = np.zeros((n_classes, n_features), dtype=np.float32)
        self.intercept_: Floats = np.zeros(n_classes if fit_intercept else 0, dtype=np.float32)
        self.u_: Doubles = np.full(n_examples, np.log(n_classes))
        self.delta = float(delta)
        self._seed = seed_from(random_state)
        self._n_threads = n_threads_from(n_jobs)

    def exact(self, X: ArrayLike, y: ArrayLike) -> HeadGradient:
        r"""The mean log-loss and its gradients over all K classes: 4 n K D multiplications, in blocks of classes.

        Parameters
        ----------
        X : array-like of shape (n, D)
            Taken as float32.
        y : array-like of shape (n,), int
            Labels in [0, K).

        Returns
        -------
        HeadGradient
            Its `rows` are all classes.

        Raises
        ------
        ValueError, TypeError
            If the arguments do not fit.
        """
        x, labels = self._batch(X, y)
        dW, db, dX = (np.zeros_like(array) for array in (self.coef_, self.intercept_, x))
        u = _core.exact_layer_gradient(**self._layer(x, labels), dW=dW, db=db, dX=dX)
        rows = np.arange(len(dW), dtype=np.int32)
        return HeadGradient(float(u.mean()), rows, dW, db, dX, np.zeros(0, dtype=np.int64), u, np.zeros(len(x)))

    def sampled(self, X: ArrayLike, y: ArrayLike, *, step: int, ids: ArrayLike | None = None) -> HeadGradient:
        r"""The sampled mean loss and its gradients, from the labels and m drawn classes for each example.

        With `ids` the mean over draws is that of the double sum at the carried u: for W and x the gradient of
        :math:`u + e^{-u} A - 1`, which is at least the log-loss, and the log-loss where :math:`u = \log A`. (A u that
        is raised by `delta` depends on the draw; once no u is far too low, none is raised.) Without `ids` u is the
        logarithm of the sampled A itself, as in complementary sum sampling (Botev, Zheng & Barber 2017): nothing need
        be carried, and value and gradients have a bias of O(1/m).

        Parameters
        ----------
        X : array-like of shape (n, D)
            Taken as float32.
        y : array-like of shape (n,), int
            Labels in [0, K).
        step : int
            Names the draw with the seed and the example: another step draws other classes, the same step the same.
        ids : array-like of shape (n,), int, optional
            Distinct, in [0, n_examples).

        Returns
        -------
        HeadGradient
            Nothing of the head has changed; `update` takes a step.

        Raises
        ------
        ValueError, TypeError
            If the arguments do not fit.
        """
        x, labels = self._batch(X, y)
        check_number("step", step, low=0, integer=True)
        known = np.zeros(0, dtype=np.int64) if ids is None else self._ids(ids, len(x))
        items = known if ids is not None else np.arange(len(x), dtype=np.int64)
        draws = {"items": items, "delta": self.delta, "seed": self._seed, "step": int(step)}
        gradients = self._sampler.layer_gradient(**self._layer(x, labels) | draws, u=self.u_[known])
        db = gradients["db"] if len(self.intercept_) else self.intercept_
        return HeadGradient(**{**gradients, "ids": known, "db": db})

    def update(self, gradient: HeadGradient, learning_rate: float, *, u_learning_rate: float = 1.0) -> None:
        """Take a step of gradient descent in W, b and the u of the examples.

        Parameters
        ----------
        gradient : HeadGradient
            What `exact` or `sampled` has returned.
        learning_rate : float
            Multiplies the gradient of the mean loss, > 0.
        u_learning_rate : float, default=1.0
            Multiplies the gradient of an example's own part, > 0; of effect where ids were given.

        Raises
        ------
        ValueError
            If a step size is out of range, or ids were not given and `u_learning_rate` is.
        """
        check_number("learning_rate", learning_rate, low=0, open_low=True)
        check_number("u_learning_rate", u_learning_rate, low=0, open_low=True)
        if not len(gradient.ids) and u_learning_rate != 1.0:
            raise ValueError(f"u_learning_rate is {u_learning_rate!r}, which has no effect without ids; leave it 1.0")
        rate = np.float32(learning_rate)
        self.coef_[gradient.rows] -= rate * gradient.dW
        if len(self.intercept_):
            self.intercept_[gradient.rows] -= rate * gradient.db
        if len(gradient.ids):
            self.u_[gradient.ids] = gradient.u - u_learning_rate * len(gradient.du) * gradient.du

    def _batch(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[np.int32]]:
        """X and y as the core takes them."""
        x = real_array("X", np.ascontiguousarray(X, dtype=np.float32), np.float32)
        n_classes, n_features = self.coef_.shape
        if x.ndim != 2 or x.shape[1] != n_features or not len(x):
            raise ValueError(f"X has shape {x.shape}; it must have shape (n, {n_features}) with n >= 1")
        return x, _one_each("y", y, n_classes, len(x))

    def _layer(self, x: Floats, labels: NDArray[np.int32]) -> dict[str, Any]:
        """A batch and the layer, as the core takes them."""
        layer = {"weights": self.coef_, "intercept": self.intercept_, "n_threads": self._n_threads}
        return {"x": x, "labels": labels, **layer}

    def _ids(self, ids: ArrayLike, n: int) -> Ids:
        """Ids as the core takes them."""
        if not len(self.u_):
            raise ValueError("ids are given to a head without u; set n_examples to the number of training examples")
        once = "an example has one u, which is used once a batch"
        return _one_each("ids", ids, len(self.u_), n, once).astype(np.int64)


def _one_each(name: str, value: ArrayLike, end: int, n: int, once: str | None = None) -> NDArray[np.int32]:
    """`value` as n integers in [0, end)."""
    if np.shape(value) != (n,):
        raise ValueError(f"{name} has shape {np.shape(value)}; it must have shape ({n},), one for each row of X")
    return checked_ids(name, value, end, once=once)


def _core_sampler(
    sampler: str | Part, n_negatives: int | str, labels: ArrayLike | None, n_classes: int
) -> _core.Sampler:
    """The core's selection; ValueError for what has no effect on it."""
    part = resolve_part("sampler", sampler, _SAMPLERS, "manyclass.samplers")
    counts = "counts" in parts("selection")[part.name].flags
    if counts != (labels is not None):
        rule = "which count labels of the training set: give them" if counts else "which count no labels: leave it None"
        raise ValueError(f"labels is {'None' if counts else 'given'} with sampler={part.name!r}, {rule}")
    check_open("n_negatives", n_negatives, low=1, high=n_classes, integer=True)
    if n_negatives == "auto":
        n_negatives = min(N_NEGATIVES, n_classes)
    elif part.name == "all":
        raise ValueError(f"n_negatives is {n_negatives!r}, which has no effect with sampler='all'; leave it 'auto'")
    known = checked_ids("labels", [] if labels is None else np.ravel(labels), n_classes)
    if labels is not None and not len(known):
        raise ValueError("labels is empty; a sampler by frequency needs the labels of the training set")
    options = {name: float(value) for name, value in part.get_params().items()}
    return _core.Sampler(part.name, n_classes=n_classes, n_negatives=int(n_negatives), options=options, labels=known)
