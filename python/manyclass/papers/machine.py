"""The machine and the software that a run was made with: what a time or a last digit may depend on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from manyclass import _core
from manyclass.version import __version__


def machine() -> dict[str, Any]:
    """Return processor, cores, instruction set in use, load average and versions; no name of a host or a user."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "isa": _core.best_isa(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "manyclass": __version__,
    }


def _processor() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")
