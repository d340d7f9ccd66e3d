"""The papers' experiments, and a race of all solvers: run once, recorded, reported beside the published values.

The command `manyclass experiment` runs them; each is a file here that says what there is to run, how, and what is told
of it. `EXPERIMENTS` has them by name.
"""

from manyclass.papers import augment_reduce, fagan_iyengar, ldgs_skip_gram, loss_decomposition, race, titsias
from manyclass.papers.data import fetch_missing
from manyclass.papers.engine import Experiment, Options, Outcome, run_experiment
from manyclass.papers.summary import write_report

_MODULES = (fagan_iyengar, titsias, augment_reduce, loss_decomposition, race, ldgs_skip_gram)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Outcome", "fetch_missing", "run_experiment", "write_report"]
