"""Files of each kind that manyclass 0.2 wrote: what is read from them stays; and files of versions to come."""

import json

import numpy as np
import pytest
from data.version_2 import make_files

from manyclass.model.tensor_file import open_tensors

EXPECTED = json.loads((make_files.FOLDER / "expected.json").read_text())
BROKEN = (
    "{file} was written by manyclass 0.2, and this version reads something else from it. Read it as it was meant: give "
    "what is new a format_version of its own, and leave the files of tests/data/version_2 as they are"
)
# Numbers that are computed from what is read are sums of a few floats, in another order on another processor.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def test_every_file_is_tested_and_small():
    files = {
        p.name: p.stat().st_size for p in make_files.FOLDER.iterdir() if p.suffix in (".safetensors", ".txt", ".bin")
    }
    assert files.keys() == EXPECTED.keys()
    assert {name.partition("_")[0].partition(".")[0] for name in files} == make_files.READERS.keys()
    assert max(files.values()) < 4096
    versions = {
        open_tensors(make_files.FOLDER / name).metadata["format_version"] for name in files if name[:5] == "model"
    }
    assert versions == {"2", "3"}


@pytest.mark.parametrize("file", EXPECTED)
def test_what_is_read_from_a_file_of_version_0_2_stays(file):
    try:
        found = make_files.read(make_files.FOLDER / file)
    except ValueError as error:
        pytest.fail(f"{BROKEN.format(file=file)}: {error}")
    assert found.keys() == EXPECTED[file].keys()
    for name, expected in EXPECTED[file].items():
        value = np.asarray(found[name])
        if value.dtype.kind == "f":
            np.testing.assert_allclose(value, expected, **TOLERANCE, err_msg=BROKEN.format(file=file))
        else:
            np.testing.assert_array_equal(value, expected, err_msg=BROKEN.format(file=file))


@pytest.mark.parametrize("file", EXPECTED)
def test_today_writes_what_is_read_as_the_old_file_is(file, tmp_path):
    """So the script still makes what the files stand for."""
    if not (tmp_path.parent / "written").exists():
        pass
