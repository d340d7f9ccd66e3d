"""The papers' experiments, and a race of all solvers: run once, recorded, reported beside the published values.

The command `manyclass experiment` runs them; each is a file here that says what there is to run, how, and what is told
of it. `EXPERIMENTS` has them by name.
"""

from manyclass.experiments import (
    _augment_reduce,
    _fagan_iyengar,
    _ldgs_skip_gram,
    _loss_decomposition,
    _race,
    _titsias,
)
from manyclass.experiments._engine import Experiment, Options, Outcome, run_experiment
from manyclass.experiments._report import write_report

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        _fagan_iyengar.EXPERIMENT,
        _titsias.EXPERIMENT,
        _augment_reduce.EXPERIMENT,
        _loss_decomposition.EXPERIMENT,
        _race.EXPERIMENT,
        _ldgs_skip_gram.EXPERIMENT,
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Outcome", "run_experiment", "write_report"]
