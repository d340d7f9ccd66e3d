"""Histories as rows, and next items as labels: by a slow definition, over logs, and with the model that knows them."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import SoftmaxClassifier, load, models
from manyclass.datasets import SequenceEncoder
from manyclass.metrics import coverage_at_k, mrr_at_k

ITEMS = {
    "text": list("abcdefgh"),
    "numbers": [10, 11, 12, 13, 14, 15, 2**53 + 1, 2**53 + 2],
    "dates": np.arange("2020-01", "2020-09", dtype="M8[M]").tolist(),
}


def some_sequences(rng, items):
    return [[items[j] for j in rng.integers(0, len(items), n)] for n in rng.integers(0, 9, 30)]


def by_definition(history, items, n_last, decay):
    row = np.zeros(len(items))
    known = [item for item in history if item in items]
    for back, item in enumerate(known[::-1][:n_last]):
        row[items.index(item)] += (1 + back) ** -decay
    return row / max(np.linalg.norm(row), 1e-30)


@pytest.mark.parametrize("kind", list(ITEMS))
@pytest.mark.parametrize(
    ("n_last", "decay", "min_count", "n_first"), [(20, 1.0, 1, 1), (3, 0.0, 14, 2), (1, 2.5, 1, 3)]
)
def test_rows_and_next_items_are_those_of_the_definition(kind, n_last, decay, min_count, n_first, seed):
    rng = np.random.default_rng(seed)
    sequences = some_sequences(rng, ITEMS[kind])
    encoder = SequenceEncoder(n_last=n_last, decay=decay, min_count=min_count).fit(sequences)
    every = [item for one in sequences for item in one]
    items = sorted({item for item in every if every.count(item) >= min_count})
    assert encoder.items_.tolist() == items
    np.testing.assert_allclose(
        encoder.transform(sequences).toarray(),
        [by_definition(one, items, n_last, decay) for one in sequences],
        rtol=1e-6,  # values are single precision
    )
    rows, at = encoder.next_items(sequences, n_first=n_first), 0
    for number, one in enumerate(sequences):
        for end in range(n_first, len(one)):
            if one[end] not in items or not set(one[:end]) & set(items):
                continue
            np.testing.assert_allclose(
                rows.X[[at]].toarray()[0], by_definition(one[:end], items, n_last, decay), rtol=1e-6
            )
            assert items[rows.y[at]] == one[end]
            assert rows.sequence[at] == number
            at += 1
    assert at == len(rows.y) == rows.X.shape[0]
    np.testing.assert_array_equal(
        encoder.transform([sequences[3]]).toarray(), encoder.transform(sequences)[[3]].toarray()
    )


@pytest.mark.parametrize(
    ("memory", "length", "n_last", "decays"),
    [(1, 8, 20, [1.5, 2.0]), (20, 8, 20, [0.0, 0.5]), (100, 100, 60, [0.0, 0.5])],
)
def test_the_memory_is_that_of_the_sequences(memory, length, n_last, decays, seed):
    """Next items mostly follow the last item alone, or any of the last ones alike: the ends of what is tried."""
    rng = np.random.default_rng(seed)
    follows, sequences = rng.permutation(60), []
    for _ in range(1200 if length < 20 else 150):
        one = [*rng.integers(60, size=5)]  # of a long history most of what counts is long ago
        while len(one) < length:
            last = one[-1 - rng.integers(min(len(one), memory))] if memory < 100 else one[rng.integers(5)]
            one.append(follows[last] if rng.random() < 0.5 else rng.integers(60))
        sequences.append(one)
    encoder = SequenceEncoder().fit(sequences)
    assert encoder.decay_ in decays
    assert encoder.n_last_ >= n_last
    encoder = SequenceEncoder(decay=0.7, n_last=3).fit(sequences)
    assert (encoder.n_last_, encoder.decay_) == (3, 0.7)
    few = SequenceEncoder().fit(sequences[:49])
    assert (few.n_last_, few.decay_) == (20, 1.0)  # too few to tell


def test_labels_begin_where_each_sequence_says():
    encoder = SequenceEncoder().fit([["a", "b", "c"]])
    rows = encoder.next_items([["a", "b", "c"], ["c", "z", "b"], ["b"]], n_first=[2, 1, 1])
    assert encoder.items_[rows.y].tolist() == ["c", "b"]
    assert rows.sequence.tolist() == [0, 1]
    with pytest.raises(ValueError, match="one for each of 1 sequences"):
        encoder.next_items([["a", "b"]], n_first=[1, 1])


@pytest.mark.parametrize("kind", list(ITEMS))
def test_items_that_come_later_get_columns_behind_the_others(kind, seed):
    items, rng = ITEMS[kind], np.random.default_rng(seed)
    early, late = some_sequences(rng, items[2:5]), some_sequences(rng, items)
    encoder = SequenceEncoder().partial_fit(early)
    before = encoder.items_.tolist()
    rows = encoder.transform(early)
    encoder.partial_fit(late)
    found = encoder.items_.tolist()
    assert found[: len(before)] == before
    assert found[len(before) :] == sorted(set(items) - set(before))
    np.testing.assert_array_equal(encoder.transform(early).toarray()[:, : len(before)], rows.toarray())
    for row, one in zip(encoder.transform(late).toarray(), late, strict=True):
        np.testing.assert_allclose(row, by_definition(one, found, 20, 1.0), rtol=1e-6)
    assert encoder.partial_fit(early).items_.tolist() == found


def test_items_that_the_fit_had_not_are_left_out():
    encoder = SequenceEncoder().fit([["a", "b"]])
    rows = encoder.transform([["a", "z", "b", "y"], ["z"], []]).toarray()
    np.testing.assert_allclose(rows, [[0.2**0.5, 0.8**0.5], [0, 0], [0, 0]], rtol=1e-6)


def test_sequences_of_a_log_are_in_the_order_of_times():
    users, items = ["b", "a", "b", "a", "b"], [1, 2, 3, 4, 5]
    sequences, whose = SequenceEncoder.sequences_of(users, items)
    assert [one.tolist() for one in sequences] == [[2, 4], [1, 3, 5]]
    assert whose.tolist() == ["a", "b"]
    sequences, whose = SequenceEncoder.sequences_of(users, items, [9, 5, 1, 0, 2], gap=4)
    assert [one.tolist() for one in sequences] == [[4], [2], [3, 5], [1]]
    assert whose.tolist() == ["a", "a", "b", "b"]
    days = np.array(["2020-01-09", "2020-01-05", "2020-01-01", "2020-01-01", "2020-01-02"], dtype="M8[D]")
    by_days, _ = SequenceEncoder.sequences_of(users, items, days, gap=4 * 86_400)
    assert [one.tolist() for one in by_days] == [[4, 2], [3, 5], [1]]


def test_an_empty_log_has_no_sequences():
    sequences, whose = SequenceEncoder.sequences_of(np.array([], dtype=str), np.array([], dtype=int))
    assert sequences == []
    assert len(whose) == 0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: SequenceEncoder().fit([]), "no items"),
        (lambda: SequenceEncoder().fit(["abc"]), "sequence 0 is 'abc'"),
        (lambda: SequenceEncoder().fit([["a", 1]]), "labels must be of one kind"),
        (lambda: SequenceEncoder().fit([[["a"]]]), "sequence 0"),
        (lambda: SequenceEncoder(min_count=2).fit([["a", "b"]]), "min_count"),
        (lambda: SequenceEncoder(n_last=0).fit([["a"]]), "n_last"),
        (lambda: SequenceEncoder(decay=-1.0).fit([["a"]]), "decay"),
        (lambda: SequenceEncoder(decay="best").fit([["a"]]), "decay is 'best'"),
        (lambda: SequenceEncoder().fit([["a"]]).transform([[1]]), "numbers"),
        (lambda: SequenceEncoder().fit([["a"]]).next_items([["a"]], n_first=0), "n_first"),
        (lambda: SequenceEncoder.sequences_of([1], [1, 2]), "1 users, 2 items"),
        (lambda: SequenceEncoder.sequences_of([1], [1], [np.nan]), "finite"),
        (lambda: SequenceEncoder.sequences_of([1], [1], gap=1.0), "gap"),
    ],
)
def test_what_is_no_sequence_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_a_model_of_next_items_excludes_what_was_seen(seed):
    rng = np.random.default_rng(seed)
    follows = rng.permutation(40)
    sequences = []
    for _ in range(300):
        one = [rng.integers(40)]
        for _ in range(5):
            one.append(follows[one[-1]] if rng.random() < 0.9 else rng.integers(40))
        sequences.append([f"item {j:02d}" for j in one])
    encoder = SequenceEncoder().fit(sequences)
    rows = encoder.next_items(sequences)
    model = SoftmaxClassifier(model=models.Hybrid(), dim=8, n_models=1, max_iter=3, random_state=seed)
    model.fit(rows.X, rows.y)
    histories = [["item 03"], ["item 03", f"item {follows[3]:02d}"]]
    found, log_p = model.predict_top_k(encoder.transform(histories), 3, exclude="seen")
    lists, same = model.predict_top_k(
        encoder.transform(histories), 3, exclude=[np.flatnonzero(row) for row in encoder.transform(histories).toarray()]
    )
    np.testing.assert_array_equal(found, lists)
    np.testing.assert_array_equal(log_p, same)
    assert found[0, 0] == follows[3]
    assert found[1, 0] == follows[follows[3]]
    dense, _ = model.predict_top_k(encoder.transform(histories).toarray(), 3, exclude="seen")
    np.testing.assert_array_equal(dense, found)


def test_seen_needs_classes_that_are_columns(seed):
    X = np.eye(3, dtype=np.float32).repeat(5, 0)
    model = SoftmaxClassifier(random_state=seed).fit(X, np.array(["a", "b", "c"]).repeat(5))
    with pytest.raises(ValueError, match="columns of X"):
        model.predict_top_k(X, 1, exclude="seen")
    with pytest.raises(ValueError, match=r"exclude is 'had'"):
        model.predict_top_k(X, 1, exclude="had")


def test_reciprocal_ranks_and_coverage(seed):
    rng = np.random.default_rng(seed)
    truth = [np.flatnonzero(rng.random(20) < 0.1).tolist() for _ in range(50)]
    predicted = np.argsort(rng.random((50, 20)), axis=1)[:, :7]
    for k in (1, 4, 7):
        places = [
            next((1 / (j + 1) for j in range(k) if row[j] in own), 0.0)
            for row, own in zip(predicted, truth, strict=True)
        ]
        assert mrr_at_k(truth, predicted, k) == pytest.approx(np.mean(places))
        assert coverage_at_k(predicted, 20, k) == len(set(predicted[:, :k].ravel().tolist())) / 20
    assert coverage_at_k([[1, -1], [-1, -1]], 4, 2) == 0.25
    for wrong, error in (([[4]], ValueError), ([[0.5]], TypeError), ([0], ValueError), ([[-2]], ValueError)):
        with pytest.raises(error, match="predicted"):
            coverage_at_k(wrong, 4, 1)


def test_rows_are_a_csr_array_of_floats():
    rows = SequenceEncoder().fit_transform([["a", "b"]])
    assert isinstance(rows, sp.csr_array)
    assert rows.dtype == np.float32


def chains(rng, items, n=300, length=6):
    """Sequences in which most items follow each other in a fixed order."""
    follows, sequences = rng.permutation(len(items)), []
    for _ in range(n):
        one = [rng.integers(len(items))]
        while len(one) < length:
            one.append(follows[one[-1]] if rng.random() < 0.9 else rng.integers(len(items)))
        sequences.append([items[j] for j in one])
    return sequences, follows


def small(**more):
    return SoftmaxClassifier(model=models.Hybrid(), dim=8, n_models=1, max_iter=3, random_state=0, **more)


@pytest.mark.parametrize("kind", list(ITEMS))
def test_a_model_takes_sequences_and_answers_for_histories(kind, seed, tmp_path):
    items = ITEMS[kind]
    sequences, follows = chains(np.random.default_rng(seed), items)
    model = small().fit(sequences, vectorizer=SequenceEncoder())
    encoder = SequenceEncoder().fit(sequences)
    rows = encoder.next_items(sequences)
    by_rows = small().fit(rows.X, rows.y)
    histories = [[items[1]], [items[0], items[2]]]
    X = encoder.transform(histories)
    np.testing.assert_array_equal(model.predict_log_proba(histories), by_rows.predict_log_proba(X))
    assert model.classes_.tolist() == items
    assert model.predict(histories).tolist() == [items[follows[1]], items[follows[2]]]
    found, log_p = model.predict_top_k(histories, 3, exclude="seen")
    numbers, same = by_rows.predict_top_k(X, 3, exclude="seen")
    assert found.tolist() == encoder.items_[numbers].tolist()
    np.testing.assert_array_equal(log_p, same)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_top_k(histories, 3, exclude="seen")[1], log_p)
    assert loaded.vectorizer_.get_params() == model.vectorizer_.get_params()
    assert loaded.evaluate(histories, found[:, 0])["n_unseen"] == 0


def test_a_model_of_sequences_goes_on_with_new_items(seed, tmp_path):
    rng = np.random.default_rng(seed)
    sequences, _ = chains(rng, list("bcdef"))
    model = small().fit(sequences, vectorizer=SequenceEncoder())
    before = model.predict_log_proba([["b"], ["c"]])
    model.save(tmp_path / "model")
    later, follows = chains(rng, list("abcdefg"), 600)
    for goes_on in (model, load(tmp_path / "model")):
        goes_on.partial_fit(later, n_passes=5)
        assert goes_on.vectorizer_.items_.tolist() == list("bcdefag")
        assert goes_on.classes_.tolist() == list("abcdefg")
        assert goes_on.predict([["a"], ["g"]]).tolist() == ["abcdefg"[follows[0]], "abcdefg"[follows[6]]]
        assert "a" not in goes_on.predict_top_k([["a"]], 6, exclude="seen")[0]
    assert before.shape == (2, 5)
    # Histories with labels of a caller's own teach no new columns.
    model.partial_fit([["z", "b"]], ["c"])
    assert len(model.vectorizer_.items_) == 7


def test_weights_of_sequences_are_those_of_their_rows(seed):
    rng = np.random.default_rng(seed)
    sequences, _ = chains(rng, list("abcd"), 60)
    weights = rng.integers(0, 3, 60).astype(float)
    model = small().fit(sequences, sample_weight=weights, vectorizer=SequenceEncoder())
    encoder = SequenceEncoder().fit(sequences)
    rows = encoder.next_items(sequences)
    by_rows = small().fit(rows.X, rows.y, sample_weight=weights[rows.sequence])
    np.testing.assert_array_equal(model.predict_proba(sequences), by_rows.predict_proba(encoder.transform(sequences)))
    with pytest.raises(ValueError, match="60 sequences"):
        small().fit(sequences, sample_weight=weights[:3], vectorizer=SequenceEncoder())
    for X in (np.eye(3), [], iter(sequences), ["a text"]):
        with pytest.raises(ValueError, match="a list of lists of items"):
            small().fit(X, [0, 1, 2], vectorizer=SequenceEncoder())
    with pytest.raises(ValueError, match="none of 2 sequences"):
        small().fit([["a"], ["b"]], vectorizer=SequenceEncoder())
    with pytest.raises(ValueError, match="it must be a list of histories"):
        model.predict(["a", "b"])


def test_a_damaged_encoder_is_refused(seed, tmp_path):
    sequences, _ = chains(np.random.default_rng(seed), list("abcd"), 60)
    model = small().fit(sequences, vectorizer=SequenceEncoder())
    model.vectorizer_ = SequenceEncoder().fit([list("abc")])
    with pytest.raises(ValueError, match="3 columns; the model has 4"):
        model.save(tmp_path / "model")


def test_features_of_users_and_items_stand_beside_the_items(seed):
    """Columns behind those of the items are no classes, and items keep their repeats and what was seen."""
    rng = np.random.default_rng(seed)
    sequences, _ = chains(rng, list("abcdef"), 200)
    encoder = SequenceEncoder().fit(sequences)
    rows = encoder.next_items(sequences)
    of_users = sp.csr_array(np.eye(3)[rng.integers(0, 3, 200)])
    of_items = sp.csr_array(np.eye(2)[[0, 0, 0, 1, 1, 1]])
    X = sp.hstack([rows.X, of_users[rows.sequence], rows.X @ of_items], format="csr")
    model = small().fit(X, rows.y)
    assert model.n_features_in_ == 11
    histories = encoder.transform([["a"], ["b", "c"]])
    asked = sp.hstack([histories, of_users[:2], histories @ of_items], format="csr")
    found, _ = model.predict_top_k(asked, 4, exclude="seen")
    assert 0 not in found[0]
    assert not {1, 2} & set(found[1].tolist())


def test_a_log_larger_than_memory_is_a_stream_of_users(seed):
    """Parts of some users each, by an encoder that has seen the items once, learn what all at once do."""
    rng = np.random.default_rng(seed)
    sequences, follows = chains(rng, list(range(12)), 600)
    encoder = SequenceEncoder(decay=1.0)
    for at in range(0, 600, 100):
        encoder.partial_fit(sequences[at : at + 100])
    assert sorted(encoder.items_.tolist()) == list(range(12))

    def parts():
        for at in range(0, 600, 100):
            rows = encoder.next_items(sequences[at : at + 100])
            yield rows.X, encoder.items_[rows.y]

    model = small().partial_fit(parts(), classes=encoder.items_)
    model.vectorizer_ = encoder
    assert model.predict([[3], [7]]).tolist() == [follows[3], follows[7]]


@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_lists_and_arrays_of_items_are_the_same(kind, seed):
    given = some_sequences(np.random.default_rng(seed), ITEMS[kind])
    of_lists, of_arrays = (SequenceEncoder().fit(one) for one in (given, [np.array(one) for one in given if one]))
    np.testing.assert_array_equal(of_lists.items_, of_arrays.items_)
    assert of_lists.items_.dtype == of_arrays.items_.dtype
    rows, others = of_lists.next_items(given), of_arrays.next_items([np.array(one) for one in given if one])
    np.testing.assert_array_equal(rows.y, others.y)
    np.testing.assert_array_equal(rows.X.toarray(), others.X.toarray())


def test_nothing_is_tried_where_labels_are_the_columns():
    # A cycle of 30 items: the rows are enough for the rule to hold, and predictable.
    visits = [[(start + step) % 30 for step in range(6)] for start in range(300)]
    model = SoftmaxClassifier(random_state=0).fit(visits, vectorizer=SequenceEncoder())
    assert model.resolved_params_["model"].name == "hybrid"
    assert {line["parameter"] for line in model.auto_report_} <= {"learning_rate", "member"}
    assert model.predict([[3, 4, 5], [28, 29]]).tolist() == [6, 0]


def test_seen_is_the_whole_history_and_not_what_its_row_keeps(tmp_path):
    """A row keeps the last n_last items that the encoder knows; a user has seen all of them."""
    items = [f"item {i:02d}" for i in range(12)]
    sequences, _ = chains(np.random.default_rng(0), items)
    model = small().fit(sequences, vectorizer=SequenceEncoder(n_last=2))
    history = items[:9]
    found, log_p = model.predict_top_k([history, history[:1]], 12, exclude="seen")
    assert set(found[0][log_p[0] > -np.inf].tolist()) == set(items[9:])
    assert set(found[1][log_p[1] > -np.inf].tolist()) == set(items[1:])
    approximate, _ = model.predict_top_k([history], 3, exclude="seen", approximate=True)
    assert set(approximate[0].tolist()) == set(items[9:])
    by_arrays, _ = model.predict_top_k([np.array(history), np.array([])], 3, exclude="seen")
    assert set(by_arrays[0].tolist()) == set(items[9:])


@pytest.mark.parametrize("how", [{"model": "hybrid"}, {"model": "embedding", "n_models": 2}])
def test_items_that_never_come_again_are_not_expected(how, tmp_path, seed):
    rng = np.random.default_rng(seed)
    sequences = [rng.permutation(40)[:10].tolist() for _ in range(300)]
    model = SoftmaxClassifier(random_state=seed, **how).fit(sequences, vectorizer=SequenceEncoder())
    model.save(tmp_path / "model")
    models_of_items = [model, load(tmp_path / "model"), load(tmp_path / "model").compress("int8")]
    if "n_models" not in how:
        models_of_items.append(load(tmp_path / "model").partial_fit(sequences[:50]))
    for model in models_of_items:
        again = model.vectorizer_.transform(sequences) != 0
        assert model.predict_proba(sequences)[again.toarray()].reshape(300, 10).sum(axis=1).max() < 1e-3
        best, _ = model.predict_top_k(sequences, 10)
        assert best.tolist() == model.predict_top_k(sequences, 10, exclude="seen")[0].tolist()
    sequences = [[*one, one[0]] for one in sequences]
    model = SoftmaxClassifier(random_state=seed, **how).fit(sequences, vectorizer=SequenceEncoder())
    again = (model.vectorizer_.transform(sequences) != 0).toarray()
    assert model.predict_proba(sequences)[again].sum() / 300 > 0.01


def test_counts_are_of_what_came_before_and_after(tmp_path, seed):
    """Sessions are pairs of items that belong together, in any order: each says as much of the other order."""
    rng = np.random.default_rng(seed)
    n_items = 300
    friends = rng.integers(0, n_items, size=(n_items, 3))

    def sessions(n):
        firsts = rng.integers(0, n_items, size=n)
        return [rng.permutation([i, *rng.choice(friends[i], 2)]).tolist() for i in firsts]

    first, more = [list(map(int, range(n_items))), *sessions(1500)], sessions(50)
    encoder = SequenceEncoder(n_last=20, decay=0.0)
    model = SoftmaxClassifier(model=models.Hybrid(margins="ignore", linear="ignore"), dim=8, random_state=seed)
    model.fit(first, vectorizer=encoder)

    def check_counts(model, sequences):
        weights = model._weights
        assert weights.mixture.both
        columns = {item: column for column, item in enumerate(model.vectorizer_.items_.tolist())}
        places = {label: place for place, label in enumerate(model.classes_.tolist())}
        counts, totals = np.zeros((n_items, len(places))), np.zeros(n_items)
        for one in sequences:
            for end in range(1, len(one)):
                label = one[end]
                for before in set(one[max(0, end - 20) : end]):
                    counts[columns[before], places[label]] += 1
                    totals[columns[before]] += 1
                    if before in places:
                        counts[columns[label], places[before]] += 1
                        totals[columns[label]] += 1
        features = np.repeat(np.arange(n_items), np.diff(weights.indptr))
        np.testing.assert_array_equal(weights.counts, counts[features, weights.classes])
        np.testing.assert_array_equal(weights.totals, totals)
        assert weights.counts.sum() == counts.sum()  # pairs of rows held out alone have theirs, too

    check_counts(model, first)
    model.save(tmp_path / "model")
    model = load(tmp_path / "model")
    model.partial_fit(more)
    check_counts(model, [*first, *more])
    model.partial_fit([[n_items, 0, 1, n_items]] * 3)  # an item that is new
    weights, column = model._weights, model.vectorizer_.items_.tolist().index(n_items)
    assert weights.own[column] == model.classes_.tolist().index(n_items)
    assert weights.totals[column] >= 6
