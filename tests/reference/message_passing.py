"""Twin of search/message_passing.hpp: Algorithms 1 and 2 of Yen et al. (ICML 2018), in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference.losses import Floats, Loss, cross_entropy, smoothed_margin, triplet

LossOf = Callable[[Floats, Sequence[int]], Loss]


def loss_named(name: str, smoothing: float = 1.0) -> LossOf:
    """A loss of scores and labels by the name that the package gives it."""
    if name == "margin":
        return lambda z, P: smoothed_margin(z, P, smoothing)
    return {"cross_entropy": cross_entropy, "triplet": triplet}[name]


def block_scores(W: NDArray[Any], phi: NDArray[Any], n_blocks: int) -> Floats:
    """The scores z_j of each block of columns, of shape (B, K)."""
    cuts = np.arange(1, n_blocks) * W.shape[1] // n_blocks
    parts = zip(np.split(W.astype(float), cuts, axis=1), np.split(phi.astype(float), cuts), strict=True)
    return np.array([block @ q for block, q in parts])


def best_wrong(z: Floats, P: Sequence[int], budget: int, allowed: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """The wrong classes of highest score, equal ones by id."""
    wrong = np.ones(len(z), dtype=bool) if allowed is None else allowed.copy()
    wrong[list(P)] = False
    ids = np.flatnonzero(wrong)
    found = np.zeros(len(z), dtype=bool)
    found[ids[np.argsort(-z[ids], kind="stable")][:budget]] = True
    return found


@dataclass
class Passed:
    """An answer, and what it was made of: messages and objective before each step and after the last."""

    loss: float
    gradient: Floats
    messages: list[Floats] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)


def message_passing(
    parts: Floats,
    P: Sequence[int],
    loss: LossOf,
    found: NDArray[np.bool_],
    *,
    n_iter: int = 1,
    step: str = "full",
    tolerance: float = 1e-3,
    rest: str = "mask",
    negligible: float = 0.0,
    answer: str = "blocks",
) -> Passed:
    """Pass messages between the blocks' scores `parts` (B, K), of which a search has found some.

    Gradients of at most `negligible` of classes that were never active are left out.
    """
    n_blocks, n_classes = parts.shape
    z = parts.sum(axis=0)
    known = found.copy()
    known[:, list(P)] = True
    exact = np.zeros(n_classes, dtype=bool)
    exact[list(P)] = True
    messages = np.zeros_like(parts)
    passed = Passed(0.0, np.zeros(n_classes))

    def evaluate(j: int) -> Loss:
        scores = n_blocks * (np.where(known[j], parts[j], 0) + messages[j])
        if rest == "zero":
            value, gradient = loss(scores, P)
            return value, np.where(known[j], gradient, 0)
        listed = np.flatnonzero(known[j])
        value, some = loss(scores[listed], list(np.searchsorted(listed, P)))
        gradient = np.zeros(n_classes)
        gradient[listed] = some
        return value, gradient

    for t in range(1, n_iter + 2):
        evaluated = [evaluate(j) for j in range(n_blocks)]
        passed.messages.append(messages.copy())
        passed.objectives.append(float(np.mean([value for value, _ in evaluated])))
        gradients = np.array([gradient for _, gradient in evaluated])
        if t > n_iter:
            break
        active = (np.abs(gradients) > tolerance).any(axis=0)
        active[list(P)] = True
        exact |= active
        known[:, active] = True
        eta = 1.0 if step == "full" else 2 / (t + 2)
        messages[:, active] = eta * (z / n_blocks - parts)[:, active] + (1 - eta) * messages[:, active]
    if answer == "active":
        listed = np.arange(n_classes) if rest == "zero" else np.flatnonzero(exact)
        passed.loss, some = loss(np.where(exact, z, 0)[listed], list(np.searchsorted(listed, P)))
        passed.gradient[listed] = some
        passed.gradient[~exact] = 0
        return passed
    gradients[(np.abs(gradients) <= negligible) & ~exact] = 0
    passed.loss = passed.objectives[-1]
    passed.gradient = gradients.mean(axis=0)
    return passed


def printed_message_passing(
    parts: Floats,
    P: Sequence[int],
    loss: LossOf,
    found: NDArray[np.bool_],
    *,
    n_iter: int = 1,
    step: str = "frank_wolfe",
    tolerance: float = 1e-3,
) -> Passed:
    """Algorithm 2 of Yen et al. (ICML 2018), line by line, over vectors of all K classes."""
    n_blocks, n_classes = parts.shape
    labels = np.isin(np.arange(n_classes), P)
    known = np.where(found | labels, parts, 0.0)  # lines 1 and 2: z~_j
    whole = known.sum(axis=0)
    messages = np.zeros_like(parts)
    passed = Passed(0.0, np.zeros(n_classes))

    def gradients() -> tuple[Floats, Floats]:
        evaluated = [loss(n_blocks * (known[j] + messages[j]), P) for j in range(n_blocks)]
        passed.messages.append(messages.copy())
        passed.objectives.append(float(np.mean([value for value, _ in evaluated])))
        return np.array([value for value, _ in evaluated]), np.array([gradient for _, gradient in evaluated])

    for t in range(1, n_iter + 1):
        active = (np.abs(gradients()[1]) > tolerance).any(axis=0)  # line 4
        best = whole / n_blocks - known  # line 5
        eta = 1.0 if step == "full" else 2 / (t + 2)  # line 6
        messages[:, active] = (eta * best + (1 - eta) * messages)[:, active]  # line 7
    losses, last = gradients()  # line 9
    passed.loss, passed.gradient = float(losses.mean()), last.mean(axis=0)
    return passed
