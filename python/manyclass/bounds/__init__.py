r"""Lower bounds of log p(y = k) from the K scores of a point: one-vs-each, its hierarchy, Bouchard and others.

Every function takes scores ``f`` of shape (..., K) and classes ``k`` whose shape broadcasts with ``f.shape[:-1]``, and
returns the bound with its gradient in float64. They are meant for studying and checking bounds: each costs O(K) per
point or more. The estimators train at a cost that does not grow with K.

============================== ===================================================== =============================
function                       bounds log p of                                       variational parameters
============================== ===================================================== =============================
`log_softmax`                  softmax, exactly                                      none
`one_vs_each`                  softmax                                               none
`mixed_bound`, `block_bound`   softmax                                               none
`bouchard`                     softmax                                               a, or the best one
`log_concavity`                softmax                                               u, or the best one
`augment_reduce`               softmax, multinomial probit and multinomial logistic  mu and scale of q
============================== ===================================================== =============================

`merge` and `hierarchy` walk from one-vs-each to the exact softmax. `weight_distance` and `predictive_scores` tell how
near a model trained by a bound comes to the exact one. `double_sum_constants` is no bound of a probability: it has the
constants of Fagan & Iyengar's convergence theorems.
"""

from manyclass.bounds.arrays import Bound, VariationalBound
from manyclass.bounds.augment_reduce import augment_reduce
from manyclass.bounds.closeness import PredictiveScores, predictive_scores, weight_distance
from manyclass.bounds.double_sum import DoubleSumConstants, double_sum_constants, largest_log_normalizer
from manyclass.bounds.hierarchy import block_bound, hierarchy, log_softmax, merge, mixed_bound, one_vs_each
from manyclass.bounds.log_sum_exp import bouchard, bouchard_location, log_concavity

__all__ = [
    "Bound",
    "DoubleSumConstants",
    "PredictiveScores",
    "VariationalBound",
    "augment_reduce",
    "block_bound",
    "bouchard",
    "bouchard_location",
    "double_sum_constants",
    "hierarchy",
    "largest_log_normalizer",
    "log_concavity",
    "log_softmax",
    "merge",
    "mixed_bound",
    "one_vs_each",
    "predictive_scores",
    "weight_distance",
]
