"""Pictures of models and of measurements, in one style; matplotlib is needed only where one is drawn.

Of a fitted model: how training went, whether its probabilities are right, what it takes for what. Of measurements:
indexes beside faiss, the loss that each solver reaches by when, and loss over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from manyclass import _core
from manyclass.checks import check_choice, check_number, public_names
from manyclass.labels import find_positions, join_labels, labels_by_row, sorted_classes
from manyclass.metrics import expected_calibration_error
from manyclass.plot.style import COLOURS, GREY, Panel, Picture, Series, canvas, drawing, figures, line_chart
from manyclass.protocols import Classifier, Estimator

LONGEST_NAME = 18
MOST_LABELS = 5  # of a row, as in ECE@5 of `manyclass evaluate`


def learning_curve(model: Estimator) -> Picture:
    """Draw the training loss of each pass, and the held-out loss where the fit held points out.

    Parameters
    ----------
    model : fitted estimator
        With `loss_curve_`. The held-out loss is `validation_curve_`, which `SoftmaxClassifier(early_stopping=True)`
        has. With sampled classes the training loss is estimated too low; trust the held-out one.

    Returns
    -------
    Picture

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError
        If it has no curve, or no pass was completed.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import SoftmaxClassifier
    >>> from manyclass.plot import learning_curve
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SoftmaxClassifier(solver="implicit", early_stopping=True, random_state=0).fit(X / 16, y)
    >>> learning_curve(model).save("curve.svg")  # doctest: +SKIP
    """
    check_is_fitted(model)
    curve, held_out = list(getattr(model, "loss_curve_", ())), list(getattr(model, "validation_curve_", ()))
    if not curve:
        raise ValueError(f"{type(model).__name__} has no loss_curve_, or no pass was completed; there is none to draw")
    series = [Series("training", range(1, len(curve) + 1), curve, "-o")]
    if held_out:
        series.append(Series("held out", range(1, len(held_out) + 1), held_out, "-o"))
        best = getattr(model, "best_iter_", len(held_out))
        series.append(Series(f"kept: pass {best}", [best], [held_out[best - 1]], "-o"))
    # Losses of margins are no log-probabilities.
    unit = "loss" if model.get_params().get("loss") in ("margin", "triplet") else "loss [nats]"
    picture = line_chart([Panel("Loss by pass", series)], "pass", unit)
    locator: Any = picture.figure.axes[0].xaxis.get_major_locator()
    locator.set_params(integer=True)
    return picture


def reliability_diagram(model: Classifier, X: Any, y: ArrayLike, *, n_bins: int = 10) -> Picture:
    """Draw how often the most probable label is right against the probability that the model gave it.

    Rows are sorted by that probability and cut into bins of equal size. The expected calibration error (ECE) beside
    them is that of `manyclass.metrics.expected_calibration_error`, whose 15 bins have equal width. Of several labels a
    row it is the five most probable ones that are drawn, and ECE@5.

    Parameters
    ----------
    model : fitted classifier
        With `predict_top_k` of this package or, of one label a row, scikit-learn's `predict_proba`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows that were not trained on.
    y : array-like of shape (n_samples,), or of several labels indicator matrix of shape (n_samples, n_classes)
        Their labels. One that was unseen in fit counts as wrongly predicted, as it is.
    n_bins : int, default=10
        At most one for each prediction.

    Returns
    -------
    Picture
        Bars are the 95 % intervals of Wilson. The ECE stands in the title and in the alternative text.

    Raises
    ------
    ValueError
        If X and y differ in shape, or n_bins is not in [1, number of predictions].
    ImportError
        Without matplotlib.
    """
    several = getattr(model, "multilabel_", False)
    predicted, p = _most_probable(model, X, MOST_LABELS if several else 1)
    right, confidence = _right(model, y, predicted, several=several).ravel(), p.ravel()
    check_number("n_bins", n_bins, low=1, high=len(right), integer=True)
    mean, share, low, high = _core.reliability_bins(confidence, right, n_bins)
    ece = expected_calibration_error((~right).astype(np.int64), np.zeros(len(right), np.int64), confidence)
    with drawing():
        figure, (axes,) = canvas(1, width=4.6, height=4.3)
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
        axes.annotate("right as often as said", (0.05, 0.08), rotation=45, rotation_mode="anchor", color=GREY)
        spans = np.maximum([share - low, high - share], 0)
        axes.errorbar(mean, share, spans, fmt="-o", color=COLOURS[0], elinewidth=1, capsize=2, clip_on=False)
        which = f"each of the first {predicted.shape[1]} labels" if several else "the first label"
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=f"probability given to {which}", ylabel="share that is right")
        axes.set_title(f"Expected calibration error {ece:.3f}")
    pairs = ", ".join(f"{figures(m)} said and {figures(s)} right" for m, s in zip(mean, share, strict=True))
    about = f"Reliability of {len(p):,} rows in {n_bins} bins of equal size, expected calibration error {ece:.3f}"
    return Picture(figure, f"{about}: {pairs}.")


def confusion(model: Classifier, X: Any, y: ArrayLike, *, n_classes: int = 10) -> Picture:
    """Draw the classes that are taken for each other most often, as shares of each one's rows.

    Parameters
    ----------
    model : fitted classifier
        With `predict`, one label a row.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows that were not trained on.
    y : array-like of shape (n_samples,)
        Their labels.
    n_classes : int, default=10
        How many classes to show: those of the pairs (label, prediction) with the most wrong rows.

    Returns
    -------
    Picture
        A row for each label, a column for each prediction, the last column for all classes that are not shown.

    Raises
    ------
    ValueError
        If X and y differ in length or have several labels a row, n_classes is below 2, or no row is wrong.
    ImportError
        Without matplotlib.
    """
    check_number("n_classes", n_classes, low=2, integer=True)
    predicted = np.asarray(model.predict(X))
    if predicted.ndim != 1:
        raise ValueError("the model predicts several labels a row; confusion draws models of one label")
    truth = labels_by_row(y, len(predicted))
    ids, places = sorted_classes(join_labels([truth, predicted]))
    labels, predictions = places.astype(np.int64).reshape(2, -1)
    chosen = _core.most_confused(labels, predictions, n_classes)
    if not len(chosen):
        raise ValueError("every row is predicted right, so that no classes are confused")
    shown: NDArray[Any] = ids[chosen]
    counts = np.zeros((len(shown), len(shown) + 1))
    rows, columns = (find_positions(labels, shown, "y") for labels in (truth, predicted))
    np.add.at(counts, (rows[rows >= 0], columns[rows >= 0]), 1)  # -1, the last column, has all others
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…" for text in map(str, shown.tolist())]
    with drawing():
        side = 1.9 + 0.42 * len(shown)
        figure, (axes,) = canvas(1, width=side + 0.6, height=side)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
        for (i, j), value in np.ndenumerate(shares):
            if value >= 0.005:
                colour = "white" if value > 0.55 else "black"
                axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize=8)
        axes.set_xticks(range(len(shown) + 1), [*names, "others"], rotation=45, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(shown)), names)
        axes.set(xlabel="predicted", ylabel="label", title="Per cent of a label's rows")
        axes.grid(False)
    off = [(shares[i, j], i, j) for i, j in np.ndindex(*counts.shape) if i != j and j < len(shown)]
    worst = [f"{names[i]} for {names[j]} {100 * share:.0f} %" for share, i, j in sorted(off, reverse=True)[:5]]
    return Picture(figure, f"Confusion of {len(shown)} classes, most often: label taken for {'; '.join(worst)}.")


def _most_probable(model: Classifier, X: Any, k: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The most probable labels of each row, and their probabilities."""
    if hasattr(model, "predict_top_k"):
        labels, log_probabilities = model.predict_top_k(X, min(k, len(model.classes_)))
        # Rounding may leave the logarithm of a sure label a little above 0.
        return labels, np.exp(np.minimum(log_probabilities, 0), dtype=np.float64)
    probabilities = np.asarray(model.predict_proba(X))
    best = probabilities.argmax(axis=1)[:, np.newaxis]
    return model.classes_[best], np.take_along_axis(probabilities, best, axis=1).astype(np.float64)


def _right(model: Classifier, y: Any, predicted: NDArray[Any], *, several: bool) -> NDArray[np.bool_]:
    """Which predictions of each row are among its labels, or its label."""
    n_rows, classes = len(predicted), np.asarray(model.classes_)
    places = find_positions(predicted, classes, "y")
    if not several:
        return np.asarray(places == find_positions(labels_by_row(y, n_rows), classes, "y")[:, np.newaxis])
    if np.shape(y) != (n_rows, len(classes)):
        raise ValueError(f"y has shape {np.shape(y)}; of several labels it must be {(n_rows, len(classes))}")
    indicator: Any = sp.csr_array(y)
    return np.asarray(indicator[np.arange(n_rows)[:, np.newaxis], places].toarray() > 0)


# Pictures of measurements

WAYS = {"batch": "a batch, 2 threads", "one_thread": "a batch, 1 thread", "single": "one query at a time"}


def recall_against_speed(records: Iterable[Mapping[str, Any]], *, way: str = "batch") -> Picture:
    """Draw queries per second against the recall of each index; up and to the right is better.

    Parameters
    ----------
    records : iterable of mapping
        A point each: "data"; "index", its name; "recall", in [0, 1]; and, under the name of `way`, microseconds a
        query. bench/results/index_curves.jsonl is of this form.
    way : {"batch", "one_thread", "single"}
        How queries were asked.

    Returns
    -------
    Picture
        A panel for each data set.

    Raises
    ------
    ValueError
        If there are no records, one lacks a field, or `way` is another.
    ImportError
        Without matplotlib.
    """
    check_choice("way", way, tuple(WAYS))
    panels = []
    for data, rows in _by_data(records, ("index", "recall", way)).items():
        series = []
        for name in dict.fromkeys(str(record["index"]) for record in rows):
            points = sorted((float(r["recall"]), 1e6 / float(r[way])) for r in rows if str(r["index"]) == name)
            series.append(Series(name, [x for x, _ in points], [y for _, y in points], "-o"))
        panels.append(Panel(data, series))
    return line_chart(panels, "recall@10 reached", f"queries per second ({WAYS[way]})", log_y=True)


def loss_against_seconds(records: Iterable[Mapping[str, Any]]) -> Picture:
    """Draw the loss that each solver reached by when, at most six lines in a panel, the best first.

    Parameters
    ----------
    records : iterable of mapping
        "data", "method", "seconds" and "loss" (sequences of equal length, in seconds and nats), and, if all have it,
        "best": the smallest loss known on these data, above which the loss is drawn then. bench/results/curves.jsonl is
        of this form.

    Returns
    -------
    Picture
        A panel for each data set and six methods, in the order of what they reach.

    Raises
    ------
    ValueError
        If there are no records, one lacks a field, or its sequences differ in length.
    ImportError
        Without matplotlib.
    """
    groups = _by_data(records, ("method", "seconds", "loss"))
    excess = all("best" in record for curves in groups.values() for record in curves)
    panels = []
    for data, curves in groups.items():
        series = []
        for record in curves:
            lengths = f"{len(record['seconds'])} seconds and {len(record['loss'])} losses"
            if len(record["seconds"]) != len(record["loss"]):
                raise ValueError(f"{data}, {record['method']}: {lengths}; there must be as many")
            above = float(record["best"]) if excess else 0.0
            losses = [None if loss is None else float(loss) - above for loss in record["loss"]]
            series.append(Series(str(record["method"]), list(record["seconds"]), losses))
        panels.append(Panel(data, sorted(series, key=lambda line: np.inf if line.y[-1] is None else line.y[-1])))
    y_label = "nats above the best loss known" if excess else "loss [nats]"
    return line_chart(panels, "seconds of training", y_label, log_x=True, log_y=excess)


def loss_over_time(losses: Mapping[str, Sequence[float]], *, period: str = "day") -> Picture:
    """Draw the loss of the rows of each period, predicted before they were learnt: the prequential log-loss.

    Parameters
    ----------
    losses : mapping of str to sequence of float
        Of each model, by period, in nats; NaN where a period has no rows.
    period : str
        What the data came in, for the axis.

    Returns
    -------
    Picture

    Raises
    ------
    ValueError
        If there are no losses, or models have different numbers of periods.
    ImportError
        Without matplotlib.
    """
    lengths = {name: len(by_period) for name, by_period in losses.items()}
    if not lengths or min(lengths.values()) == 0 or len(set(lengths.values())) > 1:
        raise ValueError(f"losses has the lengths {lengths}; there must be as many, and one at least, of each model")
    series = [Series(str(name), range(1, len(by_period) + 1), by_period) for name, by_period in losses.items()]
    return line_chart([Panel("", series)], period, "prequential log-loss [nats]")


def _by_data(records: Iterable[Mapping[str, Any]], fields: tuple[str, ...]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for number, record in enumerate(records):
        for field in ("data", *fields):
            if field not in record:
                raise ValueError(f"record {number} has no {field!r}; it must have {', '.join(('data', *fields))}")
        groups.setdefault(str(record["data"]), []).append(record)
    if not groups:
        raise ValueError("there are no records to draw")
    return groups


__all__ = ["Picture", *public_names(vars())]
