r"""Training on a Dask cluster: more rows, or more classes, than one machine holds.

`DaskSoftmaxClassifier` and `DaskMarginClassifier` are the estimators of one machine for rows that are on the workers of
a cluster. They take dask arrays of dense or CSR chunks, data frames, delayed parts and lists of files. They fit linear
models of one or several labels a row, y being an indicator matrix where there are several. Their predictions are lazy,
and `to_local` brings the model, with W, to the client. Until then neither the client nor the scheduler has W, which
moves from worker to worker.

By rows
    Each worker has all of W and makes a pass over its rows by the loop of one machine. Then each worker merges a part
    of W: it gets the changes of that part from all others, and all others get the part from it. So a worker gets and
    gives about W once a merge, however many workers there are; rows of the stored matrix that a pass left alone are not
    moved. Changes that are small add up as a sum, and those that each went all the way as a mean: see
    `manyclass.dask.passes`, and there `BatchPasses` for margins, several labels and Adagrad. The
    numbers that points carry (u of the double sum) follow the changes of other workers. A worker needs memory for four
    times W.

    `partial_fit` goes on from the W of the last training, on the workers, by the step sizes of a `fit`: on one machine
    they fall by the curvature of the rows so far, where learning_rate is open. Early stopping holds out rows of each
    worker, drawn as on one machine, and adds up their losses after each pass.

By rows and classes, for one label a row
    Each worker has a block of classes, whose weights are W divided by the number of workers, and steps on the terms of
    its rows and these classes. Then blocks move on to the next worker, so that in a pass each block visits all rows. In
    the doubly separable form (Raman et al., KDD 2019) a term needs a row's log-normaliser and one class's weights. A
    row keeps the log-sum of its scores in each block, which is all that it needs to know of other workers' classes.
    With solver="implicit" a visit draws classes of the block, its share of `n_negatives`, and takes the proximal step
    of one machine's Raman form in the core's loop, with all threads. With solver="exact" steps see all classes of a
    block, in NumPy and SciPy. solver="auto" takes exact steps where they take no more than 8 microseconds a row: see
    `manyclass.dask.blocks`. A worker steps on its block in place, and moves W in and out once a pass, piece by piece.
    It needs memory for its block and two pieces; a block has up to 16 pieces, and a large block at least 4. After a
    pass each block is written to the disks of two workers, in the folder that dask has for them.

::

    by rows                                   by rows and classes, three steps of a pass

    worker 0   rows 0   W ──▶ change ─┐       rows 0 | block 0    block 1    block 2
    worker 1   rows 1   W ──▶ change ─┼─▶ W   rows 1 | block 1    block 2    block 0
    worker 2   rows 2   W ──▶ change ─┘       rows 2 | block 2    block 0    block 1

`division="auto"` is by rows, unless four times W is more than half of the least memory of a worker, and the solver is
"auto", "implicit" or "exact". ``manyclass plan --rows 1e9 --classes 1e7`` predicts what a pass takes in both ways.

Same answers
    Parts that are in the memory of workers stay there, and others go to the workers in turn; `shards_` says which parts
    each worker had. With the same parts on as many workers a fit is the same bit for bit, and is what one process makes
    of the same shards. With one worker, by rows, it is the model of one machine bit for bit where nothing is "auto".
    The worker with the most rows finds out what "auto" stands for, and how features are scaled.

Faults
    A round is made of ordinary tasks, none of which waits for another that is running. The client looks at the workers
    each second. Another worker takes over from a lost one: it reads the rows again, and takes W from the last merge, of
    which each part is on two workers, or from the last pass, of which each block is on two disks. Where both copies are
    lost training begins again. Training ends in one RuntimeError where data cannot be read again, workers are lost too
    often, or the client or the scheduler is gone. A worker that is silent for 20 seconds, or takes no tasks for as
    long, counts as lost.

    By rows and classes the rows of a lost worker have lost their log-sums too, and estimate them in the next pass.

Where to look
    `loading` makes shards of the parts of what a user gives. `passes` and `blocks` are what a shard does, and know
    nothing of Dask; `trainings` let a cluster do it, in rounds that both divisions share. `workers` has the workers,
    `predictions` what a model is asked, `classifiers` what is refused, and `costs` what a pass is predicted to take.

There are no embeddings, weights on pairs, calibration, "head_tail" or searches on a cluster, and early stopping is for
one label a row: it holds whole `groups` out, on whatever workers their rows are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manyclass.dask.classifiers import DaskMarginClassifier, DaskSoftmaxClassifier

__all__ = ["DaskMarginClassifier", "DaskSoftmaxClassifier"]

# `manyclass plan` needs `manyclass.dask.costs` where there is no dask.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(f"{__name__}.classifiers"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
                raise
            raise ImportError(f"{name} needs {error.name}: pip install 'manyclass[dask]'") from error
