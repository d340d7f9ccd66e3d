"""manyclass.special and the vectorised functions of math/: accuracy, limits, the ufunc contract."""

import functools
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from house import ROOT
from testing_core import pieces

import manyclass
from manyclass import _core
from manyclass.special import lambertw, log_expit, log_expit_derivative, log_ndtr, log_ndtr_derivative, wright_omega

TABLES = np.load(ROOT / "tests/tables/special.npz")
NOISE_UFUNCS = [log_ndtr, log_ndtr_derivative, log_expit, log_expit_derivative]
UFUNCS = [wright_omega, lambertw, *NOISE_UFUNCS]
DTYPES = [np.float32, np.float64]
ALL_ISAS = ["baseline", "avx2", "avx512"]
ISAS = ALL_ISAS[: ALL_ISAS.index(_core.best_isa()) + 1]

# The bounds that the headers state, in units in the last place of the exact result. A float comes of a double
# rounded once.
ULP = {
    ("wright_omega", np.float64): 2.0,
    ("lambertw", np.float64): 3.0,
    ("log_ndtr", np.float64): 4.0,
    ("log_ndtr_derivative", np.float64): 4.0,
    ("log_expit", np.float64): 2.0,
    ("log_expit_derivative", np.float64): 3.0,
    ("wright_omega", np.float32): 0.51,
    ("lambertw", np.float32): 0.51,
    ("log_ndtr", np.float32): 0.51,
    ("log_ndtr_derivative", np.float32): 0.51,
    ("log_expit", np.float32): 0.51,
    ("log_expit_derivative", np.float32): 0.51,
}


def ulps(got, want):
    """Distance of float32 `got` from float64 `want` in units in the last place of the latter as a float32."""
    return np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)


@functools.lru_cache(maxsize=2)  # instruction sets ask for the same, one after the other
def in_double(f, *ends):
    """Floats, and what a function is there."""
    x = floats_between(*ends)
    return x, f(x.astype(np.float64))


def floats_between(low, high, step=997):
    """Every step-th float32 of [low, high] except 0."""

    def rank(v):  # ..., -1 of the float next below 0, 0 of 0, 1 of the float next above, ...
        bits = int(np.float32(abs(v)).view(np.uint32))
        return bits if v >= 0 else -bits

    ranks = np.arange(rank(low), rank(high) + 1, step, dtype=np.int64)
    x = np.abs(ranks).astype(np.uint32).view(np.float32)
    return np.copysign(x, ranks.astype(np.float32))[ranks != 0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", UFUNCS, ids=lambda f: f.__name__)
def test_error_is_within_the_bound_on_the_whole_domain(f, dtype):
    name = f"{f.__name__}_{np.dtype(dtype).name}"
    x, value, rest = (TABLES[f"{name}_{column}"] for column in ("x", "value", "rest"))
    assert x.size >= 2000
    assert x.dtype == dtype
    got = f(x)
    assert got.dtype == dtype
    # got - value is exact or large; dividing by a unit in the last place is exact unless it is subnormal too.
    error = np.abs((got - value) / np.spacing(np.abs(value)) - rest)
    worst = error.argmax()
    assert error[worst] <= ULP[f.__name__, dtype], f"at {x[worst]!r}: {got[worst]!r}, not {value[worst]!r}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_wright_omega_has_its_limits(dtype):
    info = np.finfo(dtype)
    with np.errstate(under="ignore"):
        got = wright_omega(np.array([-np.inf, info.min, -0.0, 1.0, info.max, np.inf, np.nan], dtype=dtype))
    omega_of_0 = dtype(0.5671432904097838729999686622)
    np.testing.assert_allclose(got[2], omega_of_0, rtol=2 * info.eps)
    np.testing.assert_array_equal(np.delete(got, 2), np.array([0, 0, 1, info.max, np.inf, np.nan], dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_lambertw_has_its_limits(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    z = np.array([-np.exp(-1.0), -tiny, -0.0, 0.0, tiny, np.inf, np.nan], dtype=dtype)
    got = lambertw(z)
    np.testing.assert_array_equal(got, np.array([-1, -tiny, -0.0, 0.0, tiny, np.inf, np.nan], dtype=dtype))
    assert np.signbit(got[2])
    assert not np.signbit(got[3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_lambertw_below_its_domain_obeys_the_error_state(dtype):
    below = np.nextafter(dtype(-np.exp(-1.0)), dtype(-1))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(lambertw(np.array([below, -1, -np.inf])), np.nan)
    with (
        pytest.warns(RuntimeWarning, match="invalid value encountered in lambertw"),
        np.errstate(invalid="warn"),
    ):
        lambertw(below)
    with pytest.raises(FloatingPointError), np.errstate(invalid="raise"):
        lambertw(below)


@pytest.mark.parametrize("dtype", DTYPES)
def test_logs_of_distribution_functions_have_their_limits(dtype):
    info = np.finfo(dtype)
    x = np.array([-np.inf, info.min, -0.0, 0.0, info.max, np.inf, np.nan], dtype=dtype)
    log_half, slope = dtype(-np.log(2.0)), dtype(np.sqrt(2 / np.pi))
    for f, want in [
        (log_ndtr, [-np.inf, -np.inf, log_half, log_half, 0, 0, np.nan]),
        (log_ndtr_derivative, [np.inf, info.max, slope, slope, 0, 0, np.nan]),
        (log_expit, [-np.inf, info.min, log_half, log_half, 0, 0, np.nan]),
        (log_expit_derivative, [1, 1, 0.5, 0.5, 0, 0, np.nan]),
    ]:
        with np.errstate(over="ignore", under="ignore"):
            np.testing.assert_allclose(f(x), np.array(want, dtype=dtype), rtol=4 * info.eps, atol=0)


@pytest.mark.parametrize("f", NOISE_UFUNCS, ids=lambda f: f.__name__)
def test_no_overflow_or_underflow_of_an_intermediate_value_is_reported(f):
    x = np.array([-1e18, -1e3, -40.0, -1e-30, 0.0, 3.0, -np.inf, np.nan])
    with np.errstate(all="raise"):
        f(x)
        f(x.astype(np.float32))


@pytest.mark.parametrize("f", [wright_omega, lambertw], ids=lambda f: f.__name__)
def test_no_error_is_reported_where_the_result_shows_none(f):
    huge = np.array([1e30, 1e300, np.inf, np.nan, 3.0, 1e-3, -0.2])
    with np.errstate(all="raise"):
        f(huge)
        f(huge[[0, 2, 3]].astype(np.float32))
        wright_omega(np.array([-700.0, -40.0, -1e-300]))


def test_underflow_is_reported_on_request():
    with np.errstate(all="raise", under="ignore"):
        assert wright_omega(-1000.0) == 0
    with pytest.raises(FloatingPointError, match="underflow"), np.errstate(under="raise"):
        wright_omega(-1000.0)


@pytest.mark.parametrize("f", UFUNCS, ids=lambda f: f.__name__)
class TestUfuncContract:
    def test_it_is_a_ufunc_of_floats_and_doubles(self, f):
        assert isinstance(f, np.ufunc)
        assert (f.nin, f.nout, f.types) == (1, 1, ["f->f", "d->d"])
        assert "ulp" in f.__doc__

    def test_dtypes_follow_numpys_safe_casts(self, f):
        for given, result in [
            (np.float16, np.float32),
            (np.int16, np.float32),
            (np.int32, np.float64),
            (np.int64, np.float64),
            (np.uint64, np.float64),
        ]:
            got = f(np.array([1, 2], dtype=given))
            assert got.dtype == result
            np.testing.assert_array_equal(got, f(np.array([1, 2], dtype=result)))
        assert isinstance(f(2), np.float64)
        with pytest.raises(TypeError):
            f(1j)

    def test_shapes_are_kept(self, f):
        for shape in [(), (0,), (3, 0), (2, 3, 4)]:
            assert np.shape(f(np.ones(shape))) == shape

    def test_memory_layout_does_not_matter(self, f):
        x = np.linspace(0.1, 5, 24).reshape(4, 6)
        want = np.array([[f(v) for v in row] for row in x])
        read_only = x.copy()
        read_only.flags.writeable = False
        unaligned = np.zeros(24 * 8 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(4, 6)
        unaligned[...] = x
        for given in [read_only, unaligned, x.astype(">f8"), np.asfortranarray(x)]:
            np.testing.assert_array_equal(f(given), want)
        np.testing.assert_array_equal(f(x[::-2, ::3]), want[::-2, ::3])
        np.testing.assert_array_equal(f(np.broadcast_to(x[0], (3, 6))), np.broadcast_to(want[0], (3, 6)))

    def test_out_and_where_write_where_they_are_told(self, f):
        x = np.array([0.5, 1.0, 2.0])
        out = np.full((2, 3), 7.0)
        returned = f(x, out=out, where=[[True, False, True], [False, False, True]])
        assert returned is out
        y = f(x)
        np.testing.assert_array_equal(out, [[y[0], 7, y[2]], [7, 7, y[2]]])
        f(x, out=x)
        np.testing.assert_array_equal(x, y)


def test_the_two_functions_agree():
    x = np.linspace(-30, 700, 10001)
    # Half an ulp of e^x moves W(e^x) by eps / 2 / (1 + W); 2 and 3 ulp are the functions' own.
    np.testing.assert_allclose(lambertw(np.exp(x)), wright_omega(x), rtol=6 * np.finfo(float).eps)


@pytest.mark.parametrize("isa", ISAS)
class TestVectorised:
    """The straight-line float functions, on every 997th float."""

    def test_exp_errs_by_2_ulp_at_most(self, isa):
        x = floats_between(-87.33, 88.72)
        assert ulps(pieces.exp_block(x, isa), np.exp(x.astype(np.float64))).max() <= 2

    def test_exp_errs_by_1_spacing_where_it_is_subnormal(self, isa):
        x = floats_between(-110, -87.33)
        error = np.abs(pieces.exp_block(x, isa) - np.exp(x.astype(np.float64)))
        assert error.max() <= np.finfo(np.float32).smallest_subnormal

    def test_log_errs_by_2_ulp_at_most(self, isa):
        x = floats_between(0, 3.4e38)
        assert x.min() < 1e-40
        assert ulps(pieces.log_block(x, isa), np.log(x.astype(np.float64))).max() <= 2
        near_1 = floats_between(0.7, 1.5, step=7)
        assert ulps(pieces.log_block(near_1, isa), np.log(near_1.astype(np.float64))).max() <= 2

    def test_wright_omega_errs_by_2_ulp_at_most(self, isa):
        x = floats_between(-87.33, 3.4e38)
        assert ulps(pieces.wright_omega_block(x, isa), wright_omega(x.astype(np.float64))).max() <= 2
        near_the_joins = np.concatenate([floats_between(a - 0.5, a + 0.5, step=7) for a in (-4.0, 4.0)])
        want = wright_omega(near_the_joins.astype(np.float64))
        assert ulps(pieces.wright_omega_block(near_the_joins, isa), want).max() <= 2

    def test_wright_omega_errs_by_2_spacings_where_it_is_subnormal(self, isa):
        x = floats_between(-110, -87.33)
        error = np.abs(pieces.wright_omega_block(x, isa) - wright_omega(x.astype(np.float64)))
        assert error.max() <= 2 * np.finfo(np.float32).smallest_subnormal

    @pytest.mark.parametrize(
        ("block", "f", "low", "high", "most"),
        [
            # The upper ends are where the results turn subnormal.
            (pieces.log_ndtr_block, log_ndtr, -1e19, 12.9, 10),
            (pieces.log_ndtr_derivative_block, log_ndtr_derivative, -3.4e38, 13.0, 10),
            (pieces.log_expit_block, log_expit, -3.4e38, 87.3, 3),
            (pieces.log_expit_derivative_block, log_expit_derivative, -3.4e38, 87.3, 4),
        ],
    )
    def test_functions_of_the_noise_err_by_what_their_headers_say(self, isa, block, f, low, high, most):
        # Every 5,003rd float of all: those with exponents in use are few of them, and are looked at more closely.
        for ends in ((low, high, 5003), (-20, min(high, 20), 307)):
            x, want = in_double(f, *ends)
            assert ulps(block(x, isa), want).max() <= most

    def test_functions_of_the_noise_have_their_limits(self, isa):
        x = np.array([-np.inf, -3.4e38, -1e30, 1e30, 3.4e38, np.inf, np.nan, -np.nan], dtype=np.float32)
        nan, inf = np.nan, np.inf
        np.testing.assert_array_equal(pieces.log_ndtr_block(x, isa), [-inf, -inf, -inf, 0, 0, 0, nan, nan])
        np.testing.assert_array_equal(pieces.log_ndtr_derivative_block(x, isa), [inf, -x[1], -x[2], 0, 0, 0, nan, nan])
        np.testing.assert_array_equal(pieces.log_expit_block(x, isa), [-inf, x[1], x[2], 0, 0, 0, nan, nan])
        np.testing.assert_array_equal(pieces.log_expit_derivative_block(x, isa), [1, 1, 1, 0, 0, 0, nan, nan])

    def test_limits(self, isa):
        x = np.array([-np.inf, -3.4e38, 0, 3.4e38, np.inf, np.nan, -np.nan], dtype=np.float32)
        nan, inf = np.nan, np.inf
        np.testing.assert_array_equal(pieces.exp_block(x, isa), [0, 0, 1, inf, inf, nan, nan])
        omega_of_0 = pieces.wright_omega_block(x, isa)[2]
        np.testing.assert_allclose(omega_of_0, 0.56714329, rtol=2e-7)
        np.testing.assert_array_equal(pieces.wright_omega_block(x, isa), [0, 0, omega_of_0, x[3], inf, nan, nan])
        x = np.array([-np.inf, -1, -1e-45, -0.0, 0, 1, np.inf, np.nan, -np.nan], dtype=np.float32)
        np.testing.assert_array_equal(pieces.log_block(x, isa), [nan, nan, nan, -inf, -inf, 0, inf, nan, nan])

    @pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1003])
    def test_log_sum_exp_of_a_block(self, isa, size):
        rng = np.random.default_rng(size)
        for scale in (1.0, 30.0, 1e4):
            z = rng.normal(scale=scale, size=size).astype(np.float32)
            want = np.logaddexp.reduce(z.astype(np.float64)) if size else -np.inf
            # The bound that the header states, and one rounding of the value.
            np.testing.assert_allclose(pieces.log_sum_exp_block(z, isa), want, atol=3e-7, rtol=1e-15)

    @pytest.mark.parametrize("n_before", [0, 5, 40])
    def test_log_sum_exp_of_infinities(self, isa, n_before):
        def value(*scores):
            z = np.r_[np.full(n_before, -np.inf), scores, np.full(3, -np.inf)].astype(np.float32)
            return pieces.log_sum_exp_block(z, isa)

        assert value() == -np.inf
        assert value(-1e38) == np.float32(-1e38)
        np.testing.assert_allclose(value(-2.5, -2.5), -2.5 + np.log(2), atol=3e-7)
        assert value(np.inf, 1, np.inf) == np.inf
        assert np.isnan(value(np.nan))
        assert np.isnan(value(1, np.nan, np.inf))


@pytest.mark.parametrize("isa", ["sse", "AVX2", ""])
def test_an_unknown_instruction_set_is_refused(isa):
    with pytest.raises(ValueError, match=f"isa is '{isa}'; it must be one of"):
        pieces.exp_block(np.zeros(1, dtype=np.float32), isa)


def test_log_sum_exp_does_not_depend_on_the_parts():
    z = np.random.default_rng(0).normal(scale=100, size=200)
    want = np.logaddexp.reduce(z)
    for cuts in ([200], [0, 1, 1, 150, 200], list(range(201))):
        # 200 roundings of a sum of positive terms
        np.testing.assert_allclose(pieces.log_sum_exp_parts(z, np.array(cuts)), want, atol=200 * 2.3e-16)


def test_log_sum_exp_of_doubles_is_exact_for_infinities():
    def value(*scores):
        z = np.array(scores, dtype=np.float64)
        return {pieces.log_sum_exp_parts(z, np.array(cuts)) for cuts in ([z.size], list(range(z.size + 1)))}

    assert value() == {-np.inf}
    assert value(-np.inf, -np.inf) == {-np.inf}
    assert value(-np.inf, -np.inf, -1e308) == {-1e308}
    assert value(1e308, 1e308) == {1e308}
    assert value(-1e308, np.inf, 3, np.inf) == {np.inf}
    for scores in [(np.nan,), (1, np.nan), (np.nan, 1), (np.inf, np.nan), (-np.inf, np.nan, -np.inf)]:
        assert all(np.isnan(v) for v in value(*scores))


USER_MODULE = """
from manyclass.special.cython_special cimport lambertw, lambertwf, wright_omega, wright_omegaf
from manyclass.special.cython_special cimport log_expit, log_expit_derivative, log_expit_derivativef, log_expitf
from manyclass.special.cython_special cimport log_ndtr, log_ndtr_derivative, log_ndtr_derivativef, log_ndtrf

def values(double x, float y):
    with nogil:
        a, b, c, d = wright_omega(x), wright_omegaf(y), lambertw(x), lambertwf(y)
        e, f, g, h = log_ndtr(x), log_ndtrf(y), log_ndtr_derivative(x), log_ndtr_derivativef(y)
        i, j, k, l = log_expit(x), log_expitf(y), log_expit_derivative(x), log_expit_derivativef(y)
    return a, b, c, d, e, f, g, h, i, j, k, l
"""


def test_other_cython_projects_can_cimport_the_functions(tmp_path):
    pytest.importorskip("Cython", reason="Cython compiles the user's module")
    (tmp_path / "user.pyx").write_text(USER_MODULE)
    # The folder that holds manyclass/: site-packages where it is installed, the sources where it is editable.
    packages = Path(manyclass.__file__).parents[1]
    subprocess.run([sys.executable, "-m", "cython", "-3", "-I", packages, "user.pyx"], cwd=tmp_path, check=True)
    library = tmp_path / f"user{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    include = sysconfig.get_path("include")
    subprocess.run([*compiler, "-shared", "-fPIC", f"-I{include}", tmp_path / "user.c", "-o", library], check=True)
    spec = importlib.util.spec_from_file_location("user", library)
    user = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(user)
    x, y = 1.5, np.float32(0.3)
    assert user.values(x, y) == tuple(f(v) for f in UFUNCS for v in (x, y))
