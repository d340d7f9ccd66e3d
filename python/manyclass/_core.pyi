import numpy as np
from numpy.typing import NDArray

def best_isa() -> str: ...

# math
def _exp_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def _log_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def _wright_omega_block(x: NDArray[np.float32], isa: str) -> NDArray[np.float32]: ...
def _log_sum_exp_block(z: NDArray[np.float32], isa: str) -> float: ...
def _log_sum_exp_parts(z: NDArray[np.float64], cuts: NDArray[np.int64]) -> float: ...
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
