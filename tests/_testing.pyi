"""Types of the module of what only tests call of the core: tests/cpp/testing."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from manyclass._core import Plan, SkipGramText

_Data = NDArray[np.float32] | tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]

fields: dict[str, dict[str, bool]]

def best_local(
    *,
    noise: str,
    d: NDArray[np.float64],
    counts: NDArray[np.float64],
    nodes: NDArray[np.float64],
    weights: NDArray[np.float64],
    mu: float,
    s: float,
    n_threads: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def gauss_rule(*, family: str, n_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def softmax_totals(
    *,
    x: _Data,
    n_features: int,
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float64],
    n_classes: int,
    labels: NDArray[np.int32],
    sample_weight: NDArray[np.float64] | None = ...,
    n_threads: int,
    isa: str = "auto",
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
def balanced_softmax(
    *,
    x: _Data,
    n_features: int,
    matrix: NDArray[np.float32],
    intercept: NDArray[np.float64],
    n_classes: int,
    labels: NDArray[np.int32],
    sample_weight: NDArray[np.float64] | None = ...,
    normalizers: NDArray[np.float64],
    keep: NDArray[np.float64],
    fill: NDArray[np.float64],
    n_threads: int,
    isa: str = "auto",
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]: ...
def label_odds(
    *,
    scores: NDArray[np.float32],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    n_threads: int,
    temperature: float = ...,
    offset: float = ...,
    lowest: float = ...,
    weights: NDArray[np.float64] = ...,
    log_losses: NDArray[np.float64] = ...,
    label_losses: NDArray[np.float64] = ...,
    own: NDArray[np.float64] = ...,
    counts: NDArray[np.float64] | None = ...,
) -> None: ...
def label_loss(
    loss: str,
    smoothing: float,
    positives: NDArray[np.float32],
    negatives: NDArray[np.float32],
    *,
    rest: float,
    rest_score: float,
    isa: str = "auto",
) -> tuple[float, NDArray[np.float32], NDArray[np.float32], float, bool]: ...
def exp_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def log_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def wright_omega_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def log_ndtr_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def log_ndtr_derivative_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def log_expit_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def log_expit_derivative_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def log_sum_exp_block(z: NDArray[np.float32], isa: str) -> float: ...
def log_sum_exp_parts(z: NDArray[np.float64], cuts: NDArray[np.int64]) -> float: ...
def random_words(seed: int, epoch: int, item: int, n: int) -> list[int]: ...
def random_below(seed: int, epoch: int, item: int, bounds: list[int]) -> list[int]: ...
def draw(
    selection: str,
    n_classes: int,
    n_negatives: int,
    label: int,
    seed: int,
    epoch: int,
    item: int,
    solver: str = "implicit",
    head: list[int] = [],
) -> tuple[list[int], list[float]]: ...
def step(
    *,
    plan: Plan,
    u: float,
    scores: NDArray[np.float32],
    alpha: NDArray[np.float32],
    x_sq: float,
    eta: float,
    eta_u: float,
    scale: float = ...,
    label_score: float = ...,
    visits: int = ...,
    label_alpha: float = ...,
    x_sqs: NDArray[np.float32] = ...,
    times: NDArray[np.float32] = ...,
    item: int = ...,
    seed: int = ...,
    epoch: int = ...,
) -> tuple[NDArray[np.float32], float, float, float, float, float]: ...
def label_step(
    *,
    labels: NDArray[np.float32],
    local: float,
    isa: str,
    scores: NDArray[np.float32],
    alpha: NDArray[np.float32],
    x_sq: float,
    eta: float,
    eta_u: float,
    rule: str = ...,
    reduction: str = ...,
    formulation: str | float = ...,
    rule_options: dict[str, float] = ...,
    label_score: float = ...,
    visits: int = ...,
    label_alpha: float = ...,
    x_sqs: NDArray[np.float32] = ...,
    times: NDArray[np.float32] = ...,
    item: int = ...,
    seed: int = ...,
    epoch: int = ...,
) -> tuple[NDArray[np.float32], NDArray[np.float32], float, float]: ...
def minibatch_prox(
    *,
    gram: NDArray[np.float64],
    scores: NDArray[np.float64],
    shrinks: NDArray[np.float64],
    log_weights: NDArray[np.float64],
    labels: NDArray[np.uint64],
    has_intercept: bool,
    share: float,
    eta: float,
    eta_u: float,
    u: NDArray[np.float64],
    weights: NDArray[np.float64] = ...,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, float, float]: ...
def find_root(
    *,
    finder: str,
    low: float,
    high: float,
    start: float,
    close: float,
    f: Callable[[float], tuple[float, float, float]],
) -> float: ...
def cooccurrences(
    *, text: SkipGramText, seed: int, n_threads: int, memory: int, folder: str
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], int]: ...
def huffman_tree(
    counts: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]: ...
def add_row_softmax(
    *,
    input: NDArray[np.float32],
    output: NDArray[np.float32],
    rows: NDArray[np.int32],
    row_starts: NDArray[np.int64],
    n_threads: int,
    list_starts: NDArray[np.int64] = ...,
    list: NDArray[np.int32] = ...,
    n_found: NDArray[np.int32] = ...,
    drawn_log_weights: NDArray[np.float32] = ...,
    log_z: NDArray[np.float64] = ...,
    input_gradient: NDArray[np.float32] = ...,
    weights: NDArray[np.float64] = ...,
    output_gradient: NDArray[np.float64] = ...,
    left_out_starts: NDArray[np.int64] = ...,
    left_out: NDArray[np.int32] = ...,
) -> None: ...
def group_rows(
    *,
    table: NDArray[np.float32],
    width: int,
    rows: NDArray[np.int32],
    clusters: NDArray[np.int32],
    most: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]: ...
def group_lists(found: NDArray[np.int32], order: NDArray[np.int32]) -> dict[str, NDArray[Any]]: ...
def draw_pairs(text: SkipGramText, n: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
def losses_of_pairs(
    input: NDArray[np.float32], output: NDArray[np.float32], centres: NDArray[np.int32], contexts: NDArray[np.int32]
) -> NDArray[np.float64]: ...
