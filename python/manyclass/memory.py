"""Memory: how many bytes there are, and what is refused before it takes more."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def check_there_is_memory(n_bytes: float, whose: str, remedy: str, most: float = math.inf) -> None:
    """Raise MemoryError for what takes more bytes, as predicted, than `most` or than `memory_available` says."""
    if n_bytes > (there := min(memory_available(), most)):
        raise MemoryError(
            f"{whose} take {n_bytes / 1e6:,.0f} MB, as predicted, and {there / 1e6:,.0f} MB are available. {remedy}"
        )


def memory_available(root: Path = ROOT) -> float:
    """Return the bytes that this process can still take, of the machine and of its control groups; inf if unknown.

    Linux tells them in files below `root`, of control groups of version 2. Of a group the pages of files that it can
    drop are available, too.
    """
    available = [1024 * _numbers(root / "proc/meminfo").get("MemAvailable", math.inf)]
    paths = [line.removeprefix("0::/") for line in _lines(root / "proc/self/cgroup") if line.startswith("0::/")]
    for group in (group for path in map(PurePosixPath, paths) for group in (path, *path.parents)):
        folder = root / "sys/fs/cgroup" / group
        most, used = ("".join(_lines(folder / f"memory.{name}")) or "max" for name in ("max", "current"))
        if "max" not in (most, used):
            available.append(float(most) - float(used) + _numbers(folder / "memory.stat").get("inactive_file", 0.0))
    return max(0.0, min(available))


def _lines(path: Path) -> list[str]:
    """Return the lines of a file of the system; none where it has no such file."""
    try:
        return path.read_text("utf-8").splitlines()
    except OSError:
        return []


def _numbers(path: Path) -> dict[str, float]:
    """Return the numbers of a file that has a name and a number in each line."""
    parts = (line.replace(":", " ").split() for line in _lines(path))
    return {name: float(number) for name, number, *_ in (part for part in parts if len(part) > 1)}
