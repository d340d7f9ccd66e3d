"""Parts as somebody would add them, each with the files that CONTRIBUTING's table names: what goes into which file.

Where a file is new, its text stands there; where it is changed, pairs of what is found and what takes its place. The
objective is the skeleton, with what python/docs/add_a_part.rst has the reader write beside it.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

Edits = str | list[tuple[str, str]]

STEPS = "tests/reference/steps.py"
SOLVERS = "cpp/manyclass/train/common/solvers.hpp"
LAST_HEADER = '#include "manyclass/objective/u_rules.hpp"\n'
LAST_SELECTION = '#include "manyclass/select/uniform.hpp"\n'
LAST_SOLVER = "                      MinibatchProx>;"

RULE = """// A rule for u that goes a share of the way to the logarithm of the sampled sum.
#pragma once

#include "manyclass/objective/u_rules.hpp"

namespace manyclass {

struct LogAverage {
  static constexpr Facts facts{
      .name = "log_average",
      .sentence = "Explicit steps in W at a u that is a moving average of the logarithm of the sampled sum.",
      .biased = true,
      .flags = {flag::u, flag::formulations},
      .parameters = {{"share", 0.5, 0, 1, true, "Weight of the newest logarithm."}},
  };
  static constexpr bool gradient_step = false;
  double share;
  double before(double u, const SampledPoint&, const SampledSum& sum, std::span<const float>) const {
    return u + share * (sum.log_a - u);
  }
};

}  // namespace manyclass
"""

SELECTION = """// Every s-th class from a random one on, so that about m of them are seen.
#pragma once

#include "manyclass/core/rng.hpp"
#include "manyclass/select/draw.hpp"
#include "manyclass/weights/class_range.hpp"

namespace manyclass {

struct Stride {
  static constexpr Facts facts{
      .name = "stride",
      .sentence = "Classes at equal distances, from a random one on.",
      .flags = {flag::label},
  };
  using Classes = ClassList;
  static constexpr bool repeats = false;

  Index n_classes;
  Index distance;
  bool with_label = false;

  static Stride make(const SelectArguments& a) {
    return {a.n_classes, (a.n_classes - 1) / a.at_most(a.n_classes) + 1, a.with_label};
  }

  std::size_t capacity() const { return static_cast<std::size_t>((n_classes - 1) / distance + 1); }
  float label_alpha(Index) const { return static_cast<float>(distance); }
  double inclusion(Index) const { return 1.0 / distance; }

  std::size_t n_random(ClassList classes) const { return classes.size(); }

  ClassList draw(Rng rng, Index, std::span<const Index> labels, const DrawBuffers& out) const {
    std::size_t n = 0;
    for (auto k = static_cast<Index>(rng.below(static_cast<std::uint32_t>(distance))); k < n_classes; k += distance) {
      out.list[n] = k;
      const bool counts = with_label || !std::binary_search(labels.begin(), labels.end(), k);
      out.alpha[n++] = counts ? static_cast<float>(distance) : 0.0F;
    }
    return {out.list.data(), n};
  }
};

static_assert(Selection<Stride>, "see select/draw.hpp");

}  // namespace manyclass
"""


TESTS = Path(__file__).resolve().parent
PAGE = (TESTS.parent / "python/docs/add_a_part.rst").read_text(encoding="utf-8")
# The blocks of code on the page, as it has them: an include, a solver, a step, and entries of three dicts.
INCLUDE, ENTRY, STEP, IN_STEPS, IN_OBJECTIVES, IN_RATES = (
    textwrap.dedent(block) for block in re.findall(r"\.\. code-block:: (?:cpp|py)\n\n((?:      .*\n|\n)+)", PAGE)
)


def listed(header: str, part: str) -> list[tuple[str, str]]:
    """The two lines of a solver in the list of all."""
    return [
        (LAST_HEADER, f'{LAST_HEADER}#include "manyclass/objective/{header}"\n'),
        (LAST_SOLVER, f"                      {part},  //\n{LAST_SOLVER}"),
    ]


def rule_of_twin(name: str, u: str) -> tuple[str, str]:
    """The line of a rule for u in its twin."""
    return "RULES = {\n", f'RULES = {{\n    "{name}": RuleForU(lambda p, u, log_a, bound: {u}),\n'


def rule_with(name: str, part: str, option: str, used: str) -> str:
    """The header of a rule like the one above, whose option is used or not."""
    text = RULE.replace("log_average", name).replace("LogAverage", part)
    return text.replace("double share;", f"double {option};").replace('"share"', f'"{option}"').replace("share *", used)


ADDITIONS: dict[str, dict[str, Edits]] = {
    "an objective": {
        "cpp/manyclass/objective/squared_hinge.hpp": (TESTS / "cpp/skeleton.hpp").read_text(encoding="utf-8"),
        SOLVERS: [
            (LAST_HEADER, LAST_HEADER + INCLUDE.strip() + "\n"),
            (LAST_SOLVER, f"                      {ENTRY.strip()}\n{LAST_SOLVER}"),
        ],
        STEPS: [
            ("STEPS: dict", f"{STEP.rstrip()}\n\n\nSTEPS: dict"),
            ('    "ove": ove,\n', f'    "ove": ove,\n    {IN_STEPS.strip()}\n'),
            ('    "ove": lambda', f'    {IN_OBJECTIVES.strip()}\n    "ove": lambda'),
            ("RATES = {", f"RATES = {{{IN_RATES.strip()} "),
        ],
    },
    "a rule for u in the double sum": {
        "cpp/manyclass/objective/log_average.hpp": RULE,
        SOLVERS: listed("log_average.hpp", "LogAverage"),
        STEPS: [
            rule_of_twin("log_average", "u + p.share * (log_a - u)"),
            ("    visits: int = 0\n", '    share: float = 0.5  # of "log_average"\n    visits: int = 0\n'),
        ],
    },
    "a selection": {
        "cpp/manyclass/select/stride.hpp": SELECTION,
        "cpp/manyclass/select/any_select.hpp": [
            (LAST_SELECTION, f'#include "manyclass/select/stride.hpp"\n{LAST_SELECTION}'),
            ("FrequencyBlock, HeadTail>", "FrequencyBlock, Stride, HeadTail>"),
        ],
        "tests/reference/selections.py": [
            (
                "SELECTIONS: dict",
                '''def distance_of(choice: Choice) -> int:
    """How far apart classes are for about m of them."""
    return -(-choice.n_classes // choice.m)


def stride(rng: Any, choice: Choice, label: Labels, head: Sequence[int] = ()) -> Drawn:
    """Every s-th class from a random one on."""
    s = distance_of(choice)
    classes = np.arange(rng.below(s), choice.n_classes, s)
    return Drawn(classes, np.where(np.isin(classes, label) & (not choice.with_label), 0.0, float(s)), float(s))


SELECTIONS: dict''',
            ),
            ('    "block": block,\n', '    "block": block,\n    "stride": stride,\n'),
            (
                '    "block": lambda',
                '    "stride": lambda c: np.full(c.n_classes, 1 / distance_of(c)),\n    "block": lambda',
            ),
        ],
    },
    "a number that a solver owns": {
        "cpp/manyclass/objective/u_rules.hpp": [
            (
                """      .source = "SCENT 2026",
      .flags = {flag::u, flag::u_step, flag::formulations},
  };
""",
                """      .source = "SCENT 2026",
      .flags = {flag::u, flag::u_step, flag::formulations},
      .parameters = {{"speed", 1, 0, unbounded, true, "Factor of the step size of e^-u."}},
  };
  double speed;
""",
            ),
            ("log_gain = std::log(point.eta_u);", "log_gain = std::log(speed * point.eta_u);"),
        ],
        STEPS: [
            ("    visits: int = 0\n", '    speed: float = 1.0  # of "scent"\n    visits: int = 0\n'),
            (
                "bound: _scent(point.eta_u, u, log_a)",
                "bound: _scent(point.speed * point.eta_u, u, log_a)",
            ),
        ],
    },
}

# A rule with a number that changes nothing: what the suite must find.
IDLE: dict[str, Edits] = {
    "cpp/manyclass/objective/idle_average.hpp": rule_with("idle_average", "IdleAverage", "idle", "0.5 *"),
    SOLVERS: listed("idle_average.hpp", "IdleAverage"),
    STEPS: [
        rule_of_twin("idle_average", "u + 0.5 * (log_a - u)"),
        ("    visits: int = 0\n", '    idle: float = 0.5  # of "idle_average"\n    visits: int = 0\n'),
    ],
}


def add(addition: dict[str, Edits], root: Path) -> None:
    """Write an addition into a copy of the tree."""
    for name, edits in addition.items():
        path = root / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for old, new in [("", edits)] if isinstance(edits, str) else edits:
            assert text.count(old) == 1 or not text, f"{old!r} is {text.count(old)} times in {name}"
            text = text.replace(old, new) if text else new
        path.write_text(text, encoding="utf-8")
