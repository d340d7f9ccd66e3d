# The extension module manyclass._core; one section per bind_<stage>.cpp.
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A sparse matrix as (indptr, indices, data) of canonical CSR, or a dense one.
_Csr = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
_Data = _Csr | NDArray[np.float32]

def best_isa() -> str: ...
def by_openmp() -> bool: ...
def most_threads() -> int: ...
def team_size(n_threads: int) -> int: ...

# bind_registry

# The facts of every part, and what may be set of them; python/manyclass/registry.py reads them and says what they are.
def registry() -> list[Any]: ...
def settings() -> list[Any]: ...

# bind_interrupts

class TimeIsUpError(Exception): ...

def limit_seconds(seconds: float) -> None: ...

# bind_train

most_temperature: float  # of calibrations
most_offset: float
curvature_gain: float  # steps by curvature are so many times the inverse of the curvature

def end_posterior_pass(
    *,
    means: NDArray[np.float32],
    collected: NDArray[np.float32],
    precisions: NDArray[np.float32],
    variances: NDArray[np.float32],
    width: int,
    n_used: int,
    prior: float,
    mean_weight: float,
    most: float,
    n_pass: int,
) -> float: ...
def step_size(schedule: str, eta_0: float, decay: float, epoch: int) -> float: ...
def sum_of_steps(schedule: str, decay: float, n_passes: int) -> float: ...
def class_order(n_classes: int, seed: int) -> NDArray[np.int32]: ...
def multiply_by_ways(
    matrix: NDArray[np.float32],
    *,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    curvatures: NDArray[np.float64],
    rates: NDArray[np.float64],
    coupling: float,
    least: float,
    moved_least: float,
    n_moved: NDArray[np.float32],
    inverse: bool,
) -> None: ...
def coupling_of(n_shards: int, together: float, furthest: float) -> float: ...
def add_changes(
    rows: NDArray[np.int32],
    matrix: NDArray[np.float32],
    shares: NDArray[np.float32],
    total: NDArray[np.float32],
    n_moved: NDArray[np.float32],
) -> None: ...
def accumulate(
    total: NDArray[np.float32],
    weights: NDArray[np.float32],
    scale: NDArray[np.float32],
    of_columns: bool,
    n_threads: int,
) -> None: ...
def reorder_columns(weights: NDArray[np.float32], source: NDArray[np.int32], n_threads: int) -> None: ...
def reorder_rows(weights: NDArray[np.float32], source: NDArray[np.int32]) -> None: ...

# Structs, whose fields `fields` lists with whether each must be given; so are those of `Trainer.labels`, `Trainer.run`,
# `skip_gram_trainer` and others that take keywords alone.
fields: dict[str, dict[str, bool]]

class Plan:
    def __init__(
        self,
        *,
        solver: str,
        selection: str,
        n_negatives: int,
        options: dict[str, float],
        seed: int,
        n_threads: int,
        batch: int,
        shuffle: bool,
        isa: str,
        formulation: str | float = ...,
        root: str = ...,
        partition: str = ...,
        first_point: int = ...,
        mean_of_batch: bool = ...,
        share_classes: bool = ...,
        hogwild: bool = ...,
        ridge: float = ...,
        exact_first_u: bool = ...,
        u_max: float = ...,
        max_norm: float | None = ...,
        decay: float = ...,
        decay_every: int | None = ...,
        noise: str = ...,
        local_step: str = ...,
        bound: str = ...,
        gain: float = ...,
        power: float = ...,
        floor: float = ...,
        family: LocalFamily = ...,
    ) -> None: ...

class State:
    def __init__(
        self,
        *,
        labels: NDArray[np.int32],
        x_sq: NDArray[np.float32],
        u: NDArray[np.float64],
        weights: NDArray[np.float32],
        intercept: NDArray[np.float32],
        n_classes: int,
        scale: NDArray[np.float32] = ...,
        norm_sq: NDArray[np.float64] = ...,
        squares: NDArray[np.float32] = ...,
        intercept_squares: NDArray[np.float32] = ...,
        gradients: NDArray[np.float32] = ...,
        intercept_gradients: NDArray[np.float32] = ...,
        heads: NDArray[np.int32] = ...,
        local_scale: NDArray[np.float64] = ...,
        sample_weight: NDArray[np.float64] | None = ...,
        counts: NDArray[np.float64] | None = ...,
        others: NDArray[np.float64] = ...,
        n_elsewhere: float = ...,
        feature_squares: NDArray[np.float64] = ...,
        feature_squares_now: NDArray[np.float64] = ...,
        curvatures: NDArray[np.float64] = ...,
    ) -> None: ...

class Progress:
    @property
    def visits(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def class_updates(self) -> int: ...
    @property
    def diverged_at(self) -> int: ...
    @property
    def tokens(self) -> int: ...
    @property
    def pairs(self) -> int: ...
    @property
    def loss_pairs(self) -> int: ...
    @property
    def refused(self) -> int: ...

class Trainer:
    @staticmethod
    def points(plan: Plan, x: _Data, n_features: int, state: State) -> Trainer: ...
    @staticmethod
    def posterior(
        plan: Plan,
        x: _Data,
        n_features: int,
        state: State,
        variances: NDArray[np.float32],
        collected: NDArray[np.float32],
    ) -> Trainer: ...
    @staticmethod
    def labels(
        arrays: LabelArrays,
        *,
        loss: str,
        smoothing: float,
        implicit: bool,
        source: str,
        selection: str,
        n_negatives: int,
        options: dict[str, float],
        log_alpha: bool,
        seed: int,
        n_threads: int,
        batch: int,
        shuffle: bool,
        share_classes: bool,
        isa: str,
        local_step: float = ...,
        index: Any = ...,
        budget: int = ...,
        n_probe: int = ...,
        fill: bool = ...,
        n_iter: int = ...,
        step: str = ...,
        tolerance: float = ...,
        message_rule: str = ...,
        threshold: float | None = ...,
        rule: str = ...,
        reduction: str = ...,
        formulation: str | float = ...,
        rule_options: dict[str, float] = ...,
        first_point: int = ...,
        inverse_every: int = ...,
        ridge: float = ...,
    ) -> Trainer: ...
    def run(
        self,
        *,
        epoch: int,
        eta: float,
        eta_u: float,
        first: int,
        last: int,
        loss: float = ...,
        eta_end: float = ...,
        seconds: float = ...,
    ) -> Progress: ...

class LabelArrays:
    def __init__(
        self,
        *,
        x: _Data,
        labels_indptr: NDArray[np.int64],
        labels: NDArray[np.int32],
        embeddings: NDArray[np.float32],
        embedding_squares: NDArray[np.float32],
        classes: NDArray[np.float32],
        class_squares: NDArray[np.float32],
        n_features: int,
        n_hidden: int,
        intercept: bool,
        relu: bool,
        centre: NDArray[np.float32] = ...,
        feature_intercept: NDArray[np.float32] = ...,
        sample_weight: NDArray[np.float64] | None = ...,
        local: NDArray[np.float64] = ...,
        counts: NDArray[np.float64] | None = ...,
        embedding_ridge: float = ...,
    ) -> None: ...

# bind_weights

_Halves = NDArray[np.uint16]
_Bytes = NDArray[np.int8]

class CountMixture:
    def __init__(
        self,
        *,
        counts: NDArray[np.float32] = ...,
        totals: NDArray[np.float32] = ...,
        own: NDArray[np.int32] = ...,
        share: float = ...,
        shrinkage: float = ...,
        counts_own: bool = ...,
        repeats: float = ...,
        power: float = ...,
        rate: float = ...,
        kept: int = ...,
    ) -> None: ...

class LabelMixtures:
    def __init__(
        self,
        weights: Weights,
        x: _Csr,
        labels: NDArray[np.int32],
        sample_weight: NDArray[np.float64],
    ) -> None: ...
    def add_scores(self, first: int, scores: NDArray[np.float32]) -> None: ...
    def loss(
        self,
        share: float,
        repeats: float,
        *,
        shrinkage: float,
        has_own: bool,
        counts_own: bool,
        power: float,
        rate: float,
    ) -> tuple[float, list[float]]: ...
    def best_shares(
        self, *, shrinkage: float, has_own: bool, counts_own: bool, power: float, rate: float
    ) -> tuple[dict[str, Any], bool, float]: ...
    def best(self) -> tuple[dict[str, Any], bool, float] | None: ...

class Weights:
    def __init__(
        self,
        *,
        rows: NDArray[np.float32] | _Halves | _Bytes,
        row_scales: NDArray[np.float32],
        by_feature: bool,
        indptr: NDArray[np.int64],
        classes: NDArray[np.int32] | NDArray[np.uint16],
        values: NDArray[np.float32] | _Halves | _Bytes,
        value_scales: NDArray[np.float32],
        intercept: NDArray[np.float32],
        n_features: int,
        coded: bool,
        mixture: CountMixture,
        embeddings: NDArray[np.float32] | _Halves | _Bytes = ...,
        embedding_scales: NDArray[np.float32] = ...,
        centre: NDArray[np.float32] = ...,
        features: NDArray[np.int32] | None = ...,
        n_hidden: int = ...,
        intercept_column: bool = ...,
        relu: bool = ...,
        block_numbers: int = ...,
    ) -> None: ...
    def log_losses(
        self, x: _Data, labels: NDArray[np.int32], scale: NDArray[np.float32], n_threads: int, isa: str = "auto"
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]: ...
    def log_normalizers(
        self, x: _Data, scale: NDArray[np.float32], n_threads: int, isa: str = "auto"
    ) -> NDArray[np.float64]: ...
    def top_k(
        self, x: _Data, k: int, scale: NDArray[np.float32], n_threads: int, isa: str = "auto"
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
    def top_wrong(
        self,
        x: _Data,
        labels: NDArray[np.int32],
        classes: NDArray[np.int32],
        scale: NDArray[np.float32],
        n_threads: int,
        isa: str = "auto",
    ) -> None: ...
    def scores(
        self, x: _Data, scale: NDArray[np.float32], n_threads: int, isa: str = "auto"
    ) -> NDArray[np.float32]: ...
    def log_probabilities(
        self,
        x: _Data,
        noise: str,
        classes: NDArray[np.int32],
        scale: NDArray[np.float32],
        n_threads: int,
        isa: str = "auto",
    ) -> NDArray[np.float64]: ...
    def feature_weights(
        self, k: int, features: NDArray[np.int32], values: NDArray[np.float64]
    ) -> NDArray[np.float64]: ...
    def phi(self, x: _Data, n_threads: int, isa: str = "auto") -> NDArray[np.float32]: ...
    def mean_curvatures(self, x: _Data, scale: NDArray[np.float32], n_threads: int) -> NDArray[np.float64]: ...
    def calibration(
        self,
        x: _Data,
        indptr: NDArray[np.int64],
        labels: NDArray[np.int32],
        sample_weight: NDArray[np.float64],
        noise: str | None,
        scale: NDArray[np.float32],
        n_threads: int,
    ) -> tuple[float, float, float, float]: ...
    def label_log_losses(
        self,
        x: _Data,
        indptr: NDArray[np.int64],
        labels: NDArray[np.int32],
        temperature: float,
        offset: float,
        scale: NDArray[np.float32],
        n_threads: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

def magnitude_bar(*, numbers: NDArray[np.float32], width: int, stride: int, n_kept: int) -> int: ...
def reaching(
    *, numbers: NDArray[np.float32], width: int, stride: int, bar: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]: ...
def hash_features(x: _Csr, n_features: int, n_columns: int, seed: int) -> _Csr: ...
def place_classes(
    from_: NDArray[np.float32], position: NDArray[np.int64], of_columns: bool, to: NDArray[np.float32]
) -> None: ...
def byte_codes(
    numbers: NDArray[np.float32], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int8], NDArray[np.float32]]: ...
def label_scores(
    x: _Csr | NDArray[np.float32],
    labels: NDArray[np.int32],
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float32],
    by_feature: bool,
    n_features: int,
) -> NDArray[np.float64]: ...
def feature_scaling(
    x: _Csr | NDArray[np.float32],
    n_features: int,
    *,
    row_weights: NDArray[np.float64],
    centre: bool,
    first_rows: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def scaled_features(
    x: _Csr | NDArray[np.float32], n_features: int, shift: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float32]: ...
def fold_scaling(
    shift: NDArray[np.float64],
    scale: NDArray[np.float64],
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float32],
    by_feature: bool,
) -> None: ...
def unfold_scaling(
    shift: NDArray[np.float64],
    scale: NDArray[np.float64],
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float32],
    by_feature: bool,
) -> None: ...
def n_held() -> int: ...

# bind_output_layer

class Sampler:
    def __init__(
        self,
        selection: str,
        *,
        n_classes: int,
        n_negatives: int,
        options: dict[str, float],
        labels: NDArray[np.int32],
    ) -> None: ...
    def layer_gradient(
        self,
        *,
        x: NDArray[np.float32],
        labels: NDArray[np.int32],
        items: NDArray[np.int64],
        weights: NDArray[np.float32],
        intercept: NDArray[np.float32],
        u: NDArray[np.float64],
        delta: float,
        seed: int,
        step: int,
        n_threads: int,
        isa: str = "auto",
    ) -> dict[str, Any]: ...

def exact_layer_gradient(
    *,
    x: NDArray[np.float32],
    weights: NDArray[np.float32],
    intercept: NDArray[np.float32],
    labels: NDArray[np.int32],
    dW: NDArray[np.float32],
    db: NDArray[np.float32],
    dX: NDArray[np.float32],
    n_threads: int,
    isa: str = "auto",
) -> NDArray[np.float64]: ...

# bind_utilities

class LocalFamily:
    def __init__(self, *, noise: str, name: str, n_nodes: int, n_classes: int) -> None: ...
    def best_bounds(
        self, noise: str, scores: NDArray[np.float32], labels: NDArray[np.int32], n_threads: int
    ) -> NDArray[np.float64]: ...
    def __getstate__(self, /) -> tuple[Any, ...]: ...
    def __setstate__(self, arg0: tuple[Any, ...]) -> None: ...
    @property
    def nodes(self) -> NDArray[np.float64]: ...
    @property
    def weights(self) -> NDArray[np.float64]: ...
    @property
    def name(self) -> str: ...
    @property
    def entropy(self) -> float: ...
    @property
    def largest_scale(self) -> float: ...
    @property
    def mu(self) -> float: ...
    @property
    def s(self) -> float: ...

def utility_probabilities(
    *, noise: str, psi: NDArray[np.float64], log: bool, n_threads: int, isa: str = "auto"
) -> NDArray[np.float64]: ...
def utility_probabilities_at(
    *, noise: str, psi: NDArray[np.float64], classes: NDArray[np.int32], log: bool, n_threads: int, isa: str = "auto"
) -> NDArray[np.float64]: ...
def sampled_utility_log_probabilities(
    *,
    noise: str,
    psi: NDArray[np.float64],
    labels: NDArray[np.int32],
    n_samples: int,
    seed: int,
    n_threads: int,
    isa: str = "auto",
) -> NDArray[np.float64]: ...

# bind_bounds

def utility_bounds(
    *,
    noise: str,
    f: NDArray[np.float64],
    labels: NDArray[np.int32],
    mu: NDArray[np.float64],
    s: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
def block_bounds(
    f: NDArray[np.float64], labels: NDArray[np.int32], blocks: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def bouchard_bounds(
    f: NDArray[np.float64], labels: NDArray[np.int32], a: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
def bouchard_locations(f: NDArray[np.float64]) -> NDArray[np.float64]: ...
def sampled_one_vs_each(
    f: NDArray[np.float64], labels: NDArray[np.int32], drawn: NDArray[np.int32], p: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def one_vs_each_proposal(f: NDArray[np.float64], labels: NDArray[np.int32], uniform: float) -> NDArray[np.float64]: ...
def one_vs_each_variances(
    f: NDArray[np.float64], labels: NDArray[np.int32], p: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def block_numbers(
    classes: NDArray[np.int32], sizes: NDArray[np.int64], labels: NDArray[np.int32], n_classes: int
) -> NDArray[np.int32]: ...
def predictive_scores(f: NDArray[np.float64], labels: NDArray[np.int32]) -> tuple[float, float]: ...
def one_vs_each_of_classes(f: NDArray[np.float64]) -> NDArray[np.float64]: ...
def maximum_one_vs_each(counts: NDArray[np.float64]) -> float: ...
def largest_log_normalizer(max_norm: float, largest_x: float, n_classes: float) -> float: ...
def double_sum_constants(
    counts: NDArray[np.float64], largest_x: float, alpha: float, max_norm: float | None
) -> tuple[float, float, float, float]: ...
def tangent_slopes(
    f: NDArray[np.float64], labels: NDArray[np.int32], u: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def paired_log_likelihood(
    winner: NDArray[np.int32], loser: NDArray[np.int32], wins: NDArray[np.float64], f: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]: ...
def paired_scores(
    winner: NDArray[np.int32], loser: NDArray[np.int32], wins: NDArray[np.float64], n_classes: int, tol: float
) -> tuple[NDArray[np.float64], int, int]: ...

# bind_gradient

def loss_and_gradient(
    *,
    loss: str,
    x: _Data,
    n_features: int,
    matrix: NDArray[np.float64],
    intercept: NDArray[np.float64],
    n_classes: int,
    labels: NDArray[np.int32],
    sample_weight: NDArray[np.float64] | None = ...,
    room: NDArray[np.float64] = ...,
    gradient: NDArray[np.float64],
    intercept_gradient: NDArray[np.float64],
    n_threads: int,
    isa: str = "auto",
) -> float: ...

class FullBatch:
    def __init__(
        self,
        *,
        x: _Data,
        n_features: int,
        labels: NDArray[np.int32],
        n_classes: int,
        loss: str,
        alpha: float,
        fit_intercept: bool,
        n_threads: int,
        sample_weight: NDArray[np.float64] | None = ...,
        isa: str = "auto",
        room: int = ...,
        nonzeros_a_feature: float = ...,
    ) -> None: ...
    def iterate(self, tolerance: float) -> bool: ...
    def read(self, matrix: NDArray[np.float32], intercept: NDArray[np.float32]) -> None: ...
    def write(self, matrix: NDArray[np.float32], intercept: NDArray[np.float32]) -> None: ...
    @property
    def theta(self) -> NDArray[np.float64]: ...
    @property
    def value(self) -> float: ...
    @property
    def largest_slope(self) -> float: ...
    @property
    def n_kept(self) -> int: ...

def duality_gap_on_pairs(
    *,
    x: _Csr,
    n_features: int,
    indptr: NDArray[np.int64],
    classes: NDArray[np.int32],
    values: NDArray[np.float32],
    intercept: NDArray[np.float64],
    labels: NDArray[np.int32],
    sample_weight: NDArray[np.float64] | None = ...,
    alpha: float,
    squares: float,
    fit_intercept: bool,
    n_threads: int,
    isa: str = "auto",
) -> tuple[float, float]: ...
def duality_gap(
    *,
    x: _Data,
    n_features: int,
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float64],
    n_classes: int,
    labels: NDArray[np.int32],
    sample_weight: NDArray[np.float64] | None = ...,
    alpha: float,
    squares: float,
    fit_intercept: bool,
    n_threads: int,
    isa: str = "auto",
) -> tuple[float, float]: ...
def block_normalizers(
    log_sums: NDArray[np.float64], number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def take_normalizers(
    before: NDArray[np.float64],
    v: NDArray[np.float64],
    elsewhere: NDArray[np.float64],
    number: int,
    log_sums: NDArray[np.float64],
) -> None: ...
def best_over_blocks(
    classes: NDArray[np.int32],
    scores: NDArray[np.float64],
    log_sums: NDArray[np.float64],
    of_labels: NDArray[np.float64],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]: ...
def exact_block_steps(
    *,
    x: _Data,
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float32],
    labels: NDArray[np.int32],
    isa: str = "auto",
    log_sums: NDArray[np.float64],
    sample_weight: NDArray[np.float64] | None = ...,
    number: int,
    order: NDArray[np.int32],
    together: int,
    eta: float,
    alpha: float,
    fit_intercept: bool,
) -> tuple[float, bool]: ...
def estimated_log_sums(
    *,
    x: _Data,
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float32],
    labels: NDArray[np.int32],
    isa: str = "auto",
    scale: NDArray[np.float32],
    classes: NDArray[np.int32],
    log_weights: NDArray[np.float64],
) -> NDArray[np.float64]: ...

# bind_mixed

class MixedProblem:
    def __init__(
        self,
        *,
        problem: ChoiceProblem,
        persons: NDArray[np.int64],
        columns: NDArray[np.int32],
        signs: NDArray[np.float64],
        spreads: NDArray[np.int32],
        shifts: NDArray[np.int32],
        n_coefficients: int,
    ) -> None: ...
    def person_scores(
        self, draws: NDArray[np.float32], begin: int, theta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def person_coefficients(
        self, draws: NDArray[np.float32], begin: int, theta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def mean_probabilities(
        self, draws: NDArray[np.float32], begin: int, theta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

# bind_choice

class ChoiceForm:
    def __init__(
        self,
        *,
        model: str,
        n_chooser_features: int,
        n_alternative_features: int,
        n_pair_features: int,
        n_own_tastes: int,
        rank: int,
        groups: NDArray[np.int64],
        n_groups: int,
        nests: NDArray[np.int32],
        n_nests: int,
    ) -> None: ...
    def sizes(self) -> tuple[int, int, int, int, int]: ...
    def has_scores(self) -> bool: ...
    def interactions(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...

class ChoiceProblem:
    def __init__(
        self,
        *,
        form: ChoiceForm,
        n_threads: int,
        isa: str = ...,
        n_rows: int,
        X: NDArray[np.float64],
        Z: NDArray[np.float64],
        constants: NDArray[np.float64],
        indptr: NDArray[np.int64],
        alternatives: NDArray[np.int32],
        pair_features: NDArray[np.float64],
        offsets: NDArray[np.float64],
        listed_only: bool,
        Z_indptr: NDArray[np.int64] = ...,
        Z_indices: NDArray[np.int32] = ...,
        log_weights: NDArray[np.float64] = ...,
        chosen: NDArray[np.int32] = ...,
        weights: NDArray[np.float64] = ...,
    ) -> None: ...
    def losses(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def objective(self, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]: ...
    def inclusive_values(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def double_sum(
        self, theta: NDArray[np.float64], log_normalizers: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]: ...
    def log_products(
        self, theta: NDArray[np.float64], node_weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def scores(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def hessian(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def squared_spread(self, directions: NDArray[np.float64]) -> float: ...
    def utilities(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def probabilities(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def most_probable(self, theta: NDArray[np.float64], n: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...

def draw_choice_sets(
    *,
    indptr: NDArray[np.int64],
    alternatives: NDArray[np.int32],
    listed_only: bool,
    rows: NDArray[np.int64],
    chosen: NDArray[np.int32],
    shares: NDArray[np.float64],
    share: float,
    n_draws: int,
    seed: int,
    epoch: int,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]: ...

# bind_label_sets

def label_hits(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], predicted: NDArray[np.int32]
) -> NDArray[np.bool_]: ...
def twice_predicted(predicted: NDArray[np.int32]) -> tuple[int, int]: ...
def ranking_means(
    measure: str,
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    predicted: NDArray[np.int32],
    places: NDArray[np.int64],
) -> NDArray[np.float64]: ...
def ranking_shares(
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    predicted: NDArray[np.int32],
    places: NDArray[np.int64],
    gains: NDArray[np.float64],
) -> NDArray[np.float64]: ...
def labels_covered(predicted: NDArray[np.int32], places: NDArray[np.int64], n_labels: int) -> list[int]: ...
def best_threshold(
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    predicted: NDArray[np.int32],
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    n: int,
) -> float | None: ...
def sort_rows(indptr: NDArray[np.int64], ids: NDArray[np.int32]) -> tuple[int, int]: ...
def best_of_rows(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], scores: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
def best_but(
    *,
    rows: NDArray[np.int32],
    classes: NDArray[np.int32],
    values: NDArray[np.float32],
    indptr: NDArray[np.int64],
    excluded: NDArray[np.int32],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
def label_stands(log_p: NDArray[np.float64], labels: NDArray[np.int32]) -> NDArray[np.float64]: ...
def conformal_threshold(
    stands: NDArray[np.float64], coverage: float, penalty: float = 0.0, free_rank: int = 1
) -> float: ...
def set_sizes(
    log_p: NDArray[np.float32], penalty: float, free_rank: int, threshold: float, all_classes: bool
) -> NDArray[np.int64]: ...
def labels_above(
    scores: NDArray[np.float32], limit: float, by_softmax: bool, with_best: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def best_classes(log_p: NDArray[np.float64], k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
def reliability_bins(
    confidence: NDArray[np.float64], right: NDArray[np.bool_], n_bins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
def most_confused(labels: NDArray[np.int64], predictions: NDArray[np.int64], most: int) -> NDArray[np.int64]: ...

class Hierarchy:
    def __init__(self, parents: list[int], n_classes: int) -> None: ...
    def circle(self) -> list[int]: ...
    def deepest(self, p: NDArray[np.float64], least: float) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...

# bind_losses

def losses(
    scores: NDArray[np.float32],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    *,
    loss: str,
    smoothing: float = 0.0,
    isa: str = "auto",
) -> tuple[NDArray[np.float64], NDArray[np.float32]]: ...
def implicit_margins(
    scores: NDArray[np.float32],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    *,
    smoothing: float,
    eta: float,
    x_sq: NDArray[np.float64],
    isa: str = "auto",
) -> tuple[NDArray[np.float64], NDArray[np.float32]]: ...
def loss_at_zero(
    loss: str, labels_indptr: NDArray[np.int64], n_classes: int, weights: NDArray[np.float64]
) -> float: ...
def class_text_scales(
    *,
    scores: NDArray[np.float32],
    alike: _Csr,
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    counts: NDArray[np.float64],
    has_text: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> dict[str, Any]: ...
def unlike_texts(
    x: _Csr, indptr: NDArray[np.int64], ids: NDArray[np.int32], texts: _Csr, n_features: int
) -> NDArray[np.bool_]: ...
def best_scales(
    *,
    terms: list[NDArray[np.float32]],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    loss: str,
    start: list[float],
    low: list[float],
    high: list[float] = ...,
    n_threads: int,
    weights: NDArray[np.float64] = ...,
    sum_of: NDArray[np.float64] = ...,
) -> tuple[list[float], float]: ...
def learnt_scales(
    *,
    terms: list[NDArray[np.float32]],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    loss: str,
    means: NDArray[np.float64],
    precisions: NDArray[np.float64],
    least: float,
    n_threads: int,
    weights: NDArray[np.float64] = ...,
    sum_of: NDArray[np.float64] = ...,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def bisimplex_projections(
    scores: NDArray[np.float32],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    *,
    isa: str = "auto",
) -> NDArray[np.float32]: ...

# bind_search

def norm_of_longest(rows: NDArray[np.float32]) -> float: ...
def spherical_kmeans(
    rows: NDArray[np.float32],
    *,
    n_clusters: int,
    n_iter: int,
    sample_per_cluster: int,
    radius: float,
    seed: int,
    n_threads: int,
    isa: str = "auto",
) -> dict[str, Any]: ...
def centred_class_rows(
    weights: NDArray[np.float32], scale: NDArray[np.float32], intercept: NDArray[np.float32]
) -> NDArray[np.float32]: ...
def predicted_microseconds(
    *, n_classes: int, n_columns: int, values: float, sparse: bool, n_clusters: int, share: float, n_exact: int
) -> tuple[float, float]: ...

class ByteRows:
    def __init__(
        self, rows: NDArray[np.float32], *, n_coded: int, has_intercept: bool, n_threads: int, isa: str = "auto"
    ) -> None: ...
    def best(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        normalizers: bool,
        twice: bool,
        n_threads: int,
        isa: str = "auto",
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]] | None: ...

class ClusterIndex:
    def __init__(
        self,
        rows: NDArray[np.float32],
        centroids: NDArray[np.float32],
        *,
        radius: float,
        labels: NDArray[np.int32],
        n_threads: int,
        code_bits: int = 8,
        row_bits: int = 32,
        isa: str = "auto",
    ) -> None: ...
    @staticmethod
    def of_codes(
        codes: NDArray[np.uint8],
        centroids: NDArray[np.float32],
        *,
        radius: float,
        labels: NDArray[np.int32],
        n_threads: int,
        code_bits: int,
        row_bits: int,
        isa: str = "auto",
    ) -> ClusterIndex: ...
    def query(
        self,
        x: _Data,
        *,
        k: int,
        n_probe: int,
        excluded_indptr: NDArray[np.int64],
        excluded_ids: NDArray[np.int32],
        n_threads: int,
        isa: str = "auto",
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]: ...
    def query_above(
        self,
        x: _Data,
        *,
        thresholds: NDArray[np.float32],
        n_probe: int,
        excluded_indptr: NDArray[np.int64],
        excluded_ids: NDArray[np.int32],
        n_threads: int,
        isa: str = "auto",
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]: ...
    def log_normalizers(
        self,
        x: _Data,
        *,
        scores: NDArray[np.float32],
        ids: NDArray[np.int64],
        sample_size: int,
        seed: int,
        first: int,
        n_threads: int,
        isa: str = "auto",
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def update(
        self, ids: NDArray[np.int32], rows: NDArray[np.float32], *, n_threads: int, isa: str = "auto"
    ) -> None: ...
    def best_classes(
        self,
        x: _Data,
        *,
        k: int,
        n_head: int,
        n_tail: int,
        n_probe: int,
        seed: int,
        first: int,
        n_threads: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]: ...
    def fill_heads(
        self,
        x: NDArray[np.float32],
        labels: NDArray[np.int32],
        n_probe: int,
        heads: NDArray[np.int32],
        n_threads: int,
    ) -> None: ...
    def remove(self, ids: NDArray[np.int32]) -> None: ...
    def n_rows(self) -> int: ...
    def rows_by_rank(
        self,
        x: NDArray[np.float32],
        *,
        k: int,
        excluded_indptr: NDArray[np.int64],
        excluded_ids: NDArray[np.int32],
        n_threads: int,
    ) -> NDArray[np.int64]: ...
    def rows(self) -> NDArray[np.float32]: ...
    def stored(self) -> NDArray[np.float32] | NDArray[np.uint8]: ...
    def n_bytes(self) -> int: ...
    def labels(self) -> NDArray[np.int32]: ...
    def imbalance(self) -> float: ...
    def loss_and_gradient(
        self,
        *,
        x: NDArray[np.float32],
        labels_indptr: NDArray[np.int64],
        labels: NDArray[np.int32],
        loss: str,
        smoothing: float,
        budget: int,
        threshold: float,
        n_probe: int,
        until_enough: bool,
        n_iter: int,
        step: str,
        tolerance: float,
        rest: str,
        answer: str,
        rule: str = "exact_scores",
        fill: bool = False,
        n_threads: int,
        isa: str = "auto",
    ) -> dict[str, Any]: ...

# bind_decomposed

class DecomposedIndex:
    def __init__(
        self,
        rows: NDArray[np.float32],
        centroids: list[NDArray[np.float32]],
        *,
        labels: list[NDArray[np.int32]],
        n_threads: int,
        isa: str = "auto",
    ) -> None: ...
    def query(
        self,
        x: NDArray[np.float32],
        *,
        k: int,
        budget: int = 0,
        n_probe: int,
        excluded_indptr: NDArray[np.int64],
        excluded_ids: NDArray[np.int32],
        n_threads: int,
        isa: str = "auto",
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]: ...
    def update(
        self, ids: NDArray[np.int32], rows: NDArray[np.float32], *, n_threads: int, isa: str = "auto"
    ) -> None: ...
    def remove(self, ids: NDArray[np.int32]) -> None: ...
    def n_rows(self) -> int: ...
    def rows_by_rank(
        self,
        x: NDArray[np.float32],
        *,
        k: int,
        excluded_indptr: NDArray[np.int64],
        excluded_ids: NDArray[np.int32],
        n_threads: int,
    ) -> NDArray[np.int64]: ...
    def rows(self) -> NDArray[np.float32]: ...
    def stored(self) -> NDArray[np.float32]: ...
    def labels(self) -> NDArray[np.int32]: ...
    def loss_and_gradient(
        self,
        *,
        x: NDArray[np.float32],
        labels_indptr: NDArray[np.int64],
        labels: NDArray[np.int32],
        loss: str,
        smoothing: float,
        budget: int,
        threshold: float,
        n_probe: int,
        until_enough: bool,
        n_iter: int,
        step: str,
        tolerance: float,
        rest: str,
        answer: str,
        rule: str = "exact_scores",
        fill: bool = False,
        n_threads: int,
        isa: str = "auto",
    ) -> dict[str, Any]: ...

# math

# io

def read_xmc(
    text: NDArray[np.uint8],
    name: str,
    header: bool | None,
    zero_based: bool,
    n_features: int | None,
    n_labels: int | None,
    n_threads: int,
) -> tuple[
    int,
    int,
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.float32],
    NDArray[np.int64],
    NDArray[np.int32],
]: ...
def xmc_header(line: bytes, name: str, header: bool | None) -> tuple[int, int, int] | None: ...

class XmcBlocks:
    @property
    def n_features(self) -> int: ...
    @property
    def n_labels(self) -> int: ...
    def __init__(
        self,
        name: str,
        header: bool | None,
        zero_based: bool,
        n_features: int | None,
        n_labels: int | None,
        longest_line: int,
        n_threads: int,
    ) -> None: ...
    def add(
        self, piece: bytes
    ) -> tuple[
        int,
        int,
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.float32],
        NDArray[np.int64],
        NDArray[np.int32],
    ]: ...

class CsvReader:
    def __init__(self, name: str, delimiter: str, decimal: str, longest_line: int, most_blank: int) -> None: ...
    def add(self, piece: bytes) -> None: ...
    def header(self) -> list[str] | None: ...
    def take(
        self,
        numbers: Sequence[int],
        cells: Sequence[int],
        size: int,
        all_counted: bool,
        name: str,
        names: Sequence[str],
    ) -> tuple[NDArray[np.float32], list[list[str]]] | None: ...

def read_sparse_arff(text: bytes, name: str) -> tuple[int, NDArray[np.int64], NDArray[np.int32]]: ...
def split_labels(cells: Sequence[str], separator: str) -> list[list[str]]: ...
def tabbed_texts(
    lines: Sequence[str], separator: str, fewest: int
) -> tuple[list[str], list[list[str]], tuple[int, int, int] | None]: ...
def marked_texts(lines: Sequence[str], mark: str) -> tuple[list[str], list[list[str]]]: ...
def unit_rows(values: NDArray[Any], indptr: NDArray[Any]) -> NDArray[Any]: ...
def largest_of_columns(values: NDArray[Any], columns: NDArray[Any], n_columns: int) -> NDArray[np.float64]: ...
def label_columns(
    rows: Sequence[Sequence[str]],
) -> tuple[NDArray[np.int64] | list[str], NDArray[np.int64], NDArray[np.int32], int]: ...
def all_integers(labels: Sequence[str]) -> bool: ...
def take_svmlight_labels(text: NDArray[np.uint8], name: str) -> list[list[str]]: ...
def known_items(items: NDArray[np.int32], starts: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
def next_items(
    items: NDArray[np.int32], starts: NDArray[np.int64], n_first: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
def recency_rows(
    items: NDArray[np.int32], begins: NDArray[np.int64], ends: NDArray[np.int64], n_last: int, decay: float
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]: ...
def draw_from_softmax(
    patterns: NDArray[np.int32],
    value: float,
    weights: NDArray[np.float64],
    pattern_of_row: NDArray[np.int64],
    uniforms: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]: ...
def is_canonical(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.float32], n_features: int
) -> bool: ...

# parts

# skip_gram

class TextReader:
    def __init__(self) -> None: ...
    def add(self, text: bytes, last: bool) -> tuple[NDArray[np.int32], NDArray[np.int64]]: ...
    def add_lists(
        self, sentences: Iterator[Iterable[str]], most: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], bool]: ...
    def vocabulary(
        self, least: int, known: dict[str, int]
    ) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.int32], int]: ...
    @property
    def n_words(self) -> int: ...

def word_rows(
    body: bytes, n_words: int, dim: int, name: str, binary: bool
) -> tuple[list[bytes], NDArray[np.float32]]: ...

class SkipGramText:
    def __init__(
        self,
        *,
        tokens: NDArray[np.int32],
        sentences: NDArray[np.int64],
        keep: NDArray[np.float64],
        window: int,
        shrink: bool,
    ) -> None: ...

def kept_shares(counts: NDArray[np.int64], sample: float, by_word2vec: bool) -> NDArray[np.float64]: ...
def row_norms(values: NDArray[Any], scales: NDArray[np.float32]) -> NDArray[np.float32]: ...
def cosines(values: NDArray[Any], scales: NDArray[np.float32], vector: NDArray[np.float64]) -> NDArray[np.float32]: ...
def nearest_words(cosines: NDArray[np.float32], k: int, left_out: NDArray[np.int64]) -> NDArray[np.int64]: ...
def renumber(
    tokens: NDArray[np.int32], rows: NDArray[np.int32], ends: NDArray[np.int64], longest: int
) -> NDArray[np.int64]: ...

class WordPasses:
    loss: float
    loss_pairs: int
    refused: int
    def __init__(
        self,
        trainer: Trainer,
        input: NDArray[np.float32],
        output: NDArray[np.float32],
        carried: NDArray[np.float64],
        *,
        first_rate: float,
        last_rate: float,
        eta_u: float,
        n_passes: int,
        first_pass: int,
        n_visits: int,
        careful: bool,
    ) -> None: ...
    def run(self, n_pass: int, first: int, seconds: float) -> Progress: ...
    def has_overflowed(self) -> bool: ...
    def go_back(self) -> bool: ...

def skip_gram_trainer(
    *,
    text: SkipGramText,
    input: NDArray[np.float32],
    output: NDArray[np.float32],
    carried: NDArray[np.float64],
    counts: NDArray[np.int64],
    solver: str,
    n_negatives: int,
    power: float,
    share: bool,
    options: dict[str, float],
    seed: int,
    n_threads: int,
    isa: str,
) -> Trainer: ...

# bind_plans

class Footprint:
    def __init__(
        self,
        *,
        n_features: int,
        n_classes: int,
        copies: int,
        row: float,
        stored: float,
        window: int,
        dim: int | None = ...,
    ) -> None: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    def of_model(self) -> float: ...
    def of_row(self) -> float: ...
    def total(self, rows: int) -> float: ...
    def least(self, rows: int = ...) -> float: ...
    def needed(self, rows: int, may_hash: bool) -> float: ...
    def rows_within(self, n_bytes: float) -> int: ...
    def with_features(self, n: int) -> Footprint: ...
    def within(self, n_bytes: float, rows: int, may_hash: bool) -> tuple[int, int | None] | None: ...

# bind_probe

class Probe:
    many_passes: int
    free_pairs: float
    share: float
    def __init__(
        self,
        *,
        n_points: int,
        n_classes: int,
        n_passes: int,
        n_drawn: int,
        at_zero: float,
        minimised: bool = ...,
        has_integrals: bool = ...,
    ) -> None: ...
    def look(self, n_iter: int, losses: NDArray[np.float64], weights: NDArray[np.float64]) -> bool: ...
    def best(self) -> tuple[float, int]: ...
    def last(self) -> float: ...
    def verdict(self) -> str | None: ...
    @property
    def n_points(self) -> int: ...
    @property
    def passes(self) -> list[int]: ...
    @property
    def least_rise(self) -> float: ...
    looks: dict[int, tuple[float, float]]

def class_means(
    x: NDArray[np.float32], labels: NDArray[np.int32], n_classes: int, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.float32]]: ...
def within_classes(
    x: NDArray[np.float32],
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    rows: NDArray[np.int64],
    counts: NDArray[np.float64],
    centre: NDArray[np.float32],
    means: NDArray[np.float32],
) -> NDArray[np.float64]: ...
def shrink_means(
    counts: NDArray[np.float64], variances: NDArray[np.float64], means: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float64]] | None: ...
def pass_seconds(n_points: int, n_stored: int, n_met: int) -> float: ...
def averaged_passes(
    n_passes: int, averages: bool, suffix: bool, n_weights: int, of_a_pass: float
) -> tuple[int, int, int]: ...
def add_iterate(
    total: NDArray[np.float32],
    intercept_total: NDArray[np.float32],
    weights: NDArray[np.float32],
    intercept: NDArray[np.float32],
    scale: NDArray[np.float32],
    of_columns: bool,
    n_threads: int,
) -> None: ...
def write_mean_iterate(
    total: NDArray[np.float32],
    intercept_total: NDArray[np.float32],
    n: int,
    weights: NDArray[np.float32],
    intercept: NDArray[np.float32],
) -> None: ...

class StepWalk:
    @property
    def exponents(self) -> list[int]: ...
    @property
    def losses(self) -> list[float]: ...
    def __init__(self, first: list[int], lowest: int, highest: int) -> None: ...
    def next(self) -> int | None: ...
    def tell(self, loss: float) -> None: ...
    def best(self) -> int: ...

def rows_of_whole_classes(
    labels: NDArray[np.int32], order: NDArray[np.int64], n_rows: int, fewest: int
) -> NDArray[np.int64] | None: ...
def folds_of(labels: NDArray[np.int32], order: NDArray[np.int64], n_folds: int) -> NDArray[np.int64]: ...
def spare_points(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], order: NDArray[np.int64], n: int
) -> NDArray[np.bool_]: ...
def balanced_weights(
    labels: NDArray[np.int32], n_classes: int, weights: NDArray[np.float64]
) -> NDArray[np.float64]: ...
def class_shares(
    labels: NDArray[np.int32], n_classes: int, n_rows: int, weights: NDArray[np.float64]
) -> NDArray[np.float64]: ...
def points_of_batch(labels: NDArray[np.int32], n_classes: int, every_class: bool) -> int: ...
def squares_of_features(x: _Data, n_features: int, weights: NDArray[np.float64]) -> NDArray[np.float64]: ...
def alike(squares: NDArray[np.float64]) -> NDArray[np.float64]: ...
def set_new_intercepts(
    position: NDArray[np.int64],
    before: NDArray[np.float64],
    now: NDArray[np.float64],
    intercept: NDArray[np.float32],
) -> None: ...
def steps_between(first: float, last: float, n_passes: int) -> tuple[float, float]: ...
def steps_by_sums(
    before: NDArray[np.float64], now: NDArray[np.float64], per_sum: float, n_passes: int
) -> tuple[float, float]: ...
def steps_kept_above(first: float, last: float, least: float, n_passes: int) -> tuple[float, float] | None: ...

class CarriedRows:
    def __init__(self, n_rows: int, n_numbers: int) -> None: ...
    def of(self, rows: NDArray[np.int64]) -> list[NDArray[np.float64]]: ...
    def put(self, rows: NDArray[np.int64], which: int, values: NDArray[np.float64]) -> None: ...

def best_shrinking(
    sums: NDArray[np.float64], squares: NDArray[np.float64], factors: NDArray[np.float64], n: float
) -> float: ...
def shrinking_gains(
    scores: NDArray[np.float32],
    intercept: NDArray[np.float32],
    labels: NDArray[np.int32],
    factors: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def mean_and_error(values: NDArray[np.float64], weights: NDArray[np.float64]) -> tuple[float, float]: ...

# bind_pairs

def support(
    x: _Csr,
    n_features: int,
    labels_indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    n_classes: int,
    min_count: int,
    few_classes: int = ...,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def weights_met(
    x: _Csr,
    n_features: int,
    labels_indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    n_classes: int,
    times: NDArray[np.int64],
    least: list[int],
    few_classes: int = ...,
) -> list[int]: ...

class PairUnion:
    def __init__(
        self,
        *,
        indptr: NDArray[np.int64],
        classes: NDArray[np.int32],
        position: NDArray[np.int32],
        other_indptr: NDArray[np.int64],
        other_classes: NDArray[np.int32],
        n_classes: int,
    ) -> None: ...
    @property
    def indptr(self) -> NDArray[np.int64]: ...
    @property
    def classes(self) -> NDArray[np.int32]: ...
    def spread(self, numbers: NDArray[np.float32]) -> NDArray[np.float32]: ...
    def sum(self, a: float, x: NDArray[np.float32], b: float, y: NDArray[np.float32]) -> NDArray[np.float32]: ...

def sequence_rows(
    *,
    indptr: NDArray[np.int64],
    features: NDArray[np.int32],
    next: NDArray[np.int32],
    rows: NDArray[np.int32],
    most: int,
) -> tuple[float, float, NDArray[np.int32]]: ...
def count_pairs(
    *,
    x: _Csr,
    n_features: int,
    labels_indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    row_weights: NDArray[np.float64],
    indptr: NDArray[np.int64],
    classes: NDArray[np.int32],
    n_classes: int,
    counts: NDArray[np.float32],
    totals: NDArray[np.float32],
) -> None: ...
def pairs_trainer(
    *,
    x: _Csr,
    n_features: int,
    labels_indptr: NDArray[np.int64],
    labels: NDArray[np.int32],
    indptr: NDArray[np.int64],
    classes: NDArray[np.int32],
    values: NDArray[np.float32],
    squares: NDArray[np.float32],
    intercept: NDArray[np.float32],
    intercept_squares: NDArray[np.float32],
    offset: float,
    intercept_offset: float,
    sample_weight: NDArray[np.float64] | None = ...,
    smoothing: float = ...,
    loss: str,
    rounding: float,
    seed: int,
    first_point: int = ...,
    ridge: float = ...,
    n_threads: int,
    batch: int,
    hogwild: bool,
    shuffle: bool,
    isa: str,
) -> Trainer: ...

# word_pairs

class PairShares:
    @property
    def contexts(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]: ...
    @property
    def centres(self) -> NDArray[np.float64]: ...
    @property
    def words_as_contexts(self) -> NDArray[np.float64]: ...
    @property
    def n_pairs(self) -> float: ...
    @property
    def n_spilled(self) -> int: ...
    def __init__(
        self, contexts: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]], centres: NDArray[np.float64]
    ) -> None: ...
    @staticmethod
    def count(*, text: SkipGramText, seed: int, n_threads: int, memory: int, folder: str) -> PairShares: ...
    def losses(
        self, input: NDArray[np.float32], output: NDArray[np.float32], rows: NDArray[np.int32], n_threads: int
    ) -> NDArray[np.float64]: ...
    def tree_losses(
        self,
        input: NDArray[np.float32],
        output: NDArray[np.float32],
        rows: NDArray[np.int32],
        counts: NDArray[np.int64],
        n_threads: int,
    ) -> NDArray[np.float64]: ...
    def objective(
        self,
        input: NDArray[np.float32],
        output: NDArray[np.float32],
        *,
        n_draws: int,
        seed: int,
        n_threads: int,
        tree_counts: NDArray[np.int64] | None,
    ) -> float: ...

def word_log_normalizers(
    input: NDArray[np.float32], output: NDArray[np.float32], n_threads: int
) -> NDArray[np.float64]: ...
def mean_loss_of_pairs(
    text: SkipGramText, input: NDArray[np.float32], output: NDArray[np.float32], n: int, seed: int
) -> tuple[int, float, float]: ...

class WordDescent:
    output_rate: float
    def __init__(
        self,
        pairs: PairShares,
        *,
        input: NDArray[np.float32],
        output: NDArray[np.float32],
        input_rates: NDArray[np.float64],
        output_rate: float,
        found: str,
        budget: int,
        dim: int,
        group: int,
        seed: int,
        n_threads: int,
    ) -> None: ...
    def search_in(self, index: ClusterIndex | DecomposedIndex, n_probe: int) -> None: ...
    def step(self) -> float: ...
    def move_input(self) -> None: ...
    def follow(self) -> None: ...
    def input_gradient(self) -> tuple[NDArray[np.float64], NDArray[np.float32]]: ...
    def output_gradient(self) -> tuple[float, NDArray[np.float32]]: ...
    def losses(self) -> NDArray[np.float64]: ...
    def value(self) -> float: ...
