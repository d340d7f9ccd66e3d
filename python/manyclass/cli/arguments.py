"""Options made from an estimator's signature and docstring, so that the command cannot drift from the class."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from manyclass.checks import Setting
from manyclass.models import MODELS
from manyclass.parts import Part
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LOCAL_STEPS, POSTERIORS, SOLVERS
from manyclass.training.checkpoint import EVERY

LEFT_OUT = ("verbose", "warm_start")  # see --progress; what is fitted has no fit before it
PARTS: dict[str, Mapping[str, type[Part]]] = {
    "solver": SOLVERS,
    "sampler": SAMPLERS,
    "model": MODELS,
    "local_step": LOCAL_STEPS,
    "posterior": POSTERIORS,
}


def documented_parameters(estimator: type) -> dict[str, tuple[str, str]]:
    """Return the type and the text of each parameter in the numpydoc section Parameters; empty without docstrings."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\S[^\n]*\n-+\n|\Z)", inspect.getdoc(estimator) or "", re.S | re.M)
    found = {}
    for entry in re.finditer(r"^(\w+) : ([^\n]*)\n((?:[ ]+[^\n]*\n?|\n)*)", section[1] if section else "", re.M):
        found[entry[1]] = (entry[2], " ".join(entry[3].replace("\\|", "|").split()))
    return found


def add_parameters(parser: argparse.ArgumentParser, estimator: type, prefix: str = "") -> None:
    """Add an option for each constructor parameter of the estimator but `verbose`, the prefix before its name."""
    group = parser.add_argument_group(f"parameters of {estimator.__name__}")
    documented = documented_parameters(estimator)
    for name, parameter in inspect.signature(estimator).parameters.items():
        if name in LEFT_OUT:
            continue
        group.add_argument(
            "--" + (prefix + name).replace("_", "-"),
            dest=prefix + name,
            **option(parameter, *documented.get(name, ("", ""))),
        )
    kinds = _kinds(estimator)
    if kinds:
        text = "a parameter of a part, such as solver__decay=0.7 with --solver implicit; may be given several times"
        group.add_argument("--set", action="append", default=[], metavar="PART__NAME=VALUE", help=text)
        parser.epilog = _parts_in_words(kinds)


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add the option --progress; see `shows_progress`."""
    text = "tell on stderr how far it is, from the first second on: a bar on a terminal, else lines"
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction, default=True, help=text)


def shows_progress(args: argparse.Namespace) -> bool:
    """Whether to tell of progress."""
    return bool(args.progress)


def add_checkpoints(parser: argparse.ArgumentParser) -> None:
    """Add the options of checkpoints; see `checkpoints_from`."""
    add = parser.add_argument
    add("--checkpoint", metavar="DIR", help="write there now and then what a training that is stopped can go on from")
    add("--every", metavar="WHEN", default=EVERY, help="a time, as 30s, 10min or 2h, or a number of passes")
    add("--resume", action="store_true", help="go on from the checkpoints in DIR, if there are any")


def checkpoints_from(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `fit` takes of these options."""
    every = int(args.every) if args.every.isdigit() else args.every
    return {"checkpoint": args.checkpoint, "every": every, "resume": args.resume}


def _kinds(estimator: type) -> dict[str, Mapping[str, type[Part]]]:
    """The kinds of parts that the estimator has."""
    return {kind: parts for kind, parts in PARTS.items() if kind in inspect.signature(estimator).parameters}


def _parts_in_words(kinds: Mapping[str, Mapping[str, type[Part]]]) -> str:
    """The parts with their parameters."""
    lines = []
    for kind, parts in kinds.items():
        lines.append(f"parameters of each {kind}, for --set {kind}__NAME=VALUE:")
        lines += [f"  {name}: {', '.join(s.name for s in part.settings) or 'none'}" for name, part in parts.items()]
    return "\n".join(lines)


def option(parameter: inspect.Parameter, kind: str, text: str) -> dict[str, Any]:
    """Return argparse's description of a parameter that is documented with a type and a text."""
    options: dict[str, Any] = {"default": parameter.default, "help": text.replace("%", "%%")}
    choices = re.match(r"\{(.*?)\}", kind)
    if isinstance(parameter.default, bool) or kind.startswith("bool"):
        options["action"] = argparse.BooleanOptionalAction
    elif choices:
        options["choices"] = re.findall(r'"(.*?)"', choices[1])
    else:
        options["type"] = converter(kind or "int, float, str or None")
        options["metavar"] = parameter.name.upper()
    return options


def parameters_from(args: argparse.Namespace, estimator: type, prefix: str = "") -> dict[str, Any]:
    """Return the estimator's parameters among the arguments.

    Raises
    ------
    ValueError
        If a parameter of a part is set without naming the part, or is none of its own, or cannot be read.
    """
    names = [name for name in inspect.signature(estimator).parameters if name not in LEFT_OUT]
    found = {name: getattr(args, prefix + name) for name in names}
    kinds = _kinds(estimator)
    for setting in getattr(args, "set", []) if kinds else []:
        name, equals, text = setting.partition("=")
        kind, _, own = name.partition("__")
        if not equals or not own or kind not in kinds:
            raise ValueError(f"--set is {setting!r}; it must be like solver__decay=0.7")
        if isinstance(found[kind], str):
            if found[kind] not in kinds[kind]:
                wanted = f"--{kind.replace('_', '-')} to name a {kind.replace('_', ' ')}"
                raise ValueError(f"--set is {setting!r}, which needs {wanted}; it is {found[kind]!r}")
            found[kind] = kinds[kind][found[kind]]()
        known = {s.name: s for s in found[kind].settings}
        if own not in known:
            raise ValueError(f"--set is {setting!r}; {found[kind].name!r} has {', '.join(known) or 'no parameters'}")
        try:
            found[kind].set_params(**{own: _value(known[own], text)})
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--set is {setting!r}: {error}") from error
    return found


def _value(setting: Setting, text: str) -> Any:
    """Read the value of a part's parameter."""
    if setting.kind == "flag" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text if setting.kind in ("choice", "index") else converter(setting.type)(text)


def converter(kind: str) -> Callable[[str], Any]:
    """Return the function that reads a value of a type written as in "float or None, default=None"."""
    kind = kind.partition(", default=")[0]
    words = re.findall(r'\w+|".*?"', kind)
    literals = [word.strip('"') for word in words if word.startswith('"')]

    def convert(text: str) -> Any:
        if "None" in words and text.lower() == "none":
            return None
        if text in literals:
            return text
        for of in (int, float):
            if of.__name__ in words:
                try:
                    return of(text)
                except ValueError:
                    continue
        if "str" in words:
            return text
        readable = [word for word in words if word in ("int", "float", "None") or word.startswith('"')]
        raise argparse.ArgumentTypeError(f"{text!r} is not one of: {', '.join(readable)}")

    return convert
