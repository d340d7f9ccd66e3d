"""Texts of classes: what they add to scores, their scales by the definition, classes without rows, files, commands."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp
from test_command import run, the_error

from manyclass import SoftmaxClassifier, load
from manyclass.blending.class_texts import ClassScales, ClassTexts, scales_of
from manyclass.classifiers.predictions import state_of
from manyclass.datasets import SequenceEncoder, TextVectorizer
from manyclass.training.plan import Labels
from manyclass.training.state import Features, Points

WORDS = [f"word{i:02}" for i in range(80)]
N_CLASSES, N_UNSEEN = 60, 10
KINDS = ("linear", "pairs", "embedding", "hybrid")


def world(seed, n=900):
    """Names of three words; a row has two of its class's and three of any words. The last classes have no rows."""
    rng = np.random.default_rng(seed)
    names = {f"c{k:02}": " ".join(rng.choice(WORDS, 3, replace=False)) for k in range(N_CLASSES)}

    def rows(labels):
        return [" ".join([*rng.permutation(names[k].split())[:2], *rng.choice(WORDS, 3)]) for k in labels]

    y = rng.choice([*names][:-N_UNSEEN], n, p=rng.dirichlet(np.ones(N_CLASSES - N_UNSEEN)))
    new, unseen = rng.choice(y, 300), rng.choice([*names][-N_UNSEEN:], 100)
    return names, (rows(y), y), (rows(new), new), (rows(unseen), unseen)


@pytest.fixture(scope="module")
def planted():
    return world(0)


@pytest.fixture(scope="module", params=KINDS)
def both(request, planted):
    """A model without and one with texts of classes."""
    names, (texts, y), *_ = planted
    made = SoftmaxClassifier(model=request.param, random_state=0)
    return SoftmaxClassifier(**made.get_params(deep=False)).fit(texts, y), made.fit(texts, y, class_text=names)


def log_losses(model, texts, y):
    return -model.predict_log_proba(texts)[np.arange(len(y)), np.searchsorted(model.classes_, y)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_adds_its_row_to_the_weights_of_its_class(planted, kind):
    _, (texts, y), (new, _), _ = planted
    model = SoftmaxClassifier(model=kind, max_iter=1, n_models=1, random_state=0).fit(texts, y)
    state, x = state_of(model), model.vectorizer_.transform(new)
    K, D = state.n_classes, state.features.n
    rows = sp.random_array((K, D), density=0.1, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    scales = np.linspace(0, 3, K)
    before = state.weights.scores(x, 1)
    texts = ClassTexts(rows, np.ones(K), 0)
    after = ClassScales(scales, 0.0, "").added_to(state, texts).weights.scores(x, 1)
    # Sums of some ten products of single precision, near 10, in another order.
    np.testing.assert_allclose(after, before + (x @ rows.T).toarray() * scales, atol=2e-5)


def test_they_help_where_held_out_rows_say_so(both, planted):
    without, model = both
    _, _, (new, y), (unseen, of_unseen) = planted
    assert len(model.classes_) == N_CLASSES
    np.testing.assert_allclose(model.predict_proba(new).sum(axis=1), 1)
    gain = log_losses(without, new, y) - log_losses(model, new, y)
    counts = "texts count" in model.auto_report_.rules["class_text"]
    assert counts or model.model == "hybrid"  # whose counts know the words of classes, too
    error = gain.std() / np.sqrt(len(gain))
    assert gain.mean() > 3 * error if counts else abs(gain.mean()) < 3 * error
    first = model.predict_top_k(unseen, 5)[0]
    assert np.mean(first == of_unseen[:, np.newaxis]) * 5 > 0.5  # of 60 classes; by chance 0.08


def test_texts_that_say_nothing_do_not_count(planted):
    names, (texts, y), *_ = planted
    seen = np.unique(y)
    others = dict(zip(seen, np.random.default_rng(1).permutation([names[k] for k in seen]), strict=True))
    how = {"model": "linear", "alpha": 1e-3, "solver": "implicit", "random_state": 0}
    told = SoftmaxClassifier(**how).fit(texts, y, class_text=others).auto_report_.rules["class_text"]
    assert told == "texts do not count; only those of classes without rows are rows, too"


def test_scales_have_the_least_loss(planted, seed):
    rng = np.random.default_rng(seed)
    n, k = 80, 12
    counts = np.r_[rng.integers(1, 30, k - 3), 0, 0, 0].astype(float)
    counts[:2] = 1
    ids = rng.integers(0, k - 3, n).astype(np.int32)
    alike = rng.random((n, k)) * (rng.random((n, k)) < 0.5)
    alike[np.arange(n), ids] += rng.random(n)
    z = rng.normal(size=(n, k))
    z[:, -3:] = -3 + 0.5 * alike[:, -3:]
    scores, r = z.astype(np.float32), rng.random(n) + 0.5
    has_text = np.ones(k, bool)
    scales = scales_of(scores, sp.csr_array(alike), Labels.single(ids), counts, r, has_text)
    found = scales.factors
    assert "texts count" in scales.description

    there = alike[:, -3:] > 0
    slope, constant = np.polyfit(alike[:, -3:][there], z[:, -3:][there], 1)

    def loss(scales, new=False):
        u = z + scales * alike
        if new:  # the class of each row as one without rows
            u[np.arange(n), ids] = constant + (slope + scales[-1]) * alike[np.arange(n), ids]
        return logsumexp(u, axis=1) - u[np.arange(n), ids]

    def of(scale, shrinkage, unseen=0.0):
        share = shrinkage / (shrinkage + counts) if np.isfinite(shrinkage) else np.ones(k)
        return np.where(counts > 0, scale * share, unseen)

    grid = [
        (np.average(loss(of(s, c)), weights=r), s, c)
        for c in (0.3, 1, 3, 10, 30, 100, np.inf)
        for s in np.linspace(0, 20, 81)
    ]
    best = np.average(loss(np.where(counts > 0, found, 0)), weights=r)
    assert best < min(grid)[0] + 1e-6  # the grid is coarser than the search
    # Of classes without rows: the sum of both losses, enumerated.
    share = max(0.01, (counts == 1).sum() / counts.sum())
    sums = []
    for unseen in (found[-1], *np.linspace(0, 30, 61)):
        scales = np.where(counts > 0, found, unseen)
        sums.append(np.average((1 - share) * loss(scales) + share * loss(scales, new=True), weights=r))
    assert sums[0] < min(sums[1:]) + 1e-6


def test_a_row_that_is_the_text_of_its_class_tells_nothing(planted):
    names, (texts, y), *_ = planted
    model = SoftmaxClassifier(model="pairs", max_iter=1, n_models=1, random_state=0).fit(texts, y)
    rows = model.vectorizer_.transform([names[label] for label in model.classes_])
    labels = Labels.single(np.arange(len(model.classes_), dtype=np.int32))
    held = Points(rows, labels, model.classes_, Features(rows.shape[1], None))
    with pytest.raises(ValueError, match=r"class_text needs 20 rows that are held out .* there are 0"):
        ClassTexts(rows, np.ones(len(model.classes_)), 0).scales(state_of(model), held, 1)


def test_a_saved_model_has_them_and_learns_on(both, planted, tmp_path):
    _, model = both
    _, (texts, y), (new, _), (unseen, of_unseen) = planted
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    if loaded.model == "embedding":  # which has weights on pairs beside it now
        with pytest.raises(ValueError, match="partial_fit goes on with the model that is there"):
            loaded.partial_fit(unseen, of_unseen)
        return
    before = np.mean(log_losses(loaded, unseen[:50], of_unseen[:50]))
    loaded.partial_fit([*unseen[50:], *texts[:50]], np.r_[of_unseen[50:], y[:50]])
    assert np.mean(log_losses(loaded, unseen[:50], of_unseen[:50])) < before


def test_rows_of_texts_may_be_given_beside_rows(planted):
    names, (texts, y), (new, _), _ = planted
    vectorizer = TextVectorizer().fit([*texts, *names.values()])
    how = {"model": "pairs", "random_state": 0}
    model = SoftmaxClassifier(**how).fit(texts, y, class_text=names)
    of_rows = vectorizer.transform([*names.values()])
    other = SoftmaxClassifier(**how).fit(vectorizer.transform(texts), y, class_text=([*names], of_rows))
    np.testing.assert_array_equal(other.predict_proba(vectorizer.transform(new)), model.predict_proba(new))


def test_texts_that_share_no_term_with_rows_change_nothing_and_a_warning_says_so(planted):
    names, (texts, y), (new, _), _ = planted
    vectorizer = TextVectorizer().fit([*texts, *(f"other{k}" for k in range(N_CLASSES))])
    of_texts = vectorizer.transform([f"other{k}" for k in range(N_CLASSES)])
    X, seen = vectorizer.transform(texts), np.unique(y)
    plain = SoftmaxClassifier(random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="no text of class_text has a feature that a row has"):
        model = SoftmaxClassifier(random_state=0).fit(X, y, class_text=(seen, of_texts[: len(seen)]))
    rows = vectorizer.transform(new)
    np.testing.assert_array_equal(model.predict_proba(rows), plain.predict_proba(rows))
    with pytest.warns(UserWarning, match="the model is as without them"):
        model = SoftmaxClassifier(random_state=0).fit(X, y, class_text=([*names], of_texts))
    assert len(model.classes_) == N_CLASSES > len(seen)


def test_several_labels_have_columns_for_classes_without_rows(planted):
    names, (texts, y), _, (unseen, of_unseen) = planted
    Y = (np.asarray(y)[:, np.newaxis] == np.array([*names])).astype(int)
    Y[np.arange(len(y)), np.random.default_rng(0).integers(N_CLASSES - N_UNSEEN, size=len(y))] = 1
    numbered = dict(enumerate(names.values()))
    model = SoftmaxClassifier(random_state=0).fit(texts, Y, class_text=numbered)
    plain = SoftmaxClassifier(random_state=0).fit(texts, Y)
    wanted = np.searchsorted([*names], of_unseen)[:, np.newaxis]
    hits = [np.mean((one.predict_top_k(unseen, 10)[0] == wanted).any(axis=1)) for one in (plain, model)]
    assert hits[1] > hits[0] + 0.3
    with pytest.raises(ValueError, match="class_text has 60, which is no column of y"):
        SoftmaxClassifier().fit(texts, Y, class_text={**numbered, 60: "more"})


def test_with_calibration_and_several_runs(planted):
    names, (texts, y), (new, of_new), _ = planted
    model = SoftmaxClassifier(model="linear", calibration="temperature", n_models=2, random_state=0, solver="implicit")
    model.fit(texts, y, class_text=names)
    assert model.calibration_.log_loss <= model.calibration_.uncalibrated_log_loss
    assert len(model.classes_) == N_CLASSES
    assert np.isfinite(log_losses(model, new, of_new)).all()


def test_what_does_not_fit_is_refused(planted):
    _, (texts, y), *_ = planted
    X = TextVectorizer().fit_transform(texts)
    for data, given, error, told in (
        ((texts, y), {"c00": 3}, TypeError, r"class_text\['c00'\] is a int; it must be a str"),
        ((texts, y), ["a"], TypeError, "class_text is a list; it must be a mapping of labels to texts"),
        ((X, y), {"c00": "a"}, ValueError, "class_text has texts, and X is a csr_array"),
        ((X, y), (["c00"], X[:2]), ValueError, r"class_text has 1 labels and rows of shape \(2, "),
        ((texts[:30], y[:30]), {"c00": texts[0]}, ValueError, "class_text needs 20 rows"),
    ):
        with pytest.raises(error, match=told):
            SoftmaxClassifier(random_state=0).fit(*data, class_text=given)
    with pytest.raises(ValueError, match="class_text is given, which is for texts at once, and not for a stream"):
        SoftmaxClassifier().fit([(texts, y)], class_text={"c00": "a"})
    model = SoftmaxClassifier(model="linear", warm_start=True, max_iter=1).fit(texts, y)
    with pytest.raises(ValueError, match="warm_start is True, which cannot be with class_text"):
        model.fit(texts, y, class_text={"c00": "a"})


def test_the_command_line_gives_what_python_gives(planted, tmp_path, capsys):
    names, (texts, y), (new, _), _ = planted
    (tmp_path / "d.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in zip(texts, y, strict=True)))
    (tmp_path / "names.tsv").write_text("".join(f"{label}\t{name}\n" for label, name in names.items()))
    fit = ("fit", tmp_path / "d.tsv", "--text", "--output", tmp_path / "m", "--random-state", 0)
    run(*fit, "--model", "pairs", "--class-text", tmp_path / "names.tsv")
    expected = SoftmaxClassifier(model="pairs", random_state=0).fit(texts, y, class_text=names)
    np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(new), expected.predict_proba(new))
    run(*fit, "--labels", "all", "--class-text", tmp_path / "names.tsv")
    assert load(tmp_path / "m").classes_.tolist() == [*names]
    capsys.readouterr()
    given = ("--class-text", tmp_path / "names.tsv")
    assert "--class-text is for --estimator softmax" in the_error(capsys, *fit, *given, "--estimator", "margin")
    assert "cannot be with class_text" in the_error(capsys, *fit, *given, "--checkpoint", tmp_path / "c")
    (tmp_path / "names.tsv").write_text("c00 no tab\n")
    assert ":1: 'c00 no tab' is not a label, a tab, and its text" in the_error(capsys, *fit, *given)


def test_items_that_nobody_has_taken_are_offered_by_their_features(seed):
    """Histories, features of the items beside them, and rows of these features for all items, cold ones too."""
    rng, n_groups, group = np.random.default_rng(seed), 6, np.arange(60) % 6
    items, is_cold, features = np.arange(60), np.arange(60) >= 54, np.eye(6, dtype=np.float32)[group]
    warm = [np.flatnonzero((group == g) & ~is_cold) for g in range(n_groups)]
    visits = [rng.choice(warm[rng.integers(n_groups)], 6).tolist() for _ in range(400)]
    encoder = SequenceEncoder().fit(visits)
    rows = encoder.next_items(visits)

    def with_features(X):
        return sp.csr_array(sp.hstack([X, X @ features[encoder.items_]]))

    of_items = sp.csr_array(sp.hstack([sp.csr_array((60, len(encoder.items_))), features]))
    model = SoftmaxClassifier(random_state=0)
    model.fit(with_features(rows.X), encoder.items_[rows.y], class_text=(items, of_items))
    asked = with_features(encoder.transform([[int(some[0])] for some in warm]))
    labels, _ = model.predict_top_k(asked, 1, among=items[is_cold])
    np.testing.assert_array_equal(group[labels[:, 0]], np.arange(n_groups))
