"""The driver of passes: slices of whole batches, the clock, Ctrl-C, divergence, and what ends training early."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from manyclass import _core
from manyclass.training import passes as module
from manyclass.training.passes import drive

N_VISITS = 103


@dataclass
class State:
    n_iter: int = 0
    seconds: float = 0.0
    loss: float = np.nan


@dataclass
class Recorder:
    """Passes that make `size` visits at a time and note which; pass n has the loss 10 - n."""

    size: int = N_VISITS
    n_visits: int = N_VISITS
    length: int = N_VISITS
    unit: str = "visits"
    advice: str = "Do less."
    fault: str | None = None
    slices: list = field(default_factory=list)
    done_after: int = 1000
    on_run: object = None

    def run(self, n_pass, first, seconds):
        made = min(self.size, self.n_visits - first)
        self.slices.append((n_pass, first, first + made, seconds))
        if self.on_run is not None:
            self.on_run(self, n_pass, first)
        return made, made

    def describe(self, last):
        return f"at {last}"

    def finish(self, n_pass):
        return 10.0 - n_pass, n_pass + 1 >= self.done_after

    def verdict(self, last_loss):
        return None if last_loss < 100 else "it grew"


def driven(passes, callback=None, *, max_iter=3, verbose=False, **options):
    state = State()
    return state, *drive(passes, state, callback, max_iter=max_iter, verbose=verbose, **options)


@pytest.mark.parametrize("size", [1, 35, 200])
def test_slices_cover_each_pass_once_and_last_as_long_as_is_left(size):
    recorder = Recorder(size)
    state, curve, complete = driven(recorder, max_seconds=1000.0)
    assert complete
    assert curve == [10.0, 9.0, 8.0]
    assert (state.n_iter, state.loss) == (3, 8.0)
    for n_pass in range(3):
        ends = [(first, last) for n, first, last, _ in recorder.slices if n == n_pass]
        assert [first for first, _ in ends] == [0, *(last for _, last in ends[:-1])]
        assert ends[-1][1] == N_VISITS
    assert {seconds for *_, seconds in recorder.slices} == {module.SLICE_SECONDS}
    recorder = Recorder(10)
    driven(recorder, max_seconds=module.SLICE_SECONDS / 10)
    assert all(0 < seconds <= module.SLICE_SECONDS / 10 for *_, seconds in recorder.slices)


@pytest.mark.parametrize("where", ["run", "finish"])
def test_work_of_the_core_that_outlasts_the_limit_ends_training_with_what_there_was_before(where, monkeypatch):
    """The clock runs within one call of the core: no slice ends, and nothing of it is kept."""
    limits = []
    monkeypatch.setattr(_core, "limit_seconds", limits.append)
    recorder = Recorder()

    def too_long(*args):
        raise _core.TimeIsUpError

    def second_pass(state):
        setattr(recorder, where, too_long)

    with pytest.warns(
        ConvergenceWarning, match="training stopped after .* s in pass [12] of 3, when max_seconds was over"
    ):
        state, curve, complete = driven(recorder, second_pass, max_seconds=1000.0)
    assert (curve, complete, state.n_iter) == ([10.0], False, 1)
    assert 0 < limits[0] <= 1000 + module.GRACE  # of the first call,
    assert limits[-1] == np.inf  # and none is left behind


def test_a_callback_a_training_that_is_done_and_the_clock_end_it():
    _, curve, complete = driven(Recorder(), lambda state: state.n_iter == 2)
    assert (curve, complete) == ([10.0, 9.0], False)
    _, curve, complete = driven(Recorder(done_after=1))
    assert (curve, complete) == ([10.0], False)
    recorder = Recorder(10)
    with pytest.warns(
        ConvergenceWarning, match="training stopped after .* s in pass 1 of 3, when max_seconds was over"
    ):
        _, curve, complete = driven(recorder, max_seconds=0.0)
    assert (curve, complete) == ([], False)  # within the first pass, after one slice
    assert len(recorder.slices) == 1


def test_ctrl_c_raises_or_keeps_the_passes_made_where_they_are_to_be_kept():
    def interrupt(passes, n_pass, first):
        if n_pass == 1:
            raise KeyboardInterrupt

    with (
        pytest.warns(ConvergenceWarning, match="interrupted; the model is the one reached so far") as seen,
        module.keeping("best"),
    ):
        state, curve, complete = driven(Recorder(10, on_run=interrupt))
    assert (curve, complete, state.n_iter) == ([10.0], False, 1)
    assert seen[0].filename == __file__
    with pytest.raises(KeyboardInterrupt):
        driven(Recorder(10, on_run=interrupt))


def test_a_fault_ends_training_at_its_slice_and_a_verdict_comes_after_the_last_pass():
    def fail(passes, n_pass, first):
        passes.fault = f"a step of pass {n_pass} was too large" if n_pass == 1 else None

    with pytest.warns(ConvergenceWarning, match=r"training diverged: a step of pass 1 was too large\. Do less\."):
        _, curve, complete = driven(Recorder(on_run=fail))
    assert (curve, complete) == ([10.0], False)
    recorder = Recorder()
    recorder.finish = lambda n_pass: (1000.0, False)
    with pytest.warns(ConvergenceWarning, match=r"training diverged: it grew\. Do less\."):
        _, curve, complete = driven(recorder)
    assert (len(curve), complete) == (3, True)


def test_progress_says_which_pass_and_what_the_training_says(capsys, monkeypatch):
    monkeypatch.setattr("manyclass.training.passes.DELAY", 0)
    driven(Recorder(), verbose=True)
    err = capsys.readouterr().err
    assert "309 of 309" in err
    assert f"pass 3/3, at {N_VISITS}" in err
