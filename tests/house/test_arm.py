"""The core compiled for 64-bit ARM, whose programs run in an emulator: NEON by the same vectors as SSE2."""

import shutil
import subprocess

import pytest
from test_cpp import PROGRAMS, ROOT, Build

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
LIBRARIES = "/usr/aarch64-linux-gnu"  # of that architecture, where Debian's cross compiler has them
FOR_ARM = (
    "-DCMAKE_SYSTEM_NAME=Linux",
    "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    f"-DCMAKE_CXX_COMPILER={COMPILER}",
)


@pytest.mark.long
def test_the_core_works_on_arm(tmp_path):
    for program, package in ((COMPILER, "g++-aarch64-linux-gnu"), (EMULATOR, "qemu-user-static")):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}: on Debian and Ubuntu, install {package}")
    build = Build(ROOT, tmp_path / "build", FOR_ARM)
    build.make()  # a warning is an error
    for program in PROGRAMS:
        done = subprocess.run(
            [EMULATOR, "-L", LIBRARIES, build.folder / program], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, program + done.stdout + done.stderr
