"""The package under sanitizers: the core, its bindings and the modules of Cython, called by their tests in Python.

By Clang, which compiles the core with sanitizers in a third of the time of GCC; house/test_cpp.py has GCC's.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_clang import clang, files_of_the_core, for_python, package_of, python
from test_cpp import ROOT, SUPPRESSIONS, Build, copy_of_sources

pytestmark = pytest.mark.long

OPTIONS = (
    # -O1 takes three times as long to compile, which is most of the time of these tests.
    *("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"),
    "-DMANYCLASS_WERROR=OFF",  # Clang warns of each loop that it does not vectorise
    "-DCMAKE_MODULE_LINKER_FLAGS=-shared-libsan",
)
# Of files_of_the_core: work of a time that a sanitizer multiplies.
LEFT_OUT = ["hostile/test_interrupts.py"]
# An index of so many rows that it took 394 seconds, more than core/test_epoch.py; search/test_clusters.py has smaller.
SLOW = "tests/search/test_approximate_answers.py::test_more_classes_than_one_cluster_would_hold_are_searched"
READERS = [
    "datasets/test_xmc_reader.py",
    "datasets/test_xmc_errors.py",
    "datasets/test_binary_csr.py",
    "estimators/test_inputs.py",
    "weights/test_mapped_weights.py",
]
# Those where several threads of the core are at work, or several of Python in it.
THREADED = [
    "core/test_determinism.py",
    "core/test_label_loop.py",
    "core/test_evaluate.py",
    "weights/test_utilities.py",
    "search/test_approximate_answers.py",
    "search/test_clusters.py",
    "search/test_decomposed_index.py",
    "words/test_skip_gram_core.py",
    "training/test_full_batch.py",
    "datasets/test_xmc_reader.py",
]

# Teams of two that meet at thousands of barriers: minutes, where a sanitizer's threads share a processor with others.
# Smaller problems go through the same code.
SHORT = ("-k", "not 1100-2301")

WORK = """
import sys
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from manyclass import SoftmaxClassifier, _core, checks, solvers
assert sys.argv[1] in _core.__file__
checks.cores = lambda: 4
rng = np.random.default_rng(0)
X, y = rng.normal(size=(1100, 8)).astype(np.float32), np.arange(1100) % 40
solver = solvers.Implicit(batch_size=50)
model = SoftmaxClassifier(solver=solver, n_negatives=5, max_iter=2, random_state=0, n_jobs=2).fit(X, y)
with ThreadPoolExecutor(4) as threads:  # of 8 calls, two are seldom in the core at once
    for _ in threads.map(lambda i: model.predict_top_k(X, 5), range(400)):
        pass
model.evaluate(X, y)
"""


@dataclass
class Sanitized:
    """A package that was built with a sanitizer, whose runtime a plain Python has to load first."""

    build: Build
    package: Path
    environment: dict[str, str]

    @classmethod
    def of(cls, folder: Path, sanitizers: str, library: str, **environment: str) -> "Sanitized":
        source = copy_of_sources(folder / "source")
        shutil.copytree(ROOT / "python", source / "python", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        options = (*for_python(clang()), *OPTIONS, f"-DMANYCLASS_SANITIZE={sanitizers}", "-DMANYCLASS_CPP_TESTS=OFF")
        build = Build(source, folder / "build", options)
        build.make()
        # Where it is loaded, the runtime looks for what throws, which Python's own program does not link.
        environment |= {"LD_PRELOAD": f"{runtime(library)} libstdc++.so.6", "PYTHONMALLOC": "malloc"}
        environment["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's BLAS, whose code no sanitizer sees, races to its eyes
        if symbolizer := found_by_clang("--print-prog-name=llvm-symbolizer"):
            environment |= {f"{library.upper()}_SYMBOLIZER_PATH": symbolizer}
        return cls(build, package_of(build, folder / "package"), environment)

    def passes(self, *arguments: str) -> None:
        done = python(self.package, *arguments, **self.environment)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]

    def passes_tests(self, *arguments: str) -> None:
        own = ("-n", "0", "-q", "-x", "-p", "no:cacheprovider", "-s")  # reports are not kept by pytest
        self.passes("-m", "pytest", *own, *arguments, "--deselect", SLOW)

    def says_with(self, file: str, right: str, wrong: str) -> str:
        """What the work prints to stderr, and fails, with a fault in the sources."""
        self.build.plant(file, right, wrong)
        faulty = package_of(self.build, self.package.parent / f"package with {Path(file).name}")
        done = python(faulty, "-c", WORK, str(faulty), **self.environment)
        assert done.returncode != 0
        return done.stderr


def found_by_clang(question: str) -> str | None:
    """The path of a part of Clang's; None where it is not installed."""
    said = subprocess.run([clang(), question], capture_output=True, text=True, check=True).stdout.strip()
    return said if Path(said).is_absolute() and Path(said).exists() else None


def runtime(library: str) -> str:
    target = subprocess.run([clang(), "--print-target-triple"], capture_output=True, text=True, check=True).stdout
    for name in (f"libclang_rt.{library}-{target.partition('-')[0]}.so", f"libclang_rt.{library}.so"):
        if path := found_by_clang(f"--print-file-name={name}"):
            return path
    pytest.skip(f"Clang's runtime {library} is not installed: on Debian and Ubuntu, install libclang-rt-19-dev")


def test_memory_and_arithmetic_are_clean_when_python_calls(tmp_path):
    sanitized = Sanitized.of(
        tmp_path,
        "address,undefined",
        "asan",
        # Python leaves objects behind at its end; a test asks for more memory than there is, and expects MemoryError.
        ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1",
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
    )
    sanitized.passes("-c", WORK, str(sanitized.package))
    sanitized.passes_tests(*READERS, *(name for name in files_of_the_core() if name not in LEFT_OUT), *SHORT)

    last = "std::size_t at = scores.size()"
    short = sanitized.says_with("evaluate/top_k.cpp", f"{last} - 1;", f"{last};")
    assert "AddressSanitizer: heap-buffer-overflow" in short
    beyond = sanitized.says_with("evaluate/log_loss.cpp", "Index rank = 0;", "Index rank = 2147483647;")
    assert "runtime error: signed integer overflow" in beyond


def test_threads_do_not_race_when_python_calls(tmp_path):
    sanitized = Sanitized.of(tmp_path, "thread", "tsan", TSAN_OPTIONS=f"halt_on_error=1:suppressions={SUPPRESSIONS}")
    sanitized.passes("-c", WORK, str(sanitized.package))
    sanitized.passes_tests(*THREADED, *SHORT)

    guarded = "{\n    const std::lock_guard lock(mutex);\n    for (; waiting"
    races = sanitized.says_with("core/workers.cpp", guarded, "{\n    for (; waiting")
    assert "ThreadSanitizer: data race" in races
