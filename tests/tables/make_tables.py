"""Writes special.npz beside this file: the special functions at random points, by mpmath with 80 digits.

Per function and precision: `x`, the points; `value`, the exact results rounded to that precision; `rest`,
what the rounding took away, in units in the last place of `value`. Run: `python tests/tables/make_tables.py`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 80
N_PER_INTERVAL = 400


def wright_omega(x: mp.mpf) -> mp.mpf:
    """w + log w = x. For large x a fixed point, w = x - log w, as e^x has too many digits."""
    if x < 1000:
        return mp.lambertw(mp.exp(x)).real
    w = x
    for _ in range(60):  # each step gains a factor of w >= 900
        w = x - mp.log(w)
    return w


def lambertw(z: mp.mpf) -> mp.mpf:
    """The principal branch."""
    return mp.lambertw(z).real


def mills_ratio(t: mp.mpf) -> mp.mpf:
    """(1 - Phi(t)) / phi(t), t >= 0; for large t its continued fraction, as both underflow."""
    if t < 30:
        return mp.sqrt(mp.pi / 2) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2))
    rest = mp.mpf(0)
    for n in range(400, 0, -1):
        rest = n / (t + rest)
    return 1 / (t + rest)


def log_ndtr(x: mp.mpf) -> mp.mpf:
    if x < 0:
        return mp.log(mills_ratio(-x) / mp.sqrt(2 * mp.pi)) - x * x / 2
    return mp.log1p(-mp.npdf(x) * mills_ratio(x))


def log_ndtr_derivative(x: mp.mpf) -> mp.mpf:
    if x < 0:
        return 1 / mills_ratio(-x)
    return mp.npdf(x) / (1 - mp.npdf(x) * mills_ratio(x))


def log_expit(x: mp.mpf) -> mp.mpf:
    return -mp.log1p(mp.exp(-x)) if x > 0 else x - mp.log1p(mp.exp(x))


def log_expit_derivative(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(x))


def uniform(a: float, b: float, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(a, b, N_PER_INTERVAL)


def log_uniform(a: float, b: float, rng: np.random.Generator) -> np.ndarray:
    return np.exp(rng.uniform(np.log(a), np.log(b), N_PER_INTERVAL))


def table(f: Callable[[Any], Any], x: np.ndarray) -> dict[str, np.ndarray]:
    exact = [f(mp.mpf(v)) for v in x.tolist()]
    value = np.array([float(w) for w in exact]).astype(x.dtype)
    ulp = np.spacing(np.abs(value))
    rest = [float((w - mp.mpf(float(v))) / mp.mpf(float(u))) for w, v, u in zip(exact, value, ulp, strict=True)]
    return {"x": x, "value": value, "rest": np.array(rest, dtype=np.float32)}


def main() -> None:
    rng, noise_rng = np.random.default_rng(0), np.random.default_rng(1)
    columns = {}
    for dtype, low, high in ((np.float64, -745.0, 1.7e308), (np.float32, -103.9, 3.4e38)):
        info = np.finfo(dtype)
        omega = [
            uniform(low, float(np.log(info.tiny)), rng),  # omega is subnormal
            uniform(float(np.log(info.tiny)), -30, rng),
            uniform(-60, 1, rng),
            uniform(-5, 5, rng),
            uniform(1, 100, rng),
            log_uniform(1, high, rng),
        ]
        # -1/e rounded up, so that every z is in the domain.
        branch_point = float(np.nextafter(dtype(-np.exp(-1.0)), dtype(0)))
        lambert = [
            branch_point + log_uniform(float(info.eps), 0.1, rng),
            uniform(branch_point, -0.2, rng),
            uniform(-0.35, 3, rng),
            -log_uniform(float(info.smallest_subnormal), 0.3, rng),
            log_uniform(float(info.smallest_subnormal), 1, rng),
            log_uniform(1, high, rng),
        ]
        # The upper ends are where the results turn subnormal, and where they are 0.
        normal_end, normal_zero = (37.4, 38.4) if dtype is np.float64 else (13.0, 14.1)
        logistic_end, logistic_zero = float(-np.log(info.tiny)), -low
        normal = [
            -log_uniform(1, 1e150 if dtype is np.float64 else 1e19, noise_rng),
            uniform(-40, -1, noise_rng),
            uniform(-2, 2, noise_rng),
            -log_uniform(float(info.tiny), 1, noise_rng),
            log_uniform(float(info.tiny), 1, noise_rng),
            uniform(1, normal_end, noise_rng),
            uniform(normal_end, normal_zero, noise_rng),
        ]
        logistic = [
            -log_uniform(1, high, noise_rng),
            uniform(-40, -1, noise_rng),
            uniform(-2, 2, noise_rng),
            -log_uniform(float(info.tiny), 1, noise_rng),
            log_uniform(float(info.tiny), 1, noise_rng),
            uniform(1, logistic_end, noise_rng),
            uniform(logistic_end, logistic_zero, noise_rng),
        ]
        for name, f, parts in (
            ("wright_omega", wright_omega, omega),
            ("lambertw", lambertw, lambert),
            ("log_ndtr", log_ndtr, normal),
            ("log_ndtr_derivative", log_ndtr_derivative, normal),
            ("log_expit", log_expit, logistic),
            ("log_expit_derivative", log_expit_derivative, logistic),
        ):
            points = np.concatenate(parts).astype(dtype)
            for column, values in table(f, points[points != 0]).items():
                columns[f"{name}_{np.dtype(dtype).name}_{column}"] = values
    np.savez_compressed(Path(__file__).with_name("special.npz"), **columns)


if __name__ == "__main__":
    main()
