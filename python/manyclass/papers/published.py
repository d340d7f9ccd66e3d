"""Published numbers of each paper, as published.toml has them with their tables and sections.

Sources: Fagan & Iyengar 2018 and the runs that its authors recorded; Titsias, NIPS 2016; Ruiz et al. and Yen et al.,
ICML 2018.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

_PAPERS: dict[str, dict[str, Any]] = tomllib.loads(
    files("manyclass.papers").joinpath("published.toml").read_text(encoding="utf-8")
)
FAGAN_IYENGAR, RUIZ = _PAPERS["fagan_iyengar"], _PAPERS["ruiz"]
TITSIAS, YEN = _PAPERS["titsias"], _PAPERS["yen"]
