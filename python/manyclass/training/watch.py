"""What looks on while a training runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manyclass.checks import check_number
from manyclass.training.checkpoint import Checkpoints, Stage
from manyclass.training.passes import Callback
from manyclass.training.plan import FullBatchPlan, Plan
from manyclass.training.validation import Validation


@dataclass(frozen=True)
class Watch:
    """The user's callback, a limit of seconds, points held out.

    `heading` stands before the progress that is shown; `checkpoints` of this fit are written.
    """

    callback: Callback | None = None
    max_seconds: float = np.inf
    validation: Validation | None = None
    heading: str = ""
    checkpoints: Checkpoints | None = None

    @classmethod
    def of(cls, callback: Callback | None, max_seconds: float | None, checkpoints: Checkpoints | None = None) -> Watch:
        """Return what `fit` was given; raise ValueError for a time below 0."""
        if max_seconds is None:
            return cls(callback, checkpoints=checkpoints)
        check_number("max_seconds", max_seconds, low=0)
        return cls(callback, float(max_seconds), checkpoints=checkpoints)

    def stage(self, plan: Plan | FullBatchPlan) -> Stage | None:
        """Return the checkpoints of the next training, which is made as the plan says."""
        return None if self.checkpoints is None else self.checkpoints.stage(replace(plan, n_threads=1, verbose=0))
