"""Times of logs: of any year, zone, type and unit, and those that are refused."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from manyclass.datasets import SequenceEncoder
from manyclass.datasets.sequences import as_numbers, read_times

HOUR = datetime.timedelta(hours=1)
PARIS = datetime.timezone(HOUR)
NOON = datetime.datetime(2026, 9, 1, 12)


def order(times):
    sequences, _ = SequenceEncoder.sequences_of([1] * len(times), np.arange(len(times)), times)
    return sequences[0].tolist()


@pytest.mark.parametrize(
    "times",
    [
        ["9999-12-31", "2026-01-01", "0001-01-01"],
        [datetime.date(9999, 12, 31), datetime.date(2026, 1, 1), datetime.date(1, 1, 1)],
        np.array(["9999-12-31", "2026-01-01", "0001-01-01"], dtype="M8[D]"),
        np.array(["29999", "2026", "1000"], dtype="M8[Y]"),
        [NOON.replace(tzinfo=PARIS), NOON.replace(tzinfo=PARIS) - HOUR, NOON - 3 * HOUR],
        ["2026-09-01T12:00:00+01:00", "2026-09-01T10:30:00Z", "2026-09-01T10:00"],
        [3 * HOUR, 2 * HOUR, HOUR],
        np.array([3, 2, 1], dtype="m8[W]"),
        [2**60 + 2, 2**60 + 1, 2**60],
        [str(2**60 + 2), str(2**60 + 1), str(2**60)],
        ["1e3", "2.5", "-3"],
        [3, 2.5, -1],
        pd.to_datetime(["2026-09-03", "2026-09-02", "2026-09-01"]).tz_localize("Europe/Paris"),
        pd.Series(pd.to_datetime(["2026-09-03", "2026-09-02", "2026-09-01"])),
        pa.array([NOON, NOON - HOUR, NOON - 2 * HOUR], type=pa.timestamp("us", tz="Europe/Paris")),
    ],
    ids=lambda times: f"{type(times).__name__}-{times[0]}",
)
def test_times_of_all_kinds_sort(times):
    assert order(times) == [2, 1, 0]


@pytest.mark.parametrize(
    ("times", "place"),
    [
        ([1.0, float("nan")], 1),
        ([1.0, float("inf")], 1),
        (np.array(["2026-01-01", "NaT"], dtype="M8[D]"), 1),
        ([NOON, None], 1),
        ([NOON, pd.NaT], 1),
        (["2026-01-01", ""], 1),
        (["2026-01-01", "01.09.2026"], 1),
        (["1_0", "2"], 0),
        (["٣", "2"], 0),
        (["1", "2026-01-01"], 0),
        (np.ma.array([1, 2], mask=[False, True]), 1),
    ],
)
def test_what_is_no_time_is_refused_by_its_place(times, place):
    with pytest.raises(ValueError, match=rf"times\[{place}\] is .*times must be finite numbers, or dates such as"):
        SequenceEncoder.sequences_of([1, 1], [1, 2], times)


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns", "W"])
def test_a_number_of_a_time_has_its_seconds(unit):
    span = np.array([6, 8], dtype=f"m8[{unit}]")
    numbers, seconds = as_numbers(read_times(span))
    assert (numbers[1] - numbers[0]) * seconds == 2 * np.timedelta64(1, unit) / np.timedelta64(1, "s")
    users, items, gap = [1, 1, 1], [1, 2, 3], float(seconds * 2 * (7 if unit == "W" else 1))
    sequences, _ = SequenceEncoder.sequences_of(users, items, np.array([0, 2, 5], dtype=f"m8[{unit}]"), gap=gap)
    assert [sequence.tolist() for sequence in sequences] == [[1, 2], [3]]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_users_and_items_are_refused(missing):
    with pytest.raises(ValueError, match=r"users\[1\] is"):
        SequenceEncoder.sequences_of(np.array(["a", missing], dtype=object), [1, 2])
    with pytest.raises(ValueError, match=r"items\[1\] is"):
        SequenceEncoder.sequences_of([1, 2], np.array(["a", missing], dtype=object))
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"sequences\[1\]\[2\] is"):
            getattr(SequenceEncoder(), method)([["a"], ["b", "a", missing]])


def test_masked_items_are_refused():
    with pytest.raises(ValueError, match=r"sequences\[0\]\[1\] is --"):
        SequenceEncoder().fit([np.ma.array([1, 2], mask=[False, True])])
    with pytest.raises(ValueError, match=r"items\[1\] is --"):
        SequenceEncoder.sequences_of([1, 2], np.ma.array([1, 2], mask=[False, True]))
