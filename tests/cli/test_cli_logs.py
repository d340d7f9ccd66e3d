"""Logs on the command line: what is left out and evaluated, what is learnt later, and the service of histories."""

import json

import numpy as np
import pytest
from test_command import run, the_error
from test_serving import post, started

from manyclass import SoftmaxClassifier, load
from manyclass.datasets import SequenceEncoder

QUICK = ("--model", "hybrid", "--dim", 8, "--max-iter", 3, "--n-models", 1, "--random-state", 0)
LOG = ("--sequences", "who,what,when")
N_ITEMS, N_USERS = 12, 80


def events(seed, n_items=N_ITEMS, first_day=0):
    """Rows of a log, by time: users who mostly go through items in one order."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(N_USERS):
        at, item = float(rng.random()) + first_day, int(rng.integers(n_items))
        for _ in range(5):
            rows.append((at, f"u{user:02d}", f"item {item:02d}"))
            at, item = (
                at + float(rng.random()),
                (item + 1) % n_items if rng.random() < 0.9 else int(rng.integers(n_items)),
            )
    return sorted(rows)


def written(path, rows, time=str):
    path.write_text("when,who,what\n" + "".join(f"{time(at)},{user},{item}\n" for at, user, item in rows))
    return path


def histories(rows):
    found = {}
    for _, user, item in rows:
        found.setdefault(user, []).append(item)
    return [found[user] for user in sorted(found)], sorted(found)


def model_of(sequences):
    model = SoftmaxClassifier(model="hybrid", dim=8, max_iter=3, n_models=1, random_state=0, n_jobs=-1)
    return model.fit(sequences, vectorizer=SequenceEncoder())


def test_the_last_items_are_left_out_and_evaluated(tmp_path, seed, capsys):
    rows = events(seed)
    log = written(tmp_path / "log.csv", rows)
    run("fit", log, *LOG, "--last", 1, "--output", tmp_path / "m", *QUICK)
    sequences, users = histories(rows)
    by_hand = model_of([one[:-1] for one in sequences])
    model = load(tmp_path / "m")
    before = [one[:-1] for one in sequences]
    np.testing.assert_array_equal(model.predict_log_proba(before), by_hand.predict_log_proba(before))
    capsys.readouterr()
    run("evaluate", tmp_path / "m", log, "--last", 1, "--json")
    found = json.loads(capsys.readouterr().out)
    expected = by_hand.evaluate(before, [one[-1] for one in sequences])
    assert found["log_loss"] == pytest.approx(expected["log_loss"], rel=1e-6)  # blocks of rows add in another order
    assert found["n_rows"] == N_USERS
    run("evaluate", tmp_path / "m", log, "--last", 1, "-k", 5, 2, "--exclude-seen", "--unseen", "wrong", "--json")
    found, last = json.loads(capsys.readouterr().out), [one[-1] for one in sequences]
    expected = by_hand.evaluate(before, last, k=(2, 5), exclude="seen")
    names = [f"{name}_at_{k}" for name in ("hit", "mrr", "ndcg", "recall", "coverage", "novelty") for k in (2, 5)]
    assert [found[name] for name in names] == pytest.approx([expected[name] for name in names])
    assert found["hit_at_5"] < by_hand.evaluate(before, last, k=5)["hit_at_5"]  # some come again
    run("predict", tmp_path / "m", log, "-k", 3, "--exclude-labels")
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    labels, scores = model.predict_top_k(sequences, 3, exclude="seen")
    assert [line[0] for line in lines] == users
    assert [line[1::2] for line in lines] == labels.tolist()
    np.testing.assert_allclose([[float(v) for v in line[2::2]] for line in lines], scores, rtol=1e-5)  # six digits
    (tmp_path / "stock.txt").write_text("item 03\n\nitem 07\nsold out\n")
    run("predict", tmp_path / "m", log, "--exclude-labels", "--among", tmp_path / "stock.txt")
    told = capsys.readouterr()
    left = [
        [label for label in row if label]
        for row in model.predict_top_k(sequences, 2, among=["item 03", "item 07"], exclude="seen")[0]
    ]
    assert [line.split("\t")[1::2] for line in told.out.splitlines()] == left
    assert "1 of 3 labels are none of the model's" in told.err
    (tmp_path / "stock.txt").write_text("sold out\n")
    message = the_error(capsys, "predict", tmp_path / "m", log, "--among", tmp_path / "stock.txt")
    assert message.endswith("has none of the model's classes, such as 'item 00'")
    run("predict", tmp_path / "m", log, "-k", 1, "--output-format", "jsonl")
    assert json.loads(capsys.readouterr().out.splitlines()[1])["user"] == "u01"
    run("info", log, *LOG[:2], "--json")
    assert "items_per_row" in json.loads(capsys.readouterr().out)
    run("info", tmp_path / "m")
    assert f"{N_ITEMS} items, decay" in capsys.readouterr().out


def test_long_histories_are_left_out_whole_and_new_items_count_as_wrong(tmp_path, seed, capsys):
    rng = np.random.default_rng(seed)
    rows = [(float(at), f"u{user}", f"item {rng.integers(30):02d}") for user in range(40) for at in range(25)]
    log = written(tmp_path / "log.csv", rows)
    how = ("--sequence-n-last", 2, "--sequence-min-count", 2)
    run("fit", log, *LOG, "--last", 1, *how, "--output", tmp_path / "m", *QUICK)
    model, (sequences, _) = load(tmp_path / "m"), histories(rows)
    sequences[0][-1] = sequences[1][-1] = "new"
    users = [f"u{user}" for user in range(40)]
    ordered = dict(zip(sorted(users), sequences, strict=True))
    log = written(tmp_path / "test.csv", [(at, user, ordered[user][at]) for user in users for at in range(25)])
    capsys.readouterr()
    for more in ((), ("--unseen", "wrong")):
        run("evaluate", tmp_path / "m", log, "--last", 1, "-k", 5, "--exclude-seen", "--json", *more)
        told = capsys.readouterr()
        found = json.loads(told.out)
        asked = {"k": 5, "exclude": "seen", **({"unseen": "wrong"} if more else {})}
        expected = model.evaluate([one[:-1] for one in sequences], [one[-1] for one in sequences], **asked)
        for name in ("hit_at_5", "mrr_at_5", "error", "log_loss"):
            assert found[name] == pytest.approx(expected[name], rel=1e-6)


def as_date(at):
    return np.datetime_as_string(np.datetime64("2026-03-01T00:00:00") + np.timedelta64(int(at * 86_400), "s"))


@pytest.mark.parametrize(("time", "since"), [(str, "2.5"), (as_date, "2026-03-03T12:00:00")])
def test_events_from_a_time_on_are_left_out_and_learnt_later(time, since, tmp_path, seed, capsys):
    rows = events(seed)
    log = written(tmp_path / "log.csv", rows, time)
    run("fit", log, *LOG, "--since", since, "--output", tmp_path / "m", *QUICK)
    early = histories([row for row in rows if row[0] < 2.5])[0]
    by_hand, model = model_of(early), load(tmp_path / "m")
    np.testing.assert_array_equal(model.predict_log_proba(early), by_hand.predict_log_proba(early))
    capsys.readouterr()
    run("evaluate", tmp_path / "m", log, "--since", since, "--json")
    firsts = {user: at for at, user, _ in reversed(rows)}
    later = [row for row in rows if row[0] >= 2.5 and row[0] > firsts[row[1]]]
    assert json.loads(capsys.readouterr().out)["n_rows"] == len(later)
    run("learn", tmp_path / "m", log, "--since", since, "--prequential")
    told = capsys.readouterr().out
    assert f"{len(later)} rows" in told
    assert "0 of them new" in told


def test_new_items_of_a_later_log_are_learnt(tmp_path, seed, capsys):
    log = written(tmp_path / "log.csv", events(seed))
    later = written(tmp_path / "later.csv", events(seed, N_ITEMS + 3, 50))
    run("fit", log, *LOG, "--output", tmp_path / "m", *QUICK)
    run("learn", tmp_path / "m", later, "--n-passes", 3, "--prequential")
    assert "3 of them new" in capsys.readouterr().out
    model = load(tmp_path / "m")
    assert model.predict([["item 13"]]).tolist() == ["item 14"]
    assert len(model.vectorizer_.items_) == N_ITEMS + 3


def test_sessions_end_where_nothing_happens(tmp_path, seed, capsys):
    rows = events(seed) + events(seed + 1, first_day=100)
    log = written(tmp_path / "log.csv", rows)
    run("fit", log, *LOG, "--session-gap", 50, "--output", tmp_path / "m", *QUICK)
    assert f"rows          {2 * N_USERS * 4}" in capsys.readouterr().out
    run("predict", tmp_path / "m", log, "-k", 1)  # a row a user, of the last session
    assert len(capsys.readouterr().out.splitlines()) == N_USERS
    model = load(tmp_path / "m")
    last = histories(events(seed + 1, first_day=100))[0]
    run("predict", tmp_path / "m", log, "-k", 1)
    labels = [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()]
    assert labels == model.predict(last).tolist()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--sequences", "who"), "two or three columns"),
        (("--sequences", "who,what,where"), "no column 'where'"),
        (("--sequences", "who,what", "--since", "3"), "--since needs times"),
        ((*LOG, "--since", "3", "--last", "1"), "leave out one"),
        ((*LOG, "--since", "soon"), "times must be finite numbers, or dates such as"),
        ((*LOG, "--since", "2026-01-01"), "the times of"),
        ((*LOG, "--last", "0"), "last is 0"),
        (("--sequences", "who,what,what"), "times must be finite numbers, or dates such as"),
        (("--last", "1"), "name their columns by --sequences"),
        ((*LOG, "--text-max-n", "2"), "--text-max-n is for texts"),
        ((*LOG, "--stream"), "--sequences is for data that are read at once, without --stream; "),
        (
            ("--text-column", "what", "--label-column", "who", "--sequence-decay", "1"),
            "--sequence-decay is for histories",
        ),
    ],
)
def test_wrong_options_of_logs_are_refused(options, match, tmp_path, seed, capsys):
    log = written(tmp_path / "log.csv", events(seed))
    assert match in the_error(capsys, "fit", log, *options, "--output", tmp_path / "m", *QUICK)
    assert not (tmp_path / "m").exists()


def test_a_model_of_histories_wants_a_log(tmp_path, seed, capsys):
    log = written(tmp_path / "log.csv", events(seed))
    (tmp_path / "texts.txt").write_text("a cat\tanimal\na car\tvehicle\n" * 20)
    run("fit", log, *LOG, "--output", tmp_path / "m", *QUICK)
    run("fit", tmp_path / "texts.txt", "--output", tmp_path / "t")
    capsys.readouterr()
    assert "fitted on histories" in the_error(capsys, "evaluate", tmp_path / "m", tmp_path / "texts.txt", "--text")
    assert "fitted on texts" in the_error(capsys, "evaluate", tmp_path / "t", log, *LOG)
    assert "predict takes whole histories" in the_error(capsys, "predict", tmp_path / "m", log, "--last", 1)


@pytest.mark.parametrize("kind", ["text", "numbers", "dates"])
def test_the_service_takes_histories_and_leaves_out_what_was_seen(kind, seed):
    items = {"text": [f"item {k:02d}" for k in range(N_ITEMS)], "numbers": list(range(N_ITEMS))}.get(kind)
    items = items or (np.datetime64("2026-01-01") + np.arange(N_ITEMS)).tolist()
    names = {name: items[int(name[-2:])] for name in (f"item {k:02d}" for k in range(N_ITEMS))}
    model = model_of([[names[item] for item in one] for one in histories(events(seed))[0]])
    asked = [[items[3]], [items[5], items[4], items[5]], []]
    with started(model) as server:
        sent = [[str(item) if kind == "dates" else item for item in one] for one in asked]
        code, told = post(server, {"rows": sent, "k": 4, "exclude": "seen"})
        assert code == 200
        labels, scores = model.predict_top_k(asked, 4, exclude="seen")
        for row, found in enumerate(told["predictions"]):
            assert found["labels"] == [str(a) if kind == "dates" else a for a in labels[row].tolist()]
            np.testing.assert_allclose(found["scores"], scores[row], rtol=1e-5)  # six digits
        assert post(server, {"row": ["unknown" if kind == "text" else sent[0][0]]})[0] == 200
        code, told = post(server, {"row": [["a"]]})
        assert code == 400
        assert "a history must hold labels of one kind" in told["error"]


def test_ties_repeats_and_histories_without_a_known_item_are_told(tmp_path, capsys):
    rows = [(float(day), f"u{user}", f"item {(user + day) % 7}") for user in range(60) for day in range(4)]
    more = [(0.0, "u1", "item 5"), (0.0, "u1", "item 5"), (3.0, "u2", rows[11][2])]
    log = written(tmp_path / "log.csv", rows + more)
    run("fit", log, *LOG, "--output", tmp_path / "m", *QUICK)
    told = capsys.readouterr().err
    assert "3 events have the time of another one of their user, and stay in the order of the log" in told
    assert "2 events stand in the log again, with user, time and item, and each counts" in told
    other = written(tmp_path / "new.csv", [(0.0, "a", "never"), (1.0, "b", "item 3")])
    run("predict", tmp_path / "m", other, "-k", 1)
    told = capsys.readouterr()
    assert "1 of 2 histories have no item that the model knows" in told.err
    assert len(told.out.splitlines()) == 2
    run("fit", written(tmp_path / "plain.csv", rows), *LOG, "--output", tmp_path / "m", *QUICK)
    assert "events" not in capsys.readouterr().err
