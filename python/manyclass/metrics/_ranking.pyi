import numpy as np
from numpy.typing import NDArray

def hits(indptr: NDArray[np.int64], labels: NDArray[np.int32], predicted: NDArray[np.int32]) -> NDArray[np.bool_]: ...
def best_of_rows(
    indptr: NDArray[np.int64], ids: NDArray[np.int32], scores: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
