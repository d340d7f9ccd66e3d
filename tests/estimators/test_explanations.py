"""What features add to a score: by the definition, with every kind of model, and on the command line."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, load, models
from manyclass.__main__ import main
from manyclass.classifiers.predictions import state_of, with_state
from manyclass.weights.arrays import Mixture

N, D, K = 240, 12, 4
KINDS = {
    "linear": SoftmaxClassifier(model="linear", solver="implicit", max_iter=3, random_state=0),
    "optimum": SoftmaxClassifier(solver="lbfgs", alpha=1e-2),
    "pairs": SoftmaxClassifier(model="pairs", max_iter=3, random_state=0),
    "embedding": SoftmaxClassifier(model="embedding", dim=5, max_iter=3, random_state=0),
    "relu": SoftmaxClassifier(model=models.Embedding(activation="relu"), dim=16, max_iter=20, random_state=0),
    "hybrid": SoftmaxClassifier(model="hybrid", dim=5, max_iter=3, random_state=0),
    "several": SoftmaxClassifier(model="hybrid", dim=5, max_iter=3, random_state=0),
    "margin": MarginClassifier(max_iter=3, random_state=0),
    "probit": AugmentReduceClassifier(max_iter=3, random_state=0),
}


def planted(seed, *, dense=False):
    """Rows of some features, of which the first K tell the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=N)
    X = (rng.random((N, D)) < 0.3) * rng.uniform(0.5, 2, size=(N, D))
    X[np.arange(N), y] = 2
    return (X.astype(np.float32) if dense else sp.csr_array(X, dtype=np.float32)), y


@pytest.fixture(scope="module", params=[*KINDS, "dense", "half", "byte"])
def fitted(request):
    kind = request.param
    X, y = planted(0, dense=kind == "dense")
    estimator = KINDS[{"dense": "optimum", "half": "hybrid", "byte": "embedding"}.get(kind, kind)]
    model = estimator.fit(X, np.eye(K, dtype=int)[y] if kind == "several" else y)
    small = {"half": "float16", "byte": "int8"}.get(kind)
    return (model if small is None else model.compress(dtype=small)), X


def test_parts_of_an_explanation_sum_to_the_score(fitted):
    model, X = fitted
    scores = model.decision_function(X[:20])
    others = np.arange(20) % K
    told = model.explain(X[:20], 2)
    odds = model.explain(X[:20], 2, labels=others, against=(others + 1) % K)
    # Sums in single precision of a dozen numbers; embeddings in bytes are summed in whole numbers.
    rtol = 2e-5 * float(np.abs(scores).max())
    for i, (one, two) in enumerate(zip(told, odds, strict=True)):
        assert one.label == scores[i].argmax()
        assert one.intercept + one.contributions.sum() + one.others + one.counts == pytest.approx(one.score, abs=1e-9)
        assert one.score == pytest.approx(scores[i, one.label], abs=rtol)
        assert two.score == pytest.approx(scores[i, others[i]] - scores[i, (others[i] + 1) % K], abs=2 * rtol)
        assert len(one.features) == min(2, np.count_nonzero(X[[i]].toarray() if sp.issparse(X) else X[i]))


def test_a_contribution_is_what_the_score_loses_without_the_feature(fitted):
    model, X = fitted
    if state_of(model).weights.relu or state_of(model).weights.mixture.is_on:
        return  # whose scores are no sums over features
    dense = X[:10].toarray() if sp.issparse(X) else X[:10]
    scores = model.decision_function(X[:10])
    for i, one in enumerate(model.explain(X[:10], D)):
        assert (one.others, one.counts) == (pytest.approx(0, abs=1e-9), 0)
        assert np.all(np.diff(np.abs(one.contributions)) <= 0)  # those that matter most come first
        for j, added in zip(one.features, one.contributions, strict=True):
            without = dense[[i]].copy()
            without[0, j] = 0
            lost = scores[i, one.label] - model.decision_function(without)[0, one.label]
            assert added == pytest.approx(lost, abs=4e-5 * float(np.abs(scores).max()))


def test_a_relu_is_explained_in_the_places_where_the_row_is_above_zero():
    X, y = planted(1)
    model = KINDS["relu"].fit(X, y)
    hidden = X.toarray() @ model.embedding_
    for i, one in enumerate(model.explain(X[:10], D)):
        gate = hidden[i] > 0
        expected = X[[i]].toarray()[0] * (model.embedding_ @ (model.coef_[one.label] * gate))
        np.testing.assert_allclose(one.contributions, expected[one.features], rtol=1e-5, atol=1e-6)


def test_features_of_a_class_are_those_whose_score_alone_is_largest(fitted):
    model, _ = fitted
    alone = model.decision_function(sp.eye_array(D, format="csr", dtype=np.float32)) - model.intercept_
    if state_of(model).weights.mixture.is_on:
        return
    for k in range(K):
        features, weights = model.top_features(k, 5)
        np.testing.assert_allclose(weights, np.sort(alone[:, k])[::-1][:5], atol=4e-5 * np.abs(alone).max())
        np.testing.assert_allclose(alone[features, k], weights, atol=4e-5 * np.abs(alone).max())


def test_the_planted_feature_of_a_class_comes_first(fitted):
    model, _ = fitted
    assert [model.top_features(k, 1)[0].tolist() for k in range(K)] == [[k] for k in range(K)]


def test_what_a_mixture_adds_is_told_beside_features():
    X, y = planted(2)
    model = KINDS["hybrid"].fit(X, y)
    plain, state = model.decision_function(X[:5]).astype(float), state_of(model)
    weights = replace(state.weights, mixture=Mixture())
    counts, totals = np.ones(len(weights.classes), np.float32), np.diff(weights.indptr).astype(np.float32)
    weights = replace(weights, counts=counts, totals=totals, mixture=Mixture(0.4, 2.0, counts_own=True))
    mixed = with_state(model, replace(state, weights=weights))
    scores = mixed.decision_function(X[:5])
    for i, one in enumerate(mixed.explain(X[:5])):
        assert one.counts == pytest.approx(scores[i, one.label] - plain[i, one.label], abs=1e-5)
        assert one.counts != 0
        assert one.score == pytest.approx(float(scores[i].max()), abs=1e-5)


def test_names_are_those_of_columns_and_terms_and_labels_those_of_the_user(tmp_path, capsys):
    frame = pd.DataFrame(planted(0)[0].toarray(), columns=[f"f{j}" for j in range(D)])
    y = np.array(["ant", "bee", "cow", "dog"])[planted(0)[1]]
    model = SoftmaxClassifier(solver="lbfgs", alpha=1e-2).fit(frame, y)
    assert model.top_features("bee", 1)[0].tolist() == ["f1"]
    assert model.explain(frame[:1], 1)[0].features.tolist() == [f"f{planted(0)[1][0]}"]
    texts = ["red apple", "green pear", "fast car", "slow truck"] * 5
    of_texts = SoftmaxClassifier().fit(texts, ["food", "food", "cars", "cars"] * 5)
    assert set(of_texts.top_features("food", 4)[0]) == {"red", "apple", "green", "pear"}
    (one,) = of_texts.explain(["a red truck"], labels=["food"], against=["cars"])
    assert dict(zip(one.features, np.sign(one.contributions), strict=True)) == {"red": 1, "truck": -1}
    of_texts.save(tmp_path / "m")
    assert main(["explain", str(tmp_path / "m"), "--label", "food", "-k", "4"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {name for name, _ in lines} == {"red", "apple", "green", "pear"}
    (tmp_path / "new.txt").write_text("a red truck\nred apple\n")
    assert main(["explain", str(tmp_path / "m"), str(tmp_path / "new.txt")]) == 0
    label, score, *parts = capsys.readouterr().out.splitlines()[1].split("\t")
    assert label == "food"
    assert parts[::2] == ["apple", "red", "intercept"] or parts[::2] == ["red", "apple", "intercept"]
    assert float(score) == pytest.approx(sum(map(float, parts[1::2])), abs=1e-4)  # six digits are printed
    assert load(tmp_path / "m").explain(["red apple"])[0].score == pytest.approx(float(score), abs=1e-4)
    assert main(["explain", str(tmp_path / "m")]) == 2
    assert "give DATA, or a --label" in capsys.readouterr().err


def test_what_cannot_be_explained_is_an_error():
    X, y = planted(0)
    model = KINDS["linear"].fit(X, y)
    with pytest.raises(ValueError, match="label"):
        model.top_features(9)
    with pytest.raises(ValueError, match="k is 0"):
        model.explain(X[:2], 0)
    with pytest.raises(ValueError, match=r"X has 2 rows, y has shape \(1,\)"):
        model.explain(X[:2], labels=[0])
