"""Twins of the double sum of several labels, from the definitions: values are written out, slopes taken of them.

P are a row's labels, S drawn wrong classes with weights alpha; u and n are numbers that the row carries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from reference.label_training import LabelTwin, Seen
from reference.steps import RULES

Floats = NDArray[np.float64]
TINY = 1e-40  # the imaginary step: slopes of analytic functions without a difference


def loss(reduction: str, labels: Floats, wrong: Floats) -> float:
    """The loss of a row over all classes."""
    if reduction == "decoupled":
        return float(sum(logsumexp(np.append(wrong, z)) - z for z in labels))
    each = logsumexp(np.append(labels, wrong)) - labels
    return float(each.mean() if reduction == "pick_all_normalized" else each.sum())


def value(reduction: str, carry: float, carried: complex, labels: Floats, wrong: Floats, alpha: Floats) -> complex:
    """The sum over classes that stands for the loss: above it, equal at the best carried number, linear in alpha."""
    if reduction == "decoupled":
        total, e_n = np.sum(alpha * np.exp(wrong)), np.exp(carried)
        return sum(np.log1p(np.exp(carried - z)) + (total - e_n) / (np.exp(z) + e_n) for z in labels)
    r = np.mean(labels)
    u = carried - carry * r
    a = np.sum(np.exp(labels - r)) + np.sum(alpha * np.exp(wrong - r))
    return (1 if reduction == "pick_all_normalized" else len(labels)) * (u + np.exp(-u) * a - 1)


def slopes(f: Callable[[NDArray[np.complex128]], complex], at: Floats) -> Floats:
    """df/dx of an analytic f, to rounding."""
    return np.array([f(at + 1j * TINY * e).imag / TINY for e in np.eye(len(at))])


@dataclass
class Rule:
    """A solver of labels with its settings."""

    name: str = "sgd"
    reduction: str = "pick_all"
    carry: float = 0.0
    numbers: dict[str, float] = field(default_factory=dict)

    def step(
        self, labels: Floats, wrong: Floats, alpha: Floats, carried: float, eta_u: float, visits: int
    ) -> tuple[Floats, float, float]:
        """(gradient of labels and wrong classes, carried number, value) of an explicit step."""
        counts = alpha > 0
        offset = self.carry * np.mean(labels)
        if self.reduction == "decoupled":
            log_a = logsumexp(wrong, b=alpha) if counts.any() else -600.0
            bound = logsumexp(wrong[counts]) if counts.any() else -600.0
        else:
            r = np.mean(labels)
            log_a = logsumexp(np.append(labels, wrong) - r, b=np.append(np.ones(len(labels)), alpha))
            bound = logsumexp(np.append(labels, wrong[counts]) - r)
        rule, numbers = RULES[self.name], SimpleNamespace(**self.numbers, eta_u=eta_u, visits=visits)
        at = rule.after(numbers, carried - offset, log_a, bound) + offset

        def f(x: NDArray[np.complex128]) -> complex:
            n = len(labels)
            return value(self.reduction, self.carry, x[0], x[1 : n + 1], x[n + 1 :], alpha)

        x = np.concatenate([[at], labels, wrong])
        g = slopes(f, x)
        return g[1:], at - eta_u * g[0] * rule.steps, float(f(x).real)


@dataclass
class DoubleSumTwin(LabelTwin):
    """Training of labels whose steps are those of the double sum."""

    rule: Rule = field(default_factory=Rule)
    u_rate: float = 1.0  # in units of the rate of W
    carried: Floats = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.carried = np.full(len(self.X), np.log(self.n_classes))

    def look(self, t: int, i: int, eta: float, named_by: int = 0) -> Seen:
        """One point at the present weights."""
        phi, P = self.features(i), list(self.labels[i])
        wrong, log_alpha = self.wrong_classes(t, i, phi, named_by)
        classes: Sequence[int] = [*P, *wrong]
        z, n = self.W[classes] @ phi, len(P)
        alpha = np.exp(np.broadcast_to(log_alpha, len(wrong)))
        g, self.carried[i], found = self.rule.step(z[:n], z[n:], alpha, self.carried[i], eta * self.u_rate, t)
        r = 1.0 if self.sample_weight is None else float(self.sample_weight[i] / np.mean(self.sample_weight))
        return Seen(i, phi, np.array(classes, dtype=np.int64), r * g, r * found)
