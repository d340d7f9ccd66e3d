"""Pictures: what they draw is what they were given, names stand apart, colours differ for every reader."""

import itertools
import json
import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import scipy.sparse as sp
from house import ROOT
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, plot
from manyclass.metrics import expected_calibration_error
from manyclass.papers.summary import Plot, write_report
from manyclass.plot.style import COLOURS, DASHES, MOST_LINES, Panel, Series, line_chart

pytest.importorskip("matplotlib")

RESULTS = ROOT / "bench/results"

# Machado, Oliveira & Fernandes, IEEE TVCG 2009: what readers without red, green or blue cones see, in linear RGB.
SEEN = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # IEC 61966-2-1


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear RGB, white being D65."""
    x = TO_XYZ @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest_pair(colours, seen):
    places = [lab(np.asarray(seen) @ linear(colour)) for colour in colours]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(places, 2))


@pytest.mark.parametrize("eyes", SEEN)
def test_no_two_colours_are_alike(eyes):
    # A difference of 2 is just seen side by side; ten times that is told apart from a distance, as names of lines are.
    assert nearest_pair(COLOURS, SEEN[eyes]) > 20
    assert nearest_pair(("#C04F00", "#8A6D00"), SEEN["no green"]) < 20


def test_every_colour_can_be_read_as_text_on_white():
    # 4.5 is what WCAG 2.2 asks of text (1.4.3): (1 + 0.05) / (luminance + 0.05).
    assert all(1.05 / (float(TO_XYZ[1] @ linear(colour)) + 0.05) >= 4.5 for colour in COLOURS)
    assert len(set(COLOURS)) == len(set(DASHES)) == MOST_LINES


def lines_of(figure):
    return [
        {line.get_label(): line.get_xydata().tolist() for line in axes.get_lines() if line.get_label()[0] != "_"}
        for axes in figure.axes
    ]


def names_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_panel_has_at_most_six_lines_and_each_its_name_beside_it():
    series = [Series(f"line {n}", [1, 2], [n + 1, n + 2]) for n in range(14)]
    picture = line_chart([Panel("many", series), Panel("few", series[:2])], "x", "y", log_y=True)
    drawn = lines_of(picture.figure)
    assert [len(some) for some in drawn] == [6, 6, 2, 2]
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == [
        *("many (1 of 3)", "many (2 of 3)", "many (3 of 3)"),
        "few",
    ]
    for axes, some in zip(picture.figure.axes, drawn, strict=True):
        assert names_of(axes) == sorted(some, key=lambda name: -some[name][-1][1])
        looks = {(line.get_color(), str(line.get_linestyle())) for line in axes.get_lines()}
        assert len({colour for colour, _ in looks}) == len(some)
    assert len({axes.get_ylim() for axes in picture.figure.axes[:3]}) == 1
    assert "line 13 15 at 2" in picture.alt


def test_names_stand_beside_the_axes_apart_and_in_the_colours_and_the_order_of_their_lines():
    ends = [1.0, 1.01, 1.02, 7.0, 1.03, 0.1]
    picture = line_chart([Panel("p", [Series(f"ends at {y}", [1, 2], [3.0, y]) for y in ends])], "x", "y")
    picture.figure.draw_without_rendering()  # which lays it out
    (axes,) = picture.figure.axes
    names = axes.get_legend().get_texts()
    assert [name.get_text() for name in names] == [f"ends at {y}" for y in sorted(ends, reverse=True)]
    colours = {line.get_label(): line.get_color() for line in axes.get_lines()}
    assert [name.get_color() for name in names] == [colours[name.get_text()] for name in names]
    boxes = [name.get_window_extent() for name in names]
    assert all(above.y0 >= below.y1 - 1 for above, below in itertools.pairwise(boxes))  # to a pixel of rounding
    assert min(box.x0 for box in boxes) > axes.get_window_extent().x1
    assert max(box.x1 for box in boxes) <= picture.figure.bbox.x1


def test_points_without_a_value_or_a_logarithm_are_left_out():
    series = [Series("a", [1, 2, None, 4], [1.0, None, 2.0, -1.0]), Series("b", [1, 2], [0.0, np.nan])]
    picture = line_chart([Panel("p", series)], "x", "y", log_y=True)
    assert lines_of(picture.figure) == [{"a": [[1.0, 1.0]]}]
    assert line_chart([], "x", "y").alt.startswith("Lines of y against x")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[::2] / 16, y[::2], X[1::2] / 16, y[1::2]


@pytest.fixture(scope="module")
def fitted(digits):
    X, y, _, _ = digits
    return SoftmaxClassifier(solver="implicit", max_iter=6, early_stopping=True, random_state=0).fit(X, y)


def test_the_learning_curve_has_both_losses_and_the_pass_that_was_kept(fitted):
    picture = plot.learning_curve(fitted)
    (drawn,) = lines_of(picture.figure)
    passes = np.arange(1, fitted.n_iter_ + 1)
    np.testing.assert_allclose(drawn["training"], np.c_[passes, fitted.loss_curve_])
    np.testing.assert_allclose(drawn["held out"], np.c_[passes, fitted.validation_curve_])
    assert f"pass {fitted.best_iter_}" in picture.alt


@pytest.mark.parametrize(
    ("estimator", "unit"), [(AugmentReduceClassifier(max_iter=2), "nats"), (MarginClassifier(max_iter=2), "loss")]
)
def test_other_estimators_have_a_learning_curve_in_their_own_unit(estimator, unit, digits):
    picture = plot.learning_curve(estimator.fit(*digits[:2]))
    assert [list(some) for some in lines_of(picture.figure)] == [["training"]]
    assert ("nats" in picture.figure.axes[0].get_ylabel()) == (unit == "nats")


@pytest.mark.parametrize("peer", [False, True])
def test_the_reliability_diagram_has_the_shares_of_its_bins(peer, fitted, digits):
    X, y, X_test, y_test = digits
    model = LogisticRegression().fit(X, y) if peer else fitted
    picture = plot.reliability_diagram(model, X_test, y_test, n_bins=7)
    probabilities = model.predict_proba(X_test)
    said, right = probabilities.max(axis=1), model.classes_[probabilities.argmax(axis=1)] == y_test
    order = np.argsort(said)
    expected = [[said[rows].mean(), right[rows].mean()] for rows in np.array_split(order, 7)]
    points = picture.figure.axes[0].containers[0][0].get_xydata()
    # predict_top_k gives float32 logarithms, so that neighbours may change bins.
    np.testing.assert_allclose(points, expected, atol=1e-5)
    places = np.searchsorted(model.classes_, y_test)
    ece = expected_calibration_error(places, probabilities.argmax(axis=1), said)
    assert f"error {ece:.3f}" in picture.alt


def test_a_label_unseen_in_fit_is_wrongly_predicted(fitted, digits):
    _, _, X_test, y_test = digits
    seen = plot.reliability_diagram(fitted, X_test[:50], y_test[:50], n_bins=1)
    unseen = plot.reliability_diagram(fitted, X_test[:50], np.full(50, 99), n_bins=1)
    assert unseen.figure.axes[0].containers[0][0].get_ydata().tolist() == [0.0]
    assert seen.alt != unseen.alt


def test_the_confusion_is_that_of_the_most_confused_classes(fitted, digits):
    _, _, X_test, y_test = digits
    picture = plot.confusion(fitted, X_test, y_test, n_classes=4)
    axes = picture.figure.axes[0]
    shown = [int(tick.get_text()) for tick in axes.get_yticklabels()]
    matrix = confusion_matrix(y_test, fitted.predict(X_test))
    wrong = matrix - np.diag(np.diag(matrix))
    assert set(np.unravel_index(wrong.argmax(), wrong.shape)) <= set(shown)
    shares = matrix / matrix.sum(axis=1, keepdims=True)
    expected = np.c_[shares[np.ix_(shown, shown)], np.delete(shares[shown], shown, axis=1).sum(axis=1)]
    np.testing.assert_allclose(axes.images[0].get_array(), expected)


def records(name):
    if not RESULTS.exists():
        pytest.skip("a source distribution has no benchmarks")
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text("utf-8").splitlines()]


def test_recall_against_speed_is_that_of_the_records():
    found = records("index_curves")
    drawn = [lines for lines in lines_of(plot.recall_against_speed(found, way="one_thread").figure) if lines]
    panels = list(dict.fromkeys(record["data"] for record in found))
    assert len(drawn) == len(panels) >= 2
    for lines, data in zip(drawn, panels, strict=True):
        assert {"SphericalClusterIndex", "faiss IVFFlat"} <= lines.keys()
        for name, points in lines.items():
            own = [r for r in found if (r["data"], r["index"]) == (data, name)]
            np.testing.assert_allclose(points, sorted((r["recall"], 1e6 / r["one_thread"]) for r in own))


def test_loss_against_seconds_is_above_the_best_known_and_in_order():
    some = [
        {"data": "d", "method": name, "seconds": [1, 2], "loss": [3.0, end], "best": 1.0}
        for name, end in (("slow", 2.5), ("fast", 1.25), ("middle", 1.5))
    ]
    (drawn,) = lines_of(plot.loss_against_seconds(some).figure)
    assert list(drawn) == ["fast", "middle", "slow"]
    assert drawn["fast"] == [[1.0, 2.0], [2.0, 0.25]]


def test_loss_over_time_has_a_line_for_each_model():
    picture = plot.loss_over_time({"once": [1.0, 2.0, 3.0], "daily": [1.0, np.nan, 1.5]}, period="week")
    (drawn,) = lines_of(picture.figure)
    assert drawn == {"once": [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], "daily": [[1.0, 1.0], [3.0, 1.5]]}
    assert picture.figure.axes[0].get_xlabel() == "week"
    assert "daily 1.5 at 3" in picture.alt


def test_a_saved_picture_tells_what_it_shows(fitted, tmp_path):
    picture = plot.learning_curve(fitted)
    picture.save(tmp_path / "p.svg")
    picture.save(tmp_path / "p.png")
    title = ET.parse(tmp_path / "p.svg").getroot().find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == picture.alt
    png = (tmp_path / "p.png").read_bytes()
    assert picture.alt.encode() in png
    assert int.from_bytes(png[16:20], "big") == 1280  # two dots to a pixel of 6.4 inches
    assert re.search(r'<img alt="Lines of loss .*" width="640"', picture.tag())
    assert picture._repr_html_().startswith("<img ")
    plot.learning_curve(fitted).save(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "p.svg").read_bytes()


def test_a_report_has_vector_pictures_with_alternative_texts(tmp_path):
    some = Plot("race", "A caption", "s", "nats", [Panel("d", [Series("a & b", [1, 2], [3, 4])])])
    written = write_report([some], tmp_path, title="t", command="c", machine={}, records=[])
    assert {"race.png", "race.svg", "report.html"} == {path.name for path in written}
    page = (tmp_path / "report.html").read_text("utf-8")
    assert 'src="data:image/svg+xml;base64,' in page
    assert 'alt="A caption. Lines of nats against s' in page
    assert "a &amp; b 4 at 2" in page


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda m, X, y: plot.learning_curve(LogisticRegression().fit(X, y)), "has no loss_curve_"),
        (lambda m, X, y: plot.reliability_diagram(m, X, y[:-1]), r"y has shape \(897,\)"),
        (lambda m, X, y: plot.reliability_diagram(m, X, y, n_bins=0), "n_bins is 0"),
        (lambda m, X, y: plot.confusion(m, X, y, n_classes=1), "n_classes is 1"),
        (lambda m, X, y: plot.confusion(m, X, m.predict(X)), "every row is predicted right"),
        (lambda m, X, y: plot.recall_against_speed([]), "no records"),
        (lambda m, X, y: plot.recall_against_speed([{"data": "d"}]), "record 0 has no 'index'"),
        (lambda m, X, y: plot.recall_against_speed([], way="two"), "way is 'two'; it must be one of 'batch'"),
        (
            lambda m, X, y: plot.loss_against_seconds([{"data": "d", "method": "m", "seconds": [1], "loss": []}]),
            "d, m: 1 seconds and 0 losses",
        ),
        (lambda m, X, y: plot.loss_over_time({}), "there must be as many, and one at least"),
        (lambda m, X, y: plot.loss_over_time({"a": [1.0], "b": [1.0, 2.0]}), r"\{'a': 1, 'b': 2\}"),
        (
            lambda m, X, y: plot.learning_curve(m).save("p.jpg"),
            "'p.jpg' is no name of a picture; it must end in '.svg' or '.png'",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, told, fitted, digits, monkeypatch):
    _, _, X_test, y_test = digits
    with pytest.raises(ValueError, match=told):
        call(fitted, X_test, y_test)


def test_without_matplotlib_the_error_names_the_extra(fitted, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'manyclass\[plot\]'"):
        plot.learning_curve(fitted)


def test_reliability_of_several_labels_is_that_of_their_predictions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)).astype(np.float32)
    Y = (X @ rng.standard_normal((4, 6)) + rng.standard_normal((300, 6)) > 0.5).astype(int)
    model = MarginClassifier(max_iter=2, calibration="temperature", random_state=0).fit(X, Y)
    picture = plot.reliability_diagram(model, X, sp.csr_array(Y), n_bins=7)
    best, log_p = model.predict_top_k(X, 5)
    ece = expected_calibration_error(sp.csr_array(Y), best, np.exp(log_p))
    assert f"expected calibration error {ece:.3f}" in picture.alt
    assert "300 rows in 7 bins" in picture.alt
    assert "first 5 labels" in picture.figure.axes[0].get_xlabel()
    with pytest.raises(ValueError, match=r"y has shape \(300, 5\); .* it must be \(300, 6\)"):
        plot.reliability_diagram(model, X, Y[:, :5])
