"""Options of the command line, made from signatures and docstrings, so that no option is written twice.

Each command has a dataclass of its arguments: fields before `KW_ONLY` are positional, a field that is a dataclass
itself is a group of options, and one that is a Namespace has all that was parsed. The annotation tells what values
there are: a `Literal` has choices, a list is an option that may be given several times, a tuple takes several values at
once. The docstring has the help, and what stands there as the type, such as FILE, stands for the value in it.

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
CONSTANTS = (("none", None, "None"), ("true", True, "bool"), ("false", False, "bool"))
UNDOCUMENTED = ("int, float, str or None", "")
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


def option(parameter: inspect.Parameter, kind: str, text: str, hint: Any = None) -> dict[str, Any]:
    """Return argparse's description of a parameter, by its annotation if there is one, and what its docstring says.

    Parameters
    ----------
    parameter : inspect.Parameter
    kind : str
        Its type in the docstring, such as FILE or "float or None".
    text : str
    hint : type, optional
    """
    default = None if parameter.default is parameter.empty else parameter.default
    if not isinstance(default, bool) and default not in (None, ()):
        text += f" (default: {default})"
    hint = get_args(hint)[0] if get_origin(hint) in (Union, UnionType) else hint  # of one that may be None, too
    values = _values(kind, hint, default)
    if values.get("action", "append") == "append" and "choices" not in values:
        values["metavar"] = kind if kind.isupper() else parameter.name.upper()
    return {"default": default, "help": text.replace("%", "%%"), **values}


def _values(kind: str, hint: Any, default: Any) -> dict[str, Any]:
    """Return argparse's description of the values that an annotation, or a type in a docstring, allows."""
    if isinstance(default, bool) or hint is bool or kind.startswith("bool"):
        is_switch = hint is bool and default is False
        return {"action": "store_true" if is_switch else argparse.BooleanOptionalAction}
    choices = re.match(r"\{(.*?)\}", kind)
    if get_origin(hint) is Literal or (hint is None and choices):
        return {"choices": get_args(hint) or re.findall(r'"(.*?)"', choices[1] if choices else "")}
    if hint is None or hint in (int, float):
        return {"type": hint or converter(kind)}
    of_several: dict[Any, dict[str, Any]] = {list: {"action": "append"}, tuple: {"nargs": "+"}}
    return of_several[get_origin(hint)] | {"type": get_args(hint)[0]} if get_origin(hint) in of_several else {}


# Commands


def add_arguments(parser: argparse.ArgumentParser, kind: type, group: Any = None) -> None:
    """Add an argument for each field of a dataclass, to a group if there is one; a dataclass in it is another group."""
    # What several commands have is documented once, in a base class.
    documented = {k: v for base in reversed(kind.__mro__) for k, v in documented_parameters(base).items()}
    hints = get_type_hints(kind)
    for name, parameter in inspect.signature(kind).parameters.items():
        if is_dataclass(hints[name]):
            title, _, about = (inspect.getdoc(hints[name]) or "").partition("\n\n")
            about = re.split(r"(?:Parameters|Attributes)\n-+\n", about)[0].strip()
            add_arguments(parser, hints[name], parser.add_argument_group(title.rstrip("."), about or None))
        elif hints[name] is not argparse.Namespace:
            described = option(parameter, *documented.get(name, UNDOCUMENTED), hints[name])
            if parameter.kind is parameter.KEYWORD_ONLY:
                described |= {"dest": name, "required": parameter.default is parameter.empty}
            elif parameter.default is not parameter.empty:
                described["nargs"] = "?"
            (group or parser).add_argument(flag(name) if "dest" in described else name, **described)


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
            described = option(parameter, *documented.get(name, UNDOCUMENTED))
            group.add_argument(flag(prefix + name), dest=prefix + name, **described)
    if kinds := _kinds(estimator):
        text = "a parameter of a part, such as solver__decay=0.7 with --solver implicit; may be given several times"
        group.add_argument("--set", action="append", default=[], metavar="PART__NAME=VALUE", help=text)
        lines = []
        for kind, parts in kinds.items():
            lines.append(f"parameters of each {kind}, for --set {kind}__NAME=VALUE:")
            lines += [f"  {name}: {', '.join(s.name for s in part.settings) or 'none'}" for name, part in parts.items()]
        parser.epilog = "\n".join(lines)


def _kinds(estimator: type) -> dict[str, Mapping[str, type[Part]]]:
    """Return the kinds of parts that the estimator has, each with its parts."""
    parameters = inspect.signature(estimator).parameters
    # The solver of choice models is a name, and no part.
    return {k: parts for k, parts in PARTS.items() if k in parameters and "Part" in str(parameters[k].annotation)}


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
        part = parameters[kind]
        part = kinds[kind][part]() if part in kinds[kind] else part
        types = {} if isinstance(part, str) else {s.name: s.type for s in part.settings}
        if member not in types:
            which = f"{flag(kind)} is {getattr(part, 'name', part)!r}, which has {', '.join(types) or 'no parameters'}"
            raise ValueError(f"--set is {setting!r}; {which}")
        try:
            parameters[kind] = part.set_params(**{member: converter(types[member])(text)})
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--set is {setting!r}: {error}") from error
    return parameters


def converter(kind: str) -> Callable[[str], Any]:
    """Return the function that reads a value of a type written as in "float or None, default=None"."""
    kind = kind.partition(", default=")[0]
    words = re.findall(r'\w+|".*?"', kind)
    constants = {text: constant for text, constant, word in CONSTANTS if word in words}

    def convert(text: str) -> Any:
        if f'"{text}"' in words:
            return text
        if text.lower() in constants:
            return constants[text.lower()]
        for number in [number for number in (int, float) if number.__name__ in words]:
            with contextlib.suppress(ValueError):
                return number(text)
        if "str" in words or "label" in words:
            return text
        raise argparse.ArgumentTypeError(f"{text!r} is not one of: {kind}")

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
