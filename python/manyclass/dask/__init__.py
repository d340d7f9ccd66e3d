r"""Training on a Dask cluster: more rows, or more classes, than one machine holds.

`DaskSoftmaxClassifier` and `DaskMarginClassifier` are the estimators of one machine for rows that are on the workers of
a cluster. They take dask arrays of dense or CSR chunks, data frames, delayed parts and lists of files; fit linear
models of one or several labels a row, y being an indicator matrix; their predictions are lazy, and `to_local` brings
the model, with W, to the client. Until then neither the client nor the scheduler has W: it goes from worker to worker.

By rows
    Each worker has all of W and makes a pass over its rows by the loop of one machine. Then each merges a part of W: it
    gets the changes of that part from all others, and all others the part from it. So a worker gets and gives about W
    once a merge, however many there are; rows of the stored matrix that a pass left alone are not moved. How changes
    add up is in `manyclass.dask.merging`: as a sum where they are small, as a mean where each alone went all the way;
    of margins, several labels and Adagrad in `manyclass.dask.batch_passes`.
    What points carry (u of the double sum) follows the changes of the others. Memory: four times W.

    `partial_fit` goes on from the W of the last training, on the workers. Early stopping holds out rows of each worker,
    drawn as on one machine, and adds up their losses after each pass.

By rows and classes, of one label a row
    Each worker has a block of classes, W over the number of workers, and steps on the terms of its rows and these
    classes; then blocks move on to the next worker, so that in a pass each visits all rows. In the doubly separable
    form (Raman et al., KDD 2019) a term needs a row's log-normaliser and one class's weights. A row keeps the log-sum
    of its scores in each block, which is all that is known of classes elsewhere; its label's part waits for the block
    that has it. With solver="implicit" a visit draws classes of the block, its share of `n_negatives`, and takes the
    proximal step of one machine's Raman form in the core's loop, with all threads; with solver="exact" steps see all
    classes of a block, in NumPy and SciPy. solver="auto" takes exact steps where they take no more than 8 microseconds
    a row. See `manyclass.dask.blocks`. A worker steps on its block in place, and moves W in and out once a pass, piece
    by piece. Memory: its block and two pieces, of which there are up to 16, 4 or more of a large block; after a pass
    each block is written to the disks of two workers, in the folder that dask has for them.

::

    by rows                                   by rows and classes, three steps of a pass

    worker 0   rows 0   W ──▶ change ─┐       rows 0 | block 0    block 1    block 2
    worker 1   rows 1   W ──▶ change ─┼─▶ W   rows 1 | block 1    block 2    block 0
    worker 2   rows 2   W ──▶ change ─┘       rows 2 | block 2    block 0    block 1

`division="auto"` is by rows, unless four times W is more than half of the least memory of a worker, and the solver is
"auto", "implicit" or "exact". ``manyclass plan --rows 1e9 --classes 1e7`` predicts for both what a pass takes.

Same answers
    Parts stay where they are in memory, or go to the workers in turn; `shards_` says which parts each had. With the
    same parts on as many workers a fit is the same bit for bit, and is what one process makes of the same shards. With
    one worker, by rows, it is the model of one machine bit for bit where nothing is "auto". What "auto" stands for is
    found on the worker with the most rows; so is the scaling of features.

Faults
    A round is made of ordinary tasks, none of which waits for another that is running. The client looks at the workers
    each second. What a lost worker had goes to another: its rows from where they came, W from the last merge, of which
    each part is on two workers, or from the last pass, of which each block is on two disks. Where both are lost
    training begins again; data that cannot be read again, a third loss beyond that, a client or a scheduler that is
    gone end in one RuntimeError. A worker that says nothing for 20 seconds, or takes no tasks for as long, is lost.

    By rows and classes the rows of a lost worker have lost their log-sums too, and begin at the mean of the others'.

Where to look
    `collections` has the parts of what a user gives, and `loading` makes shards of them. `passes` (with `point_passes`,
    `batch_passes` and `merging`) and `blocks` (with `stored_blocks`) are what a shard does, and know nothing of Dask;
    `by_rows` and `by_blocks` let a cluster do it, in the `rounds` that both share. `workers` has the workers,
    `predictions` what a model is asked, `refusals` what is refused, and `costs` what a pass is predicted to take.

Not here: embeddings, weights on pairs, calibration, "head_tail" and searches; early stopping but of one label a row.
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
