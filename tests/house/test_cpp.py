"""The C++ core without Python: its own tests, plain and under sanitizers, and the instructions it is made of."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from house import ROOT
from testing_core import core_of_the_package

PROGRAMS = sorted(path.stem for path in (ROOT / "tests/cpp").glob("test_*.cpp"))
SUPPRESSIONS = ROOT / "tests/cpp/hogwild.supp"


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@dataclass
class Build:
    """A source tree and the folder where its core and tests are built."""

    source: Path
    folder: Path
    options: tuple[str, ...] = ()
    core: Path | None = None  # made by another build
    targets: list[str] = field(default_factory=list)  # all, if none is named

    def make(self) -> None:
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        only = ["-DMANYCLASS_WERROR=ON", "-DMANYCLASS_PYTHON=OFF", "-DMANYCLASS_CPP_TESTS=ON"]
        named = ["--target", *self.targets] if self.targets else []
        for command in (
            [tool("cmake"), "-S", self.source, "-B", self.folder, *generator, *only, *self.options],
            [tool("cmake"), "--build", self.folder, "--parallel", "2", *named],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

    def run(self, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | environment
        return subprocess.run([self.folder / program], env=env, capture_output=True, text=True, check=False)

    def passes(self, program: str, **environment: str) -> None:
        done = self.run(program, **environment)
        assert done.returncode == 0, done.stdout + done.stderr

    def plant(self, file: str, right: str, wrong: str) -> None:
        """Put one fault into the sources, which must be a copy, and build again."""
        path = self.source / "cpp/manyclass" / file
        text = path.read_text()
        assert self.source != ROOT
        assert text.count(right) == 1, f"{right!r} is {text.count(right)} times in {file}"
        path.write_text(text.replace(right, wrong))
        self.make()
        path.write_text(text)


def copy_of_sources(folder: Path) -> Path:
    for part in ("cpp", "tests/cpp", "tests/fuzz"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "CMakeLists.txt", folder)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Build:
    core = core_of_the_package()
    folder = tmp_path_factory.mktemp("plain")
    build = Build(ROOT, folder, (f"-DMANYCLASS_CORE={core}",), core) if core else Build(ROOT, folder)
    build.make()
    return build


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_core_works_without_python(plain, program):
    plain.passes(program)


def instruction_sets(disassembly: str) -> dict[str, set[str]]:
    """Symbols that hold AVX-512 ("zmm") and AVX, FMA or BMI ("avx") instructions."""
    found: dict[str, set[str]] = {"zmm": set(), "avx": set()}
    # All mnemonics of AVX and FMA start with v; so do two of 1982, which no compiler emits.
    avx = re.compile(r"\t(?:v\w+|mulx|shlx|shrx|sarx|rorx|andn|bextr|pdep|pext|bls\w+)\b|%ymm")
    symbol = ""
    for line in disassembly.splitlines():
        if header := re.fullmatch(r"[0-9a-f]+ <(.*)>:", line):
            symbol = header[1]
        elif "%zmm" in line or re.search(r"%[xy]mm(1[6-9]|2\d|3[01])|%k[1-7]\b", line):
            found["zmm"].add(symbol)
        elif avx.search(line):
            found["avx"].add(symbol)
    return found


def check_wide_instructions(build: Build) -> None:
    command = [tool("objdump"), "--disassemble", "--demangle", "--no-show-raw-insn"]
    library = build.core or build.folder / "libmanyclass_core.a"
    found = instruction_sets(subprocess.run([*command, library], capture_output=True, text=True, check=True).stdout)
    assert found["zmm"]
    assert found["avx"]
    assert [symbol for symbol in found["zmm"] if "run_avx512" not in symbol] == []
    assert [symbol for symbol in found["avx"] if not re.search("run_avx2|run_avx512", symbol)] == []


def test_wide_instructions_stand_only_in_functions_chosen_at_run_time(plain):
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"{platform.machine()} has one instruction set here")
    check_wide_instructions(plain)

    planted = (
        "0000 <a>:\n 0:\tvaddps %zmm1,%zmm2,%zmm3\n0010 <b>:\n 10:\tvxorps %xmm0,%xmm0,%xmm0\n 14:\tmov %eax,%ebx\n"
    )
    assert instruction_sets(planted) == {"zmm": {"a"}, "avx": {"b"}}


def command_of_teams(folder: Path, *options: str) -> str:
    """How the file with the only pragma of OpenMP is compiled."""
    only = ("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DMANYCLASS_PYTHON=OFF")
    command = [tool("cmake"), "-S", ROOT, "-B", folder, *only, *options]
    subprocess.run(command, capture_output=True, check=True)
    commands = json.loads((folder / "compile_commands.json").read_text())
    return next(entry["command"] for entry in commands if entry["file"].endswith("core/teams.cpp"))


def test_openmp_is_taken_where_the_compiler_has_it_but_not_by_choice_or_under_thread_sanitizer(tmp_path):
    source = tmp_path / "region.cpp"
    source.write_text("#include <omp.h>\nint main() { return omp_get_max_threads() > 0 ? 0 : 1; }\n")
    compiler = os.environ.get("CXX", "c++")
    made = subprocess.run([compiler, "-fopenmp", source, "-o", tmp_path / "region"], capture_output=True, check=False)
    has_openmp = made.returncode == 0
    assert ("MANYCLASS_OPENMP" in command_of_teams(tmp_path / "plain")) == has_openmp
    assert ("MANYCLASS_OPENMP" in command_of_teams(tmp_path / "a", "-DMANYCLASS_SANITIZE=address")) == has_openmp
    assert "MANYCLASS_OPENMP" not in command_of_teams(tmp_path / "off", "-DMANYCLASS_OPENMP=OFF")
    assert "MANYCLASS_OPENMP" not in command_of_teams(tmp_path / "tsan", "-DMANYCLASS_SANITIZE=thread")


@pytest.mark.long
def test_the_core_works_without_openmp(tmp_path):
    build = Build(ROOT, tmp_path, ("-DMANYCLASS_OPENMP=OFF",))
    build.make()
    for program in PROGRAMS:
        build.passes(program)
    # Its only bound is the variable, which OpenMP would read.
    build.passes("test_core", OMP_NUM_THREADS="2")


@pytest.mark.long
def test_memory_and_arithmetic_are_clean_under_sanitizers(tmp_path):
    # At -O1 with assertions: UBSan's checks in the inlined kernels take minutes to optimise further.
    options = ("-DMANYCLASS_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1")
    build = Build(copy_of_sources(tmp_path / "source"), tmp_path / "build", options)
    build.make()
    halt = {"UBSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "halt_on_error=1"}
    for program in PROGRAMS:
        build.passes(program, **halt)

    build.plant("evaluate/top_k.cpp", "std::size_t at = scores.size() - 1;", "std::size_t at = scores.size();")
    assert "AddressSanitizer: heap-buffer-overflow" in build.run("test_train", **halt).stderr
    build.plant("evaluate/log_loss.cpp", "Index rank = 0;", "Index rank = 2147483647;")
    assert "runtime error: signed integer overflow" in build.run("test_train", **halt).stderr


@pytest.mark.long
def test_threads_race_only_in_hogwild_and_only_on_the_weights(tmp_path):
    build = Build(copy_of_sources(tmp_path / "source"), tmp_path / "build", ("-DMANYCLASS_SANITIZE=thread",))
    build.make()
    for program in PROGRAMS:
        if program != "test_hogwild":
            build.passes(program, TSAN_OPTIONS="halt_on_error=1")
    build.passes("test_hogwild", TSAN_OPTIONS=f"halt_on_error=1 suppressions={SUPPRESSIONS}")

    # The list is what makes Hogwild pass: without it both storages race, and nothing that the list lacks.
    listed = re.findall(r"^race_top:(.*)$", SUPPRESSIONS.read_text(), re.MULTILINE)
    races = build.run("test_hogwild", TSAN_OPTIONS="halt_on_error=0").stderr
    found = re.findall(r"^SUMMARY: ThreadSanitizer: data race .*$", races, re.MULTILINE)
    assert [race for race in found if not any(function in race for function in listed)] == []
    for storage in ("FeatureRows<float>::", "ClassRows<float>::"):
        assert any(f" manyclass::{storage}" in race for race in found)

    # Deterministic mode without the barrier between scoring and updating.
    build.plant("train/common/loop.hpp", "me.barrier();\n    if (run.watch.stopped())", "if (run.watch.stopped())")
    assert "ThreadSanitizer: data race" in build.run("test_train", TSAN_OPTIONS="halt_on_error=1").stderr
