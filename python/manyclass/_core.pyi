import numpy as np
from numpy.typing import NDArray

def best_isa() -> str: ...

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
