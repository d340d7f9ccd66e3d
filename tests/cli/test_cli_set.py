"""Parameters of parts on the command line: `--set PART__NAME=VALUE` for every part, and what it refuses."""

import argparse
import inspect
import re

import numpy as np
import pytest

from manyclass import AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier, models, samplers, solvers
from manyclass.cli.options import (
    PARTS,
    UNDOCUMENTED,
    add_parameters,
    converter,
    documented_parameters,
    option,
    parameters_from,
)

EACH = [
    pytest.param(kind, name, s, id=f"{kind}-{name}-{s.name}")
    for kind, parts in PARTS.items()
    for name, part in parts.items()
    for s in part.settings
]


def owner(kind):
    """An estimator that has parts of this kind."""
    return AugmentReduceClassifier if kind in ("local_step", "posterior") else SoftmaxClassifier


def parsed(*argv, estimator=SoftmaxClassifier):
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_parameters(parser, estimator)
    return parameters_from(parser.parse_args(argv), estimator)


def texts(setting):
    """Ways to write legal values, with what they mean."""
    found = {str(other): other for other in setting.beside}
    if setting.kind == "flag":
        found |= {"true": True, "False": False, "TRUE": True}
    elif setting.kind == "choice":
        found |= {choice: choice for choice in setting.choices}
    elif setting.kind == "index":
        found |= {name: name for name in samplers.SEARCHES}
    elif setting.kind == "integer":
        found |= {"3": 3}
    else:
        found |= {"0.5": 0.5, "1": 1.0, "5e-1": 0.5}
    if None in setting.beside:
        found["NONE"] = None
    return found


@pytest.mark.parametrize(("kind", "name", "setting"), EACH)
def test_every_parameter_of_every_part_can_be_set(kind, name, setting):
    for text, value in texts(setting).items():
        option = "--" + kind.replace("_", "-")
        found = parsed(option, name, "--set", f"{kind}__{setting.name}={text}", estimator=owner(kind))
        part = found[kind]
        assert type(part) is PARTS[kind][name]
        got = getattr(part, setting.name)
        assert got == value
        assert (got is value) or not isinstance(value, bool | None)
        part.check()
        others = {s.name: s.default for s in part.settings if s.name != setting.name}
        assert {key: getattr(part, key) for key in others} == others
        signature = inspect.signature(owner(kind)).parameters
        defaults = {other: signature[other].default for other in PARTS if other in signature} | {kind: part}
        assert {key: found[key] for key in defaults} == defaults


def test_several_settings_of_several_parts_stand_side_by_side_and_the_last_one_wins():
    found = parsed(
        *("--solver", "umax", "--sampler", "frequency", "--set", "solver__delta=2", "--set", "sampler__power=0.5"),
        *("--set", "solver__decay=0.7", "--set", "solver__delta=3"),
    )
    assert repr(found["solver"]) == repr(solvers.UMax(delta=3.0, decay=0.7))
    assert repr(found["sampler"]) == repr(samplers.Frequency(power=0.5))
    assert found["model"] == "auto"


def test_without_settings_the_names_go_down_as_they_are():
    assert parsed("--solver", "umax")["solver"] == "umax"
    assert parsed()["sampler"] == "auto"


def test_a_value_may_hold_an_equals_sign_or_nothing():
    with pytest.raises(ValueError, match=re.escape("--set is 'solver__delta=1=2': '1=2' is not one of: float")):
        parsed("--solver", "umax", "--set", "solver__delta=1=2")
    with pytest.raises(ValueError, match=re.escape("--set is 'solver__delta=': '' is not one of: float")):
        parsed("--solver", "umax", "--set", "solver__delta=")


NOT_A_SETTING = [
    "decay=0.7",
    "solver__decay",
    "solver__=1",
    "__decay=1",
    "=1",
    "",
    "solver=umax",
    "posterior__n_draws=3",
    "solver_decay=1",
    "Solver__decay=0.5",
]


@pytest.mark.parametrize("text", NOT_A_SETTING)
def test_what_is_no_setting_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=re.escape(f"--set is {text!r}; it must be like solver__decay=0.7")):
        parsed("--solver", "umax", "--set", text)


@pytest.mark.parametrize("kind", PARTS)
def test_a_setting_needs_its_part_to_be_named(kind):
    text = f"{kind}__decay=0.7"
    option, estimator = "--" + kind.replace("_", "-"), owner(kind)
    default = inspect.signature(estimator).parameters[kind].default
    if default in PARTS[kind]:
        parsed("--set", f"{kind}__n_nodes=7", estimator=estimator)  # the default names it
    else:
        message = f"--set is {text!r}; {option} is {default!r}, which has no parameters"
        with pytest.raises(ValueError, match=re.escape(message)):
            parsed("--set", text, estimator=estimator)
    # argparse knows the choices of a short list.
    wrong = ValueError if kind in ("solver", "sampler") else argparse.ArgumentError
    with pytest.raises(wrong, match="'nmae'"):
        parsed(option, "nmae", "--set", text, estimator=estimator)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, parts in PARTS.items() for name in parts], ids=lambda value: value
)
def test_a_parameter_that_a_part_has_not_is_refused_with_those_that_it_has(kind, name):
    text = f"{kind}__depth=3"
    known = ", ".join(s.name for s in PARTS[kind][name].settings) or "no parameters"
    option = "--" + kind.replace("_", "-")
    with pytest.raises(ValueError, match=re.escape(f"{option} is {name!r}, which has {known}")):
        parsed(option, name, "--set", text, estimator=owner(kind))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("umax", "solver__delta=big"), "'big' is not one of: float"),
        (("umax", "solver__decay=fast"), "'fast' is not one of: float or \"auto\""),
        (("umax", "solver__batch_size=1.5"), "'1.5' is not one of: int or None"),
        (("umax", "solver__u_learning_rate=Tied"), '\'Tied\' is not one of: float or "auto" or "tied"'),
        (("umax", "solver__max_norm=auto"), "'auto' is not one of: float or None"),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_read_is_refused_with_what_can_be(argv, message):
    solver, text = argv
    with pytest.raises(ValueError, match=re.escape(f"--set is {text!r}: {message}")):
        parsed("--solver", solver, "--set", text)


@pytest.mark.parametrize("text", ["solver__schedule=fast", "solver__shuffle=yes", "solver__delta=-1"])
def test_values_that_are_read_and_not_legal_are_refused_by_the_estimator(text):
    try:
        found = parsed("--solver", "umax", "--set", text)
    except ValueError as error:
        assert text.partition("=")[2] in str(error)  # noqa: PT017
        return
    with pytest.raises((ValueError, TypeError), match=text.partition("__")[2].partition("=")[0]):
        SoftmaxClassifier(**found).check_parameters()


# How values are read.


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "3", 3),
        ("float", "3", 3.0),
        ("float", "1e-3", 1e-3),
        ("float", "nan", np.nan),
        ("int or None", "NONE", None),
        ('float or "auto"', "auto", "auto"),
        ('float, "auto" or "grid", default="auto"', "grid", "grid"),
        ("int, float, str or None", "3", 3),
        ("int, float, str or None", "3.5", 3.5),
        ("int, float, str or None", "x", "x"),
        ("int, RandomState instance or None, default=None", "7", 7),
        ("str or index", "mips", "mips"),
    ],
)
def test_texts_are_read_as_their_type_says(kind, text, value):
    found = converter(kind)(text)
    assert type(found) is type(value)
    assert found == value or (found != found and value != value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "3.5"),
        ("int", "none"),
        ("float", "auto"),
        ('float or "auto"', '"auto"'),
        ("int or None", ""),
        ("float", "1,5"),
    ],
)
def test_texts_of_another_type_are_refused(kind, text):
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(f"{text!r} is not one of: ")):
        converter(kind)(text)


def test_parameters_and_types_are_read_from_docstrings():
    class Documented:
        """One line.

        Parameters
        ----------
        first : int, default=3
            A number
            on two lines.

        second : {"a", "b"} or None
            One of two, 5 \\|x\\| %.

        Attributes
        ----------
        third : int
            None of them.
        """

        def __init__(self, *, first=3, second="a", third=False):
            pass

    found = documented_parameters(Documented)
    assert found == {
        "first": ("int, default=3", "A number on two lines."),
        "second": ('{"a", "b"} or None', "One of two, 5 |x| %."),
    }
    assert documented_parameters(type("Bare", (), {})) == {}
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_parameters(parser, Documented)
    args = parser.parse_args(["--first", "7", "--second", "b", "--third"])
    assert parameters_from(args, Documented) == {"first": 7, "second": "b", "third": True}
    assert parser.parse_args(["--no-third"]).third is False
    assert "One of two, 5 |x| %." in " ".join(parser.format_help().split())
    with pytest.raises(argparse.ArgumentError, match="invalid choice: 'c'"):
        parser.parse_args(["--second", "c"])


def test_an_option_without_documentation_takes_any_value():
    depth = inspect.signature(lambda *, depth=None: None).parameters["depth"]
    made = option(depth, *UNDOCUMENTED)
    assert made["metavar"] == "DEPTH"
    assert [made["type"](text) for text in ("3", "0.5", "none", "deep")] == [3, 0.5, None, "deep"]


def test_the_same_options_are_made_for_other_estimators():
    found = parsed("--loss", "triplet", "--model", "embedding", "--dim", "3", estimator=MarginClassifier)
    assert (found["loss"], found["model"], found["dim"]) == ("triplet", "embedding", 3)
    relu = parsed("--model", "embedding", "--set", "model__activation=relu", estimator=MarginClassifier)
    assert repr(relu["model"]) == repr(models.Embedding(activation="relu"))
