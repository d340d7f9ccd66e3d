"""Published numbers, by the names of the data sets here. Log-losses and log-likelihoods are in nats per point.

Sources: Fagan & Iyengar 2018 (ICLR submission; "arXiv" is 1803.08577v1) and the runs that its authors recorded with
their code; Titsias, NIPS 2016; Ruiz et al. and Yen et al., ICML 2018. "eurlex57k" stands where they have EURLex-4K:
other rows, other features, other classes, so that numbers beside each other there are no reproduction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def _by_method(methods: Sequence[str], rows: Mapping[str, Sequence[T | None]]) -> dict[str, dict[str, T]]:
    """Values by data set and method; None where nothing was published."""
    return {
        data: {method: value for method, value in zip(methods, row, strict=True) if value is not None}
        for data, row in rows.items()
    }


FAGAN_IYENGAR_SOLVERS = ("ove", "nce", "is", "sgd", "umax", "implicit")

# Table 1: classes, features, rows.
FAGAN_IYENGAR_SHAPES = {
    "mnist": (10, 780, 60_000),
    "bibtex": (147, 1_836, 4_880),
    "delicious": (350, 500, 12_920),
    "eurlex57k": (838, 5_000, 15_539),
}

# Table 2: learning rates in the order of the solvers above, of the mean loss (as in their code).
FAGAN_IYENGAR_RATES = _by_method(
    FAGAN_IYENGAR_SOLVERS,
    {
        "mnist": (1e1, 1e1, 1e1, 1e-2, 1e1, 1e-1),
        "bibtex": (1e2, 1e2, 1e2, 1e-2, 1e-1, 1e1),
        "delicious": (1e1, 1e3, 1e3, 1e-3, 1e-2, 1e-2),
        "eurlex57k": (1e-1, 1e2, 1e2, 1e-3, 1e-1, 1e1),
    },
)

# Table 3: log-loss after 50 passes over Implicit's, ICLR and arXiv. The columns of one-vs-each, NCE and importance
# sampling are not of log-losses: their code applied the softmax twice there.
FAGAN_IYENGAR_RELATIVE = _by_method(
    FAGAN_IYENGAR_SOLVERS,
    {
        "mnist": ((5.73, 5.25), (6.05, 5.55), (5.74, 5.26), (1.43, 1.31), (1.56, 1.40), (1.0, 1.0)),
        "bibtex": ((29.03, 12.65), (28.52, 12.65), (32.71, 12.48), (15.18, 6.61), (9.77, 4.25), (1.0, 1.0)),
        "delicious": ((1.90, 1.77), (1.91, 1.78), (1.89, 1.76), (1.25, 1.16), (1.11, 1.03), (1.0, 1.0)),
        "eurlex57k": ((6.47, 4.65), (6.39, 4.59), (6.38, 4.58), (3.59, 2.58), (2.11, 1.50), (1.0, 1.0)),
    },
)

# The authors' recorded runs: training log-loss (None where it was not one) and training error after the last pass.
FAGAN_IYENGAR_RECORDED = _by_method(
    FAGAN_IYENGAR_SOLVERS,
    {
        "bibtex": (
            (None, 0.20898),
            (None, 0.13541),
            (None, 0.15436),
            (2.20209, 0.37108),
            (1.41439, 0.31374),
            (0.33299, 0.09466),
        ),
        "delicious": ((None, 0.79541), (None, 0.82831), (None, 0.78149), None, None, (3.20331, 0.76790)),
        "eurlex57k": (
            (None, 0.49024),
            (None, 0.41984),
            (None, 0.40617),
            (3.46135, 0.53864),
            (2.01050, 0.42663),
            (1.34150, 0.37222),
        ),
    },
)

# Figure 2: Raman's formulation over the proposed one, log-loss after 50 passes, the mean over learning rates.
FAGAN_IYENGAR_RAMAN = 3.08

# Table 2: norm (None for SOFT, which it is relative to), error, negative log predictive density, on the test set.
TITSIAS_TABLE_2 = _by_method(
    ("SOFT", "BOUCHARD", "OVE", "OVE-SGD"),
    {
        "mnist": ((None, 0.074, 0.271), (0.64, 0.073, 0.333), (0.50, 0.082, 0.287), (0.53, 0.080, 0.278)),
        "20news": ((None, 0.272, 1.263), (0.65, 0.249, 1.337), (0.05, 0.276, 1.297), (0.14, 0.276, 1.312)),
        "bibtex": ((None, 0.622, 2.793), (0.25, 0.621, 2.955), (0.09, 0.636, 2.888), (0.10, 0.633, 2.875)),
    },
)

# Figure 2: sum of absolute errors of the probabilities at the start and at the end, read from the plot.
TITSIAS_FIGURE_2 = {"OVE-SGD": ("near 0.7", "near 0")}

# Figure 3: iterations that its axes show; a minibatch has 200 points.
TITSIAS_ITERATIONS = {"mnist": 200_000, "20news": 1_000_000, "bibtex": 1_000_000}

# Yen et al., ICML 2018, section 5.3: iterations of descent, how much faster than those of GD.
YEN_SPEED = {"GD-Decomp-MIPS": 5.0}

RUIZ_METHODS = ("exact", "OVE", "softmax A&R", "probit A&R", "logistic A&R")

# Table 1: features, classes, training and test points.
RUIZ_SHAPES = {
    "mnist": (784, 10, 60_000, 10_000),
    "bibtex": (1_836, 148, 4_880, 2_413),
    "omniglot": (784, 1_623, 25_968, 6_492),
    "eurlex57k": (5_000, 896, 15_539, 3_809),
}

# Table 1: points and classes of a minibatch, iterations.
RUIZ_MINIBATCHES = {
    "mnist": (500, 1, 35_000),
    "bibtex": (488, 20, 5_000),
    "omniglot": (541, 50, 45_000),
    "eurlex57k": (379, 50, 100_000),
}

# Table 2: seconds of an epoch.
RUIZ_SECONDS = _by_method(
    RUIZ_METHODS,
    {
        "mnist": (None, 0.336, 0.337, 0.431, 0.511),
        "bibtex": (None, 0.181, 0.188, 0.244, 0.246),
        "omniglot": (None, 4.47, 4.65, 5.63, 5.57),
        "eurlex57k": (None, 5.54, 5.65, 6.46, 6.23),
    },
)

# Table 3: test log-likelihood per point and accuracy.
RUIZ_TABLE_3 = _by_method(
    RUIZ_METHODS,
    {
        "mnist": ((-0.261, 0.927), (-0.276, 0.919), (-0.271, 0.924), (-0.302, 0.918), (-0.287, 0.917)),
        "bibtex": ((-3.188, 0.361), (-3.300, 0.352), (-3.036, 0.361), (-4.184, 0.346), (-3.151, 0.353)),
        "omniglot": (None, (-5.667, 0.179), (-5.171, 0.201), (-7.350, 0.178), (-5.395, 0.184)),
        "eurlex57k": (None, (-4.241, 0.247), (-4.593, 0.207), (-4.193, 0.263), (-4.299, 0.226)),
    },
)

# Section 4.1: points and classes of a minibatch, iterations.
RUIZ_SYNTHETIC_MINIBATCHES = (500, 100, 500_000)

# Section 4: the first step size, its factor, and the iterations after which the factor is applied.
RUIZ_STEP, RUIZ_DECAY, RUIZ_DECAY_ITERATIONS = 0.02, 0.9, 2000

# Section 4: standard deviations of the first weights and intercepts.
RUIZ_START = (0.1, 0.001)

# Section 4.1: effective classes, log-likelihood bound of all points, mean absolute error of the probabilities.
RUIZ_SYNTHETIC_CLASSES = 9_035
RUIZ_SYNTHETIC = {"softmax A&R": (-2.62e6, 3.00e-6), "OVE": (-1.40e9, 3.65e-6)}
