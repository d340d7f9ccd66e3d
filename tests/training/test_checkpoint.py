"""Checkpoints: a fit that was stopped anywhere goes on to the model of one that was not, bit for bit."""

import itertools
import json
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from manyclass import AugmentReduceClassifier, MarginClassifier, SkipGram, SoftmaxClassifier, models, samplers, solvers
from manyclass.training import checkpoint, passes
from manyclass.training.checkpoint import _alike
from manyclass.weights.tensor_file import open_tensors

N, D, K = 90, 12, 7
random = np.random.default_rng(0)
CENTRES = random.normal(size=(K, D))
Y = random.integers(0, K, size=N)
X = (CENTRES[Y] + random.normal(size=(N, D))).astype(np.float32)
SPARSE = sp.csr_array(np.where(X > 0.5, X, 0).astype(np.float32))
SEVERAL = sp.csr_array((random.random((N, K)) < 0.3) | (np.arange(K) == Y[:, np.newaxis])).astype(np.int8)
TEXT = [random.choice(list("abcdefgh"), size=9).tolist() for _ in range(300)]


class Killed(BaseException):
    """What ends a process: nothing catches it."""


def softmax(**parameters):
    return SoftmaxClassifier(**{"random_state": 0, "max_iter": 4, "learning_rate": 0.3, "alpha": 1e-3, **parameters})


def solver_cases():
    for name in solvers.SOLVERS:
        if name not in ("lbfgs", "adagrad"):
            yield name, softmax(solver=name, learning_rate=0.02 if name == "sgd" else 0.3), X, Y


CASES = {
    **{name: case for name, *case in solver_cases()},
    "sparse rows": (softmax(solver="implicit"), SPARSE, Y),
    "averages": (softmax(solver=solvers.Implicit(averaging="suffix")), X, Y),
    "max_norm": (softmax(solver=solvers.Implicit(max_norm=1.0), alpha=0.0), X, Y),
    "adaptive": (softmax(solver=solvers.SGD(schedule="adaptive", batch_size=4), alpha=0.0), X, Y),
    "early stopping": (softmax(solver="implicit", early_stopping=True, n_iter_no_change=4), X, Y),
    "early stopping of embeddings": (
        softmax(model="embedding", dim=8, alpha="auto", early_stopping=True, n_iter_no_change=2),
        SPARSE,
        Y,
    ),
    "early stopping of a hybrid": (
        softmax(model="hybrid", dim=8, alpha="auto", early_stopping=True, n_iter_no_change=2),
        SPARSE,
        SEVERAL,
    ),
    "head_tail": (softmax(solver="implicit", sampler=samplers.HeadTail(n_head=2, refresh=1), n_negatives=2), SPARSE, Y),
    "embeddings": (softmax(model="embedding", dim=8, alpha="auto"), SPARSE, Y),
    "double sum of several labels": (
        softmax(solver="implicit", sampler="uniform", n_negatives=2, alpha="auto"),
        SPARSE,
        SEVERAL,
    ),
    "pairs": (softmax(model="pairs", alpha="auto"), SPARSE, SEVERAL),
    "hybrid": (softmax(model=models.Hybrid(), dim=8, alpha="auto"), SPARSE, SEVERAL),
    "mean of models": (softmax(solver="implicit", n_models=2), X, Y),
    "calibration": (softmax(solver="implicit", calibration="temperature"), X, Y),
    "margin": (MarginClassifier(max_iter=3, random_state=0), SPARSE, SEVERAL),
    "probit": (AugmentReduceClassifier(noise="normal", max_iter=3, random_state=0), X, Y),
    "softmax by augment and reduce": (AugmentReduceClassifier(max_iter=3, random_state=0), X, Y),
    **{
        f"skip-gram, {name}": (SkipGram(4, min_count=1, max_iter=2, objective=name, random_state=0), TEXT, None)
        for name in ("softmax", "negative_sampling", "hierarchical", "descent")
    },
}


def state_of(model):
    if isinstance(model, SkipGram):
        return [model.vectors_, model.context_vectors_, np.array(model.loss_curve_)]
    return [model.decision_function(SPARSE), model.loss_curve_, getattr(model, "validation_curve_", 0)]


def fitted(model, X, y, **more):
    made = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a loss that is high after so few passes
        return made.fit(X, y, **more)


@pytest.fixture
def many_slices(monkeypatch):
    """Slices of a batch each, and a checkpoint after each pass and after some slices within it."""
    count = itertools.count()
    monkeypatch.setattr(passes, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(
        checkpoint.Stage, "is_due", lambda self, n_passes=None: n_passes is not None or next(count) % 4 == 1
    )


def killed_at(monkeypatch, n):
    """Let the nth checkpoint, from 0, be the last thing that a fit does."""
    write, count = checkpoint.write_tensors, itertools.count()

    def written(*given):
        write(*given)
        if next(count) == n:
            raise Killed

    monkeypatch.setattr(checkpoint, "write_tensors", written)


@pytest.mark.parametrize("case", CASES, ids=CASES)
def test_a_fit_goes_on_bit_for_bit_wherever_it_was_killed(case, tmp_path, monkeypatch, many_slices):
    model, X, y = CASES[case]
    whole = state_of(fitted(model, X, y, checkpoint=tmp_path / "whole"))  # with which no smaller step is tried
    # After each of the first checkpoints, and after fewer and fewer of many: each is made again for each later one.
    for n in itertools.accumulate(itertools.count(), lambda n, _: n + 1 + n // 4):
        folder = tmp_path / str(n)
        with monkeypatch.context() as patched:
            killed_at(patched, n)
            try:
                fitted(model, X, y, checkpoint=folder)
            except Killed:
                pass
            else:
                break  # it made fewer checkpoints than n
        resumed = fitted(model, X, y, checkpoint=folder, resume=True)
        for one, other in zip(whole, state_of(resumed), strict=True):
            np.testing.assert_array_equal(one, other)
    assert n >= 4  # between passes and within them; of descent, between


def test_a_finished_fit_is_only_read(tmp_path, monkeypatch):
    first = softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path, every=2)
    monkeypatch.setattr(passes._Drive, "make_pass", None)
    again = softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert again.n_iter_ == 4
    assert again.best_iter_ == 4


def test_passes_are_counted_and_a_limit_of_seconds_is_that_of_a_call(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(checkpoint, "write_tensors", lambda path, arrays, metadata: written.append(metadata["numbers"]))
    softmax(solver="implicit", max_iter=7).fit(X, Y, checkpoint=tmp_path / "a", every=3)
    assert len(written) == 3  # after 3, 6 and at the end
    monkeypatch.undo()
    whole = fitted(softmax(solver="implicit"), X, Y)
    for _ in range(1000):
        model = fitted(softmax(solver="implicit"), X, Y, checkpoint=tmp_path / "b", resume=True, max_seconds=2e-3)
        if model.n_iter_ == 4:
            break
    np.testing.assert_array_equal(model.coef_, whole.coef_)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(3)])
def test_a_drawn_seed_is_kept(random_state, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        killed_at(patched, 1)
        with pytest.raises(Killed):
            softmax(solver="implicit", random_state=random_state).fit(X, Y, checkpoint=tmp_path, every=1)
    resumed = softmax(solver="implicit", random_state=None).fit(X, Y, checkpoint=tmp_path, resume=True)
    again = softmax(solver="implicit", random_state=None).fit(X, Y, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.coef_, again.coef_)
    assert resumed.random_state is None
    assert resumed.n_iter_ == 4


def test_threads_may_be_others(tmp_path, monkeypatch):
    model = softmax(solver=solvers.Implicit(batch_size=8))
    with monkeypatch.context() as patched:
        killed_at(patched, 1)
        with pytest.raises(Killed):
            clone(model).set_params(n_jobs=2).fit(X, Y, checkpoint=tmp_path, every=1)
    resumed = clone(model).set_params(n_jobs=1).fit(X, Y, checkpoint=tmp_path, every=1, resume=True)
    np.testing.assert_array_equal(resumed.coef_, clone(model).fit(X, Y).coef_)


def numbers_of_version_2(path):
    """Give a file of L-BFGS the numbers that version 0.2.0 wrote."""
    file = open_tensors(path)
    numbers = json.loads(file.metadata["numbers"])
    before = {"seconds": numbers["state"]["seconds"], "class_updates": 0, "position": numbers["position"]}
    before["validation"] = numbers["passes"].get("validation")
    arrays = {name: file.read(name) for name in file.entries}
    checkpoint.write_tensors(path, arrays, {**file.metadata, "numbers": json.dumps(before)})


@pytest.mark.parametrize("of_version_2", [False, True])
def test_lbfgs_goes_on_to_the_same_optimum(of_version_2, tmp_path, monkeypatch):
    model = softmax(solver="lbfgs", max_iter=500, learning_rate="auto")
    with monkeypatch.context() as patched:
        killed_at(patched, 2)
        with pytest.raises(Killed):
            clone(model).fit(X, Y, checkpoint=tmp_path, every=3)
    if of_version_2:
        numbers_of_version_2(tmp_path / "training-000.safetensors")
    resumed = clone(model).fit(X, Y, checkpoint=tmp_path, resume=True)
    # Both have a gradient below tol = 1e-6 in each entry; the ridge of 1e-3 makes W differ by at most 1e3 times that.
    np.testing.assert_allclose(resumed.coef_, clone(model).fit(X, Y).coef_, atol=2e-3)
    assert resumed.n_iter_ > 9
    again = clone(model).fit(X, Y, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.coef_, again.coef_)


def test_a_search_goes_on_with_an_index_of_its_own(tmp_path, monkeypatch):
    model = MarginClassifier(sampler="search", max_iter=4, random_state=0)
    with monkeypatch.context() as patched:
        killed_at(patched, 2)
        with pytest.raises(Killed):
            clone(model).fit(SPARSE, SEVERAL, checkpoint=tmp_path, every=1)
    resumed = clone(model).fit(SPARSE, SEVERAL, checkpoint=tmp_path, every=1, resume=True)
    assert resumed.n_iter_ == 4
    assert resumed.loss_curve_[-1] < resumed.loss_curve_[0]


def test_another_fit_is_refused(tmp_path):
    softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="resume=True goes on with it"):
        softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path)
    for model, data, what in (
        (softmax(solver="implicit", learning_rate=0.2), (X, Y), "its learning_rate was 0.3, now it is 0.2"),
        (softmax(solver="implicit", random_state=1), (X, Y), "its random_state was 0, now it is 1"),
        (softmax(solver="implicit"), (X + np.float32(1), Y), "its X was"),
        (softmax(solver="implicit"), (X, Y[::-1]), "its y was"),
    ):
        with pytest.raises(ValueError, match=what):
            model.fit(*data, checkpoint=tmp_path, resume=True)
        assert not hasattr(model, "classes_")


def test_damaged_checkpoints_are_refused(tmp_path):
    softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path)
    (path,) = tmp_path.iterdir()
    text = path.read_bytes()
    for damaged in (text[:-5], b"", b"nonsense" * 50):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=path.name):
            softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path, resume=True)
    softmax(solver="implicit").fit(X, Y).save(path)
    with pytest.raises(ValueError, match="is not a checkpoint of manyclass"):
        softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("every", ["10", "ten minutes", "-3s", 0, 2.5, None, True])
def test_intervals_of_another_form_are_refused(every, tmp_path):
    with pytest.raises((ValueError, TypeError), match="every is"):
        softmax().fit(X, Y, checkpoint=tmp_path, every=every)
    assert not list(tmp_path.iterdir())


def test_options_without_a_folder_are_refused():
    with pytest.raises(ValueError, match="without checkpoint"):
        softmax().fit(X, Y, resume=True)


def test_a_full_disk_keeps_the_checkpoint_before_and_the_training(tmp_path, monkeypatch):
    write, count = checkpoint.write_tensors, itertools.count()

    def full(*given):
        if next(count):
            raise OSError(28, "No space left on device")
        write(*given)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_tensors", full)
        with pytest.warns(UserWarning, match="the one before stays: .*No space left"):
            model = softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path, every=1)
    whole = softmax(solver="implicit").fit(X, Y)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    resumed = softmax(solver="implicit").fit(X, Y, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)


# Real processes

COMMAND = [sys.executable, "-m", "manyclass", "fit"]
OPTIONS = ["--solver", "implicit", "--learning-rate", "1", "--alpha", "0.001", "--max-iter", "30", "--no-progress"]
OPTIONS += ["--random-state", "0"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file whose training takes some tenths of a second."""
    path = tmp_path_factory.mktemp("rows") / "train.txt"
    drawn = np.random.default_rng(1)
    features = [sorted(set(row)) for row in drawn.integers(500, size=(4000, 20)).tolist()]
    lines = [f"{drawn.integers(200)} " + " ".join(f"{j}:1" for j in row) for row in features]
    path.write_text("\n".join(["4000 500 200", *lines]) + "\n")
    return path


def seconds_until_killed(command, seconds):
    """Start a command and kill it after so many seconds; False: it ended before."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            return True
        assert process.returncode == 0, process.stderr.read()
        return False


def model_after_kills(rows, folder, n_kills):
    """The bytes of a model whose fit was killed at random moments, some of them while a checkpoint was written."""
    output, drawn = folder / "model", np.random.default_rng(n_kills)
    begin = time.perf_counter()
    plain = [*COMMAND, str(rows), "--output", str(output), *OPTIONS]
    subprocess.run(plain, check=True, capture_output=True)
    whole, seconds = output.read_bytes(), time.perf_counter() - begin
    output.unlink()
    kills, round_ = 0, 0
    while kills < n_kills:
        steps = ["--checkpoint", str(folder / f"run-{round_}"), "--every", "1", "--resume"]
        if seconds_until_killed([*plain, *steps], drawn.uniform(0.3, 1.5) * seconds):
            kills += 1
        else:
            assert output.read_bytes() == whole
            round_ += 1
    subprocess.run([*plain, *steps], check=True, capture_output=True)
    assert output.read_bytes() == whole
    return round_


@pytest.mark.long
def test_a_killed_command_goes_on(rows, tmp_path):
    model_after_kills(rows, tmp_path, 2)


@pytest.mark.long
def test_200_kills(rows, tmp_path):
    model_after_kills(rows, tmp_path, 200)


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        ("rate=0.02472972918, max_iter=3", "rate=0.02472973029, max_iter=3", True),
        ("rate=1e-05, n=3", "rate=1.0000001e-05, n=3", True),
        ("rate=0.0247, max_iter=3", "rate=0.0248, max_iter=3", False),
        ("rate=0.3, seed=4095051218741643470", "rate=0.3, seed=4095051218741643471", False),
        ("rate=0.3, decay=None", "rate=0.3, decay=0.5", False),
        ("rate=0.3", None, False),
        ([1, 2], [1, 2], True),
    ],
    ids=str,
)
def test_a_fit_is_the_same_but_for_the_rounding_of_its_numbers(was, now, same):
    assert _alike(was, now) == same
