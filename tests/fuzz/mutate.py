"""Wrong files made of right ones: safetensors files by their structure, any file by its bytes."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

DEEP: Any = []
for _ in range(3000):  # deeper than Python's stack
    DEEP = [DEEP]
NASTY: list[Any] = [
    *(None, True, False, "", "auto", "0", "nan", "\ud800", "x" * 1000, [], {}, [[]], [1.0, 2.0], {"part": "UMax"}),
    *(0, 1, -1, 2, 3, 17, 100, 10**6, 10**9, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400),
    *(0.0, -0.0, 0.5, 1.5, -1.0, 1e-300, 1e-40, 1e38, 1e39, 1e308, math.nan, math.inf, -math.inf),
    {"part": "Gaussian", "parameters": {"n_draws": 10**9}},
    {"part": "Search", "parameters": {"budget": 10**9}},
    {"pairs": [[1, math.nan]]},
]
DTYPES = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a file with one to three changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        structured = _structured(content, rng) if rng.random() < 0.85 else None
        content = _bytes(content, rng) if structured is None else structured
    return content


def _structured(content: bytes, rng: random.Random) -> bytes | None:
    """Change an array, or a value of the metadata; None if it is no safetensors file."""
    try:
        arrays = dict(sorted(load(content).items()))  # the library's own order is another each time
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if arrays and rng.random() < 0.3:
        _change_array(arrays, rng)
    else:
        metadata = _changed_metadata(metadata, rng)
    return _written(arrays, metadata)


def _written(arrays: dict[str, Any], metadata: dict[str, str]) -> bytes:
    """A safetensors file."""
    header: dict[str, Any] = {"__metadata__": metadata}
    parts = [array.tobytes() for array in arrays.values()]
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    for i, (name, array) in enumerate(arrays.items()):
        kind = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}[array.dtype.kind]
        code = kind if kind == "BOOL" else f"{kind}{8 * array.itemsize}"
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": ends[i : i + 2]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def _change_array(arrays: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice([*arrays])
    array = arrays[name]
    how = rng.randrange(6)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[rng.choice([*arrays, "scaling.scale", "class_count"])] = array
    elif how == 2:
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice(DTYPES))
    elif how == 3:  # another shape, with what there is
        shape = [max(0, size + rng.choice((-1, 0, 1, 1, -size))) for size in array.shape] + [1] * rng.choice((0, 0, 1))
        arrays[name] = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
    elif array.size:
        array = array.copy()
        at = rng.randrange(array.size)
        if array.dtype.kind == "f":
            array.flat[at] = rng.choice((np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-45, float(np.finfo(array.dtype).max)))
        elif array.dtype.kind in "iu":
            info = np.iinfo(array.dtype)
            array.flat[at] = rng.choice((info.min, info.max, 0, 1, min(info.max, int(array.flat[at]) + 1)))
        arrays[name] = array


def _changed_metadata(metadata: dict[str, str], rng: random.Random) -> dict[str, str]:
    key = rng.choice([*metadata] or ["format"])
    try:
        value = json.loads(metadata.get(key, ""))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not value or rng.random() < 0.05:
        text = rng.choice(("", "0", "1", "2", "3", "4", "-1", "1.0", "null", "[]", "{", "nan", "[" * 5000, "9" * 5000))
        return {k: v for k, v in metadata.items() if k != key} | rng.choice(({}, {key: text}, {key: text}))
    places = [*_places(value)]
    owner, at = rng.choice(places)
    how = rng.randrange(8)
    if how == 0:
        del owner[at]
    elif how == 1:
        other, there = rng.choice(places)
        owner[at] = json.loads(json.dumps(other[there]))
    elif how == 2 and isinstance(owner, dict):
        owner[rng.choice((at + "_", "", "n_draws", "alpha"))] = owner[at]
    elif how == 3 and type(owner[at]) in (int, float):
        old = owner[at]
        owner[at] = rng.choice((old + 1, old - 1, -old, old * 2, str(old)))
    else:
        owner[at] = DEEP if rng.random() < 0.02 else rng.choice(NASTY)
    try:
        return metadata | {key: json.dumps(value)}
    except RecursionError:
        return metadata | {key: "[" * 5000 + "]" * 5000}


def _places(value: Any) -> Any:
    """Where something stands in dicts and lists."""
    for at in value if isinstance(value, dict) else range(len(value)):
        yield value, at
        if isinstance(value[at], dict | list) and value[at]:
            yield from _places(value[at])


def _bytes(content: bytes, rng: random.Random) -> bytes:
    found = bytearray(content)
    if not found:
        return b"\x00"
    at = rng.randrange(len(found))
    how = rng.randrange(6)
    if how == 0:
        found[at] ^= 1 << rng.randrange(8)
    elif how == 1:
        found[at] = rng.choice(b'\x00\xff\x80 \n09-.:,{}[]"nea')
    elif how == 2:
        del found[at:]
    elif how == 3:
        del found[at : at + rng.randrange(1, 9)]
    elif how == 4:
        found[at:at] = rng.choice(
            (b"9", b"99999999999999999999", b"nan", b"1e99", b" ", b"\n", b"\xff", b"-1", bytes(8))
        )
    else:
        other = rng.randrange(len(found))
        found[at : at + 8] = found[other : other + 8]
    return bytes(found)
