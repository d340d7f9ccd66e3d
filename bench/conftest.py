"""Data for the benchmarks, and the machine that a row was measured on."""

import os
import platform
from pathlib import Path

import pytest

from manyclass import _core
from manyclass.datasets import load_multiclass


def machine():
    """What every row must say."""
    names = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":")[1].strip() for line in names if line.startswith("model name")), platform.processor())
    load = [round(x, 1) for x in os.getloadavg()]
    return {"cpu": model, "cores": os.cpu_count(), "isa": _core.best_isa(), "load": load}


@pytest.fixture(scope="session")
def dataset():
    """A function from a name to its first-label data: unit rows, unseen classes dropped."""
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    return load_multiclass


@pytest.fixture(scope="session")
def data_folder():
    """The folder that MANYCLASS_DATA names."""
    if "MANYCLASS_DATA" not in os.environ:
        pytest.skip("MANYCLASS_DATA does not name a folder of data sets")
    return Path(os.environ["MANYCLASS_DATA"])
