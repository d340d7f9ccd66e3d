"""Where blocks of classes lie on workers: a buffer each, which the next block overwrites piece by piece.

A worker steps on its block in place, and blocks move on together: each worker gives a copy of a piece of its block,
takes the same piece of the next one into its place, and goes on to the next piece. So it never holds more of W than one
block and two pieces.
"""

from __future__ import annotations

import tempfile
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyclass.dask.shards import Whole
from manyclass.weights.arrays import Floats, aligned_zeros, padded
from manyclass.weights.weights import Weights

# A piece takes up to so many bytes or, where that would be more than MOST_PIECES pieces of a block, a share of it: each
# is two tasks of the scheduler. With many workers it has the more to do for all, hence fewer pieces, FEWEST_OF_LARGE.
PIECE_BYTES = 64 << 20
MOST_PIECES, FEWEST_OF_LARGE, PIECES_OF_ALL = 16, 4, 64


@dataclass(frozen=True)
class Block:
    """Weights of neighbouring classes.

    Attributes
    ----------
    first : int
        Number of the first class.
    weights : Weights
        Of the classes, in the order of the labels; sampled steps have them in an order of their own meanwhile.
    scale : ndarray of shape (n_classes_of_block,), float32
        Factors of the rows of W, which steps with a ridge have instead of smaller weights. Scores are those without.
    """

    first: int
    weights: Weights
    scale: Floats

    def __len__(self) -> int:
        return len(self.scale)

    def __sizeof__(self) -> int:
        """Return how many bytes it takes to move it, which the scheduler asks for."""
        return self.weights.nbytes + self.weights.intercept.nbytes + self.scale.nbytes


def cuts_of(whole: Whole) -> list[int]:
    """Return the first class of each block, of which there is one for each shard, and the number of classes."""
    return [whole.n_classes * number // whole.n_shards for number in range(whole.n_shards + 1)]


def size_of(whole: Whole, number: int) -> int:
    """Return how many numbers a block has: weights, intercepts and factors."""
    first, last = cuts_of(whole)[number : number + 2]
    width = padded(last - first) if whole.sparse else last - first
    return whole.n_features * width + 2 * (last - first)


def bytes_of(whole: Whole, number: int) -> int:
    """Return how many bytes a block has."""
    return 4 * size_of(whole, number)


def room_of(whole: Whole) -> int:
    """Return how many numbers the largest block has."""
    return max(size_of(whole, number) for number in range(whole.n_shards))


def pieces_of(n_bytes: float, n_shards: int) -> int:
    """Return how many pieces a block of so many bytes is moved in."""
    most = min(MOST_PIECES, max(FEWEST_OF_LARGE, PIECES_OF_ALL // n_shards))
    return int(min(most, max(1, -(-n_bytes // PIECE_BYTES))))


def n_pieces(whole: Whole) -> int:
    """Return how many pieces each block is moved in; all are cut in the same places, so that pieces change places."""
    return pieces_of(4 * room_of(whole), whole.n_shards)


def bounds_of(whole: Whole, number: int, piece: int) -> slice:
    """Return where a piece of a block lies in the buffer."""
    room, size, n = room_of(whole), size_of(whole, number), n_pieces(whole)
    return slice(min(size, room * piece // n), min(size, room * (piece + 1) // n))


# Buffers


def buffer_at_zero(whole: Whole, number: int) -> Floats:
    """Return a buffer that any block fits into, and that holds one of W = 0."""
    buffer: Floats = aligned_zeros(1, room_of(whole))[0]
    block_in(whole, buffer, number).scale[:] = 1
    return buffer


def block_in(whole: Whole, buffer: Floats, number: int) -> Block:
    """Return views of the block that lies in a buffer, so that steps on it move what lies there."""
    first, last = cuts_of(whole)[number : number + 2]
    n, size = last - first, size_of(whole, number)
    matrix = buffer[: size - 2 * n].reshape((whole.n_features, -1) if whole.sparse else (n, whole.n_features))
    weights = Weights.linear(matrix, buffer[size - 2 * n : size - n], by_feature=whole.sparse)
    return Block(first, weights, buffer[size - n : size])


def give_piece(whole: Whole, buffer: Floats, number: int, piece: int, *_after: Any) -> Floats:
    """Copy a piece of the block that lies in a buffer, after other tasks."""
    values: Floats = buffer[bounds_of(whole, number, piece)].copy()
    return values


def take_piece(whole: Whole, buffer: Floats, number: int, piece: int, values: Floats, *_after: Any) -> int:
    """Put a piece of a block into a buffer; return the bytes that came."""
    buffer[bounds_of(whole, number, piece)] = values
    return values.nbytes


# Copies on disks


class StoredBlock:
    """A block on the disk of a worker, in a file that is removed with this object.

    Parameters
    ----------
    folder : str
        Where the file is.
    """

    def __init__(self, folder: str | None) -> None:
        self.file = tempfile.TemporaryFile(dir=folder, prefix="manyclass-block-")  # noqa: SIM115 - it stays open
        weakref.finalize(self, self.file.close)

    def write(self, whole: Whole, number: int, piece: int, values: Floats, *_after: Any) -> None:
        """Write a piece of the block, after other tasks."""
        self.file.seek(4 * bounds_of(whole, number, piece).start)
        self.file.write(values.tobytes())

    def read(self, whole: Whole, number: int, piece: int, *_after: Any) -> Floats:
        """Read a piece of the block, after other tasks."""
        bounds = bounds_of(whole, number, piece)
        self.file.seek(4 * bounds.start)
        return np.frombuffer(self.file.read(4 * (bounds.stop - bounds.start)), dtype=np.float32)
