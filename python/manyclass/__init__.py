"""Categorical models with very many classes, trained on the true normalised likelihood.

Environment variables:

- MANYCLASS_DATA: the folder with data sets for experiments and benchmarks.
- MANYCLASS_ISA: "baseline", "avx2" or "avx512", beyond which the core uses no instruction set; else what there is.
- MANYCLASS_HUGE_PAGES: "0" to ask the system for no huge pages for the core's own tables. Weights are NumPy's arrays,
  for which NUMPY_MADVISE_HUGEPAGE says the same.
- OMP_NUM_THREADS: the most threads of a team, whatever `n_jobs` says. Teams are OpenMP's, where the package was built
  with it, so that its other variables, threadpoolctl and the limits of joblib's processes hold for them, too.
- MANYCLASS_TEAMS: "always" to share small batches among threads even where one of them alone is faster, for tests.
"""

import importlib.util
import sys
from typing import TYPE_CHECKING

from manyclass.version import __version__ as __version__

if TYPE_CHECKING:
    from manyclass import models as models
    from manyclass import samplers as samplers
    from manyclass import solvers as solvers
    from manyclass.choice.model import ChoiceClassifier as ChoiceClassifier
    from manyclass.classifiers.margin import MarginClassifier as MarginClassifier
    from manyclass.classifiers.saving import load as load
    from manyclass.classifiers.softmax import SoftmaxClassifier as SoftmaxClassifier
    from manyclass.classifiers.tuning import tune_learning_rate as tune_learning_rate
    from manyclass.classifiers.utility import AugmentReduceClassifier as AugmentReduceClassifier
    from manyclass.datasets import load_xmc as load_xmc
    from manyclass.search.decomposed import DecomposedIndex as DecomposedIndex
    from manyclass.search.spherical import SphericalClusterIndex as SphericalClusterIndex
    from manyclass.words.skip_gram import SkipGram as SkipGram
    from manyclass.words.vectors import WordVectors as WordVectors

# scikit-learn and SciPy take most of a second to load, so a name is loaded where it is first used (PEP 562).
_HOMES = {
    "AugmentReduceClassifier": "classifiers.utility",
    "ChoiceClassifier": "choice.model",
    "DecomposedIndex": "search.decomposed",
    "MarginClassifier": "classifiers.margin",
    "SkipGram": "words.skip_gram",
    "SoftmaxClassifier": "classifiers.softmax",
    "SphericalClusterIndex": "search.spherical",
    "WordVectors": "words.vectors",
    "load": "classifiers.saving",
    "load_xmc": "datasets",
    "tune_learning_rate": "classifiers.tuning",
}
__all__ = sorted([*_HOMES, "__version__", "models", "samplers", "solvers"])


# A type checker reads the imports above instead: to it, this function would make every misspelt name an object.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
            return globals()[name]
        if importlib.util.find_spec(f"{__name__}.{name}") is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return importlib.import_module(f"{__name__}.{name}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
