"""Options of the command line, made from signatures and docstrings, so that no option is written twice.

Each command has a dataclass of its arguments: fields before `KW_ONLY` are positional, a field that is a dataclass
itself is a group of options, and one that is a Namespace has all that was parsed. The annotation tells what values
there are: a `Literal` has choices, a list is an option that may be given several times, a tuple takes several values at
once. The docstring has the help, and what stands there as the type, such as FILE, stands for the value in it; a text
that depends on what is there is metadata of the field.

Of an estimator the docstring tells the types, too, because it says more of values than the annotation does.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from manyclass.checks import Setting
from manyclass.models import MODELS
from manyclass.parts import Part
from manyclass.samplers import SAMPLERS
from manyclass.solvers import LOCAL_STEPS, POSTERIORS, SOLVERS
from manyclass.training.checkpoint import EVERY

# --progress stands for the first; the command begins every fit anew; the others are no single values.
LEFT_OUT = ("verbose", "warm_start", "constraints", "mixture", "nests")
PARTS: dict[str, Mapping[str, type[Part]]] = {
    "solver": SOLVERS,
    "sampler": SAMPLERS,
    "model": MODELS,
    "local_step": LOCAL_STEPS,
    "posterior": POSTERIORS,
}
Arguments = TypeVar("Arguments")


def documented_parameters(documented: type) -> dict[str, tuple[str, str]]:
    """Return the type and the text of each parameter in the numpydoc section of a class; empty without docstrings."""
    sections = r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\S[^\n]*\n-+\n|\Z)"
    section = re.search(sections, inspect.getdoc(documented) or "", re.S | re.M)
    parameters: dict[str, tuple[str, str]] = {}
    entries = r"^(\w+(?:, \w+)*) : ([^\n]*)\n((?:[ ]+[^\n]*\n?|\n)*)"
    for entry in re.finditer(entries, section[1] if section else "", re.M):
        text = " ".join(entry[3].replace("\\|", "|").split())
        parameters |= dict.fromkeys(entry[1].split(", "), (entry[2], text))
    return parameters


def flag(name: str) -> str:
    """Return an argument as it is written on the command line."""
    return "--" + name.replace("_", "-") if len(name) > 1 else "-" + name


# Commands


def add_arguments(parser: argparse.ArgumentParser, kind: type, add: Callable[..., Any] | None = None) -> None:
    """Add an argument for each field of a dataclass, and a group for each field that is a dataclass.

    Parameters
    ----------
    parser : ArgumentParser
    kind : dataclass
    add : callable, optional
        Method `add_argument` of a group of the parser; by default that of the parser.
    """
    documented: dict[str, tuple[str, str]] = {}
    for base in reversed(kind.__mro__):  # what several commands have is documented once, in a base class
        documented |= documented_parameters(base)
    hints, helps = get_type_hints(kind), {entry.name: entry.metadata.get("help") for entry in fields(kind)}
    # Options that a command shares with others come behind its own.
    shared = [entry.name for entry in fields(kind) if entry.kw_only and entry.name not in kind.__annotations__]
    parameters = inspect.signature(kind).parameters
    for name in sorted(parameters, key=shared.__contains__):
        hint, parameter, (metavar, text) = hints[name], parameters[name], documented.get(name, (None, ""))
        text = helps[name] or text
        if is_dataclass(hint) and isinstance(hint, type):
            title, _, about = (inspect.getdoc(hint) or "").partition("\n\n")
            about = re.split(r"(?:Parameters|Attributes)\n-+\n", about)[0].strip()
            add_arguments(parser, hint, parser.add_argument_group(title.rstrip("."), about or None).add_argument)
        elif hint is not argparse.Namespace:
            _add_argument(add or parser.add_argument, parameter, hint, metavar, text)


def _add_argument(
    add: Callable[..., Any], parameter: inspect.Parameter, hint: Any, metavar: str | None, text: str
) -> None:
    """Add the argument of one field."""
    required = parameter.default is inspect.Parameter.empty
    default = None if required else parameter.default
    described: dict[str, Any] = {"help": text.replace("%", "%%"), "default": default}
    kind = get_args(hint)[0] if get_origin(hint) in (Union, UnionType) else hint  # of one that may be None, too
    if kind is bool:
        described["action"] = "store_true" if default is False else argparse.BooleanOptionalAction
    elif get_origin(kind) is Literal:
        described["choices"] = get_args(kind)
    else:
        described["metavar"] = metavar if metavar and metavar.isupper() else None
        described["type"] = kind if kind in (int, float) else None
        described |= {list: {"action": "append"}, tuple: {"nargs": "+"}}.get(get_origin(kind), {})
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        add(flag(parameter.name), dest=parameter.name, required=required, **described)
    else:
        add(parameter.name, **described, **({} if required else {"nargs": "?"}))


def arguments_from(args: argparse.Namespace, kind: type[Arguments]) -> Arguments:
    """Return the dataclass of a command with what was parsed; a field that is a Namespace has all of it."""
    hints = get_type_hints(kind)
    names = [*inspect.signature(kind).parameters]
    values = {name: arguments_from(args, hints[name]) for name in names if is_dataclass(hints[name])}
    values |= {name: args for name in names if hints[name] is argparse.Namespace}
    return kind(**{name: getattr(args, name) for name in names if name not in values}, **values)


def set_options(arguments: Any) -> Iterator[str]:
    """Yield the names of the options of a dataclass, and of those in it, that are not at their defaults."""
    for entry in fields(arguments):
        value = getattr(arguments, entry.name)
        if is_dataclass(value):
            yield from set_options(value)
        elif entry.init and entry.default is not MISSING and value != entry.default:
            yield entry.name


# Estimators


def add_parameters(parser: argparse.ArgumentParser, estimator: type, prefix: str = "") -> None:
    """Add an option for each constructor parameter of the estimator but `verbose`, the prefix before its name."""
    group = parser.add_argument_group(f"parameters of {estimator.__name__}")
    documented = documented_parameters(estimator)
    for name, parameter in inspect.signature(estimator).parameters.items():
        if name not in LEFT_OUT:
            described = option(parameter, *documented.get(name, ("", "")))
            group.add_argument(flag(prefix + name), dest=prefix + name, **described)
    kinds = _kinds(estimator)
    if kinds:
        text = "a parameter of a part, such as solver__decay=0.7 with --solver implicit; may be given several times"
        group.add_argument("--set", action="append", default=[], metavar="PART__NAME=VALUE", help=text)
        parser.epilog = _parts_in_words(kinds)


def _kinds(estimator: type) -> dict[str, Mapping[str, type[Part]]]:
    """Return the kinds of parts that the estimator has, each with its parts."""
    parameters = inspect.signature(estimator).parameters
    # The solver of choice models is a name, and no part.
    return {k: parts for k, parts in PARTS.items() if k in parameters and "Part" in str(parameters[k].annotation)}


def _parts_in_words(kinds: Mapping[str, Mapping[str, type[Part]]]) -> str:
    """Return a list of the parts with their parameters."""
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
    parameters = {name: getattr(args, prefix + name) for name in names}
    kinds = _kinds(estimator)
    for setting in args.set if kinds else []:
        name, equals, text = setting.partition("=")
        kind, _, member = name.partition("__")
        if not equals or not member or kind not in kinds:
            raise ValueError(f"--set is {setting!r}; it must be like solver__decay=0.7")
        if isinstance(parameters[kind], str):
            if parameters[kind] not in kinds[kind]:
                wanted = f"{flag(kind)} to name a {kind.replace('_', ' ')}"
                raise ValueError(f"--set is {setting!r}, which needs {wanted}; it is {parameters[kind]!r}")
            parameters[kind] = kinds[kind][parameters[kind]]()
        known = {s.name: s for s in parameters[kind].settings}
        if member not in known:
            members = ", ".join(known) or "no parameters"
            raise ValueError(f"--set is {setting!r}; {parameters[kind].name!r} has {members}")
        try:
            parameters[kind].set_params(**{member: _value(known[member], text)})
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--set is {setting!r}: {error}") from error
    return parameters


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
        for number in [number for number in (int, float) if number.__name__ in words]:
            with contextlib.suppress(ValueError):
                return number(text)
        if "str" in words or "label" in words:
            return text
        readable = [word for word in words if word in ("int", "float", "None") or word.startswith('"')]
        raise argparse.ArgumentTypeError(f"{text!r} is not one of: {', '.join(readable)}")

    return convert


# Of several commands


@dataclass(kw_only=True)
class WithProgress:
    """Arguments of commands that take long.

    Attributes
    ----------
    progress : bool
        show progress on stderr after the first second: a bar on a terminal, else lines of text
    """

    progress: bool = True


@dataclass(kw_only=True)
class CheckpointOptions:
    """Checkpoints.

    Attributes
    ----------
    checkpoint : DIR
        folder for checkpoints, from which a training that was stopped goes on
    every : WHEN
        a time, as 30s, 10min or 2h, or a number of passes
    resume : bool
        go on from the checkpoints in DIR, if there are any
    """

    checkpoint: str | None = None
    every: str = EVERY
    resume: bool = False

    @property
    def how(self) -> dict[str, Any]:
        """What `fit` takes of these options, and checks."""
        every = int(self.every) if self.every.isdigit() else self.every
        return {"checkpoint": self.checkpoint, "every": every, "resume": self.resume}
