"""What reaches the disk and when: a file before it gets its name, then the folder; and files that are cut meanwhile.

A power cut cannot be had here, so the order of the calls to the system is what is tested.
"""

import os
import stat

import numpy as np
import pytest
from test_saved_models import fitted
from test_trusted_files import KINDS, writers

from manyclass.weights.tensor_file import open_tensors, write_tensors


@pytest.fixture
def calls(monkeypatch):
    """Calls of os.fsync, of a file with its length or of a folder, and of os.replace with the file's new name."""
    made = []
    fsync, replace = os.fsync, os.replace

    def flushed(descriptor):
        found = os.fstat(descriptor)
        made.append("folder" if stat.S_ISDIR(found.st_mode) else found.st_size)
        fsync(descriptor)

    def renamed(source, target):
        replace(source, target)
        made.append(os.path.basename(target))

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    return made


def expected(path):
    return [path.stat().st_size, path.name, *(["folder"] if os.name == "posix" else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_file_is_flushed_then_renamed_then_its_folder_is_flushed(kind, tmp_path, calls, seed):
    write, _ = writers(seed)[kind]
    calls.clear()
    for _ in range(2):  # a new file, and one in the place of another
        write(tmp_path / "f")
        assert calls == expected(tmp_path / "f")
        calls.clear()


@pytest.mark.skipif(os.name != "posix", reason="this system flushes no folders")
def test_a_folder_that_cannot_be_flushed_is_no_error(tmp_path, monkeypatch):
    fsync = os.fsync

    def refused(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refused)
    before = len(os.listdir("/dev/fd")) if os.path.exists("/dev/fd") else 0
    fitted()[0].save(tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]
    assert not before or len(os.listdir("/dev/fd")) == before


def test_a_file_that_is_cut_after_its_header_was_read_is_truncated(tmp_path):
    path = tmp_path / "t"
    write_tensors(path, {"a": np.arange(100.0)}, {})
    file = open_tensors(path)
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(ValueError, match="t is truncated: it ends inside array 'a'"):
        file.read("a")
