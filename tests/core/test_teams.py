"""What OpenMP obeys holds for our teams: OMP_NUM_THREADS, threadpoolctl, affinity, joblib's limits, teams in children.

Each case runs in a process of its own, where OpenMP reads its settings anew.
"""

import os
import subprocess
import sys

import pytest

from manyclass import _core
from manyclass.checks import cores

pytestmark = pytest.mark.skipif(not _core.by_openmp(), reason="this build has the standard library's threads")

LONG = pytest.mark.long

# 1,100 rows are three pieces of a prediction, which threads share out.
BEGIN = """
import os, threading
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from manyclass import SoftmaxClassifier, _core, checks, solvers
from manyclass._core import most_threads, team_size
processors = checks.cores
checks.cores = lambda: min(4, most_threads())
rng = np.random.default_rng(0)
X, y = rng.normal(size=(1100, 8)).astype(np.float32), np.arange(1100) % 40
solver = solvers.Implicit(batch_size=50)
model = SoftmaxClassifier(solver=solver, n_negatives=5, max_iter=2, random_state=0)
alone = model.fit(X, y).predict_proba(X)
def works(n_jobs):
    "Whether a fit and a prediction with so many threads have the same bits as with one."
    return (model.set_params(n_jobs=n_jobs).fit(X, y).predict_proba(X) == alone).all()
"""


def runs(code: str, begin: str = "", **environment: str) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")} | environment
    command = [sys.executable, "-W", "ignore", "-c", begin + BEGIN + code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("given", "most"), [("1", 1), pytest.param("3", 3, marks=LONG), ("2,4", 2)])
def test_teams_have_at_most_the_threads_that_the_environment_allows(given, most):
    runs(
        f"""
assert most_threads() == checks.n_threads_from(-1) == checks.n_threads_from(4) == team_size(4) == {most}
assert processors() <= {most}
assert works(4)
""",
        OMP_NUM_THREADS=given,
    )


def test_threadpoolctl_sees_the_library_of_teams_and_bounds_them():
    runs(
        """
def ours():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "openmp"]
assert 4 in ours()
with threadpool_limits(1):
    assert most_threads() == checks.n_threads_from(-1) == team_size(4) == 1
    assert works(4)
with threadpool_limits(3, user_api="openmp"):
    assert most_threads() == team_size(4) == 3
    assert 3 in ours()
    assert works(4)
with threadpool_limits(1, user_api="blas"):
    assert team_size(4) == 4
assert most_threads() == team_size(4) == team_size(2**30) == 4
""",
        OMP_NUM_THREADS="4",
    )


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a processor")
def test_a_process_that_begins_on_one_processor_has_teams_of_one():
    runs(
        "assert most_threads() == processors() == checks.n_threads_from(4) == team_size(4) == 1",
        begin="import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n",
    )


@pytest.mark.parametrize("most", [pytest.param(1, marks=LONG), 3])
def test_processes_of_joblib_have_the_threads_that_it_allows_them(most):
    runs(f"""
from joblib import Parallel, delayed, parallel_config
def allowed():
    from manyclass import _core
    return _core.most_threads(), _core.team_size(4)
with parallel_config(backend="loky", n_jobs=2, inner_max_num_threads={most}):
    assert Parallel()(delayed(allowed)() for _ in range(4)) == [({most}, {most})] * 4
""")


# One by one in the long suite, and all of them in two processes here.
SETTINGS = (
    {"OMP_WAIT_POLICY": "passive"},
    {"OMP_WAIT_POLICY": "active", "OMP_NUM_THREADS": "2"},
    {"OMP_DYNAMIC": "true"},
    {"OMP_THREAD_LIMIT": "2"},
    {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"},
    {"OMP_NESTED": "true", "OMP_MAX_ACTIVE_LEVELS": "3"},
    {"OMP_STACKSIZE": "4M"},
    {"OMP_NUM_THREADS": "2"},
    {"GOMP_SPINCOUNT": "0"},
)
TOGETHER = [{name: value for some in SETTINGS[at::2] for name, value in some.items()} for at in range(2)]


@pytest.mark.parametrize("settings", [*TOGETHER, *(pytest.param(one, marks=LONG) for one in SETTINGS)], ids=str)
def test_what_openmp_is_told_changes_no_bit(settings):
    runs(
        """
for n_jobs in (2, 4, 2, 3):
    assert works(n_jobs)
if (pid := os.fork()) == 0:
    os._exit(0 if works(4) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
""",
        **{"OMP_NUM_THREADS": "4"} | settings,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no fork")
def test_limits_hold_in_the_thread_that_called_fork_and_in_new_ones_of_the_child():
    runs(
        """
assert team_size(2) == 2
if (pid := os.fork()) == 0:
    wrong = []
    def work():
        with threadpool_limits(1, user_api="openmp"):
            if team_size(4) != 1:
                wrong.append("limit")
        for size in (4, 2, 3):
            if team_size(size) != size or not works_here():
                wrong.append(size)
    def works_here():
        return (model.predict_proba(X) == alone).all()
    model.n_jobs = 4
    work()
    for _ in range(10):
        others = [threading.Thread(target=work) for _ in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join()
    os._exit(len(wrong))
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert team_size(4) == 4
""",
        OMP_NUM_THREADS="4",
    )


@pytest.mark.skipif(cores() < 2, reason="one processor has no team")
def test_threads_that_wait_for_the_next_team_take_no_time_of_a_processor():
    """Of 40 pauses of 20 ms, each after a team, libgomp's threads would look for work in .3 s; .05 is for all else."""
    runs("""
import time
n = most_threads()
team_size(n)
time.sleep(0.1)
before = time.process_time()
for _ in range(40):
    team_size(n)
    time.sleep(0.02)
assert time.process_time() - before < 0.05, time.process_time() - before
""")
