"""Settings of parts: what each kind takes, what it says when it refuses, and the docstrings that are made of them."""

import inspect
import itertools
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from manyclass import models, samplers, solvers
from manyclass.parts import Given, Part, Setting, class_name, document, part_classes, resolve_part, same
from manyclass.registry import names, parts

ALL = {**solvers.SOLVERS, **samplers.SAMPLERS, **models.MODELS, **solvers.LOCAL_STEPS, **solvers.POSTERIORS}

NUMBER = Setting("gain", 0.5, "A gain.", low=0, high=1, open_low=True)
CLOSED = Setting("delta", 1.0, "A distance.", low=0)
FREE = Setting("power", 0.75, "An exponent.")
OPEN = Setting("decay", "auto", "A factor.", beside=("auto", None), low=0, high=1)
WHOLE = Setting("n", 3, "A number of things.", "integer", beside=(None,), low=1, high=9)
CHOICE = Setting("schedule", "fast", "How it goes.", "choice", ("fast", "slow"), ("auto",))
FLAG = Setting("shuffle", True, "Whether things are mixed.", "flag", beside=(None,))


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        (NUMBER, (1e-300, 0.5, 1, 1.0, np.float32(0.25), np.int64(1))),
        (CLOSED, (0, 0.0, 1e300, 7)),
        (FREE, (-1e300, -2, 0, 3.5)),
        (OPEN, (0, 1, 0.5, "auto", None)),
        (WHOLE, (1, 9, np.int32(4), None)),
        (CHOICE, ("fast", "slow", "auto")),
        (FLAG, (True, False, np.True_, None)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_each_kind_takes_its_own_values_with_their_ends(setting, values):
    for value in values:
        setting.check(value)


REFUSED = [
    (NUMBER, 0, ValueError, "gain is 0; it must be finite, more than 0 and at most 1"),
    (NUMBER, 1.5, ValueError, "gain is 1.5; it must be finite, more than 0 and at most 1"),
    (NUMBER, np.nan, ValueError, "gain is nan; it must be finite"),
    (NUMBER, np.inf, ValueError, "gain is inf; it must be finite"),
    (NUMBER, True, TypeError, "gain is True; it must be a number"),
    (NUMBER, "0.5", TypeError, "gain is '0.5'; it must be a number"),
    (NUMBER, None, TypeError, "gain is None; it must be a number"),
    (NUMBER, 1j, TypeError, "gain is 1j; it must be a number"),
    (CLOSED, -1e-300, ValueError, "delta is -1e-300; it must be finite, at least 0"),
    (CLOSED, np.inf, ValueError, "delta is inf; it must be finite, at least 0"),
    (FREE, -np.inf, ValueError, "power is -inf; it must be finite"),
    (OPEN, "tied", ValueError, "decay is 'tied'; it must be one of 'auto'"),
    (OPEN, -0.5, ValueError, "decay is -0.5; it must be finite, at least 0 and at most 1"),
    (WHOLE, 0, ValueError, "n is 0; it must be at least 1 and at most 9"),
    (WHOLE, 10, ValueError, "n is 10; it must be at least 1 and at most 9"),
    (WHOLE, 3.0, TypeError, "n is 3.0; it must be an integer"),
    (WHOLE, np.True_, TypeError, "it must be an integer"),
    (CHOICE, "quick", ValueError, "schedule is 'quick'; it must be one of 'fast', 'slow'"),
    (CHOICE, None, ValueError, "schedule is None; it must be one of 'fast', 'slow'"),
    (CHOICE, 3, ValueError, "schedule is 3; it must be one of 'fast', 'slow'"),
    (FLAG, 1, TypeError, "shuffle is 1; it must be True or False"),
    (FLAG, "True", TypeError, "shuffle is 'True'; it must be True or False"),
]


@pytest.mark.parametrize(("setting", "value", "error", "message"), REFUSED, ids=lambda value: str(value)[:24])
def test_what_is_no_value_is_refused_with_the_value_and_the_rule(setting, value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        setting.check(value)


def test_a_value_beside_its_kind_is_meant_by_itself_and_not_by_what_equals_it():
    allowed = Setting("n", None, "A number.", "integer", beside=(None, "auto"), low=1)
    allowed.check(None)
    allowed.check("auto")
    for value in (False, 0, "Auto", np.nan):
        with pytest.raises((TypeError, ValueError)):
            allowed.check(value)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (NUMBER, "float"),
        (OPEN, 'float or "auto" or None'),
        (WHOLE, "int or None"),
        (CHOICE, '{"fast", "slow"} or "auto"'),
        (FLAG, "bool or None"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_type_is_said_as_docstrings_say_it(setting, words):
    assert setting.type == words


# Docstrings


@pytest.mark.parametrize("part", ALL.values())
def test_the_docstring_has_each_parameter_with_type_default_and_sentence(part):
    text = inspect.getdoc(part)
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n?)+)", text, re.MULTILINE)
    assert [name for name, _, _ in entries] == [s.name for s in part.settings]
    if part.__module__.endswith("models") or part is samplers.Search:
        return  # written by hand
    for (_, kind, sentence), setting in zip(entries, part.settings, strict=True):
        default = f'"{setting.default}"' if isinstance(setting.default, str) else str(setting.default)
        assert kind == f"{setting.type}, default={default}"
        assert " ".join(sentence.split()) == " ".join(setting.sentence.replace("'", "'").split())


def test_a_part_without_parameters_has_a_docstring_without_the_section():
    assert document("Every class.", ()) == "Every class.\n"
    assert document("It steps.", (FLAG,)) == (
        "It steps.\n\nParameters\n----------\nshuffle : bool or None, default=True\n    Whether things are mixed.\n"
    )


@pytest.mark.parametrize("name", names("solver") + names("selection") + names("local_step"))
def test_docstrings_tell_the_cores_sentence_source_and_bias(name):
    kind = next(k for k in ("solver", "selection", "local_step") if name in names(k))
    facts = parts(kind)[name]
    text = " ".join(inspect.getdoc(ALL[name]).split())
    assert facts.sentence.rstrip(".") in text
    assert facts.source in text
    if kind == "solver":
        assert ("Biased with few sampled classes." in text) == facts.biased
        assert ("Unbiased: gradients are right on average." in text) == (not facts.biased)


# Which settings a part has is said by its facts.


@pytest.mark.parametrize("name", names("solver"))
def test_flags_of_a_solver_say_which_settings_it_has(name):
    flags = parts("solver")[name].flags
    found = [s.name for s in solvers.SOLVERS[name].settings]
    own = [number.name for number in parts("solver")[name].parameters]
    assert found[: len(own)] == own
    for setting, has in {
        "u_learning_rate": "u_step" in flags,
        "u_init": "u" in flags and "overwrites_u" not in flags,
        "formulation": "formulations" in flags,
        "root": "root" in flags,
        "share_classes": not flags & {"batch", "all_classes"},
        "parallel": "batch" not in flags,
        "max_norm": "batch" not in flags,
        "log_q": "log_q" in flags,
    }.items():
        assert (setting in found) == has, setting
    assert {"schedule", "decay", "averaging", "batch_size", "shuffle"} <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("kind", ["solver", "selection"])
def test_ranges_of_the_cores_numbers_are_the_settings(kind):
    table = {"solver": solvers.SOLVERS, "selection": samplers.SAMPLERS}[kind]
    for name, facts in parts(kind).items():
        settings = {s.name: s for s in table[name].settings}
        for number in facts.parameters:
            setting = settings[number.name]
            assert (setting.default, setting.low, setting.high) == (number.default, number.low, number.high)
            assert (setting.open_low, setting.kind, setting.sentence) == (number.open_low, "number", number.sentence)


def test_names_are_filtered_by_their_flags():
    assert set(names("solver", "u", "implicit")) == {"implicit", "bregman", "minibatch_implicit"}
    assert set(names("solver", "u", "implicit", without="batch")) == {"implicit", "bregman"}
    assert names("selection", "heads") == ["head_tail"]
    assert names("selection", without="label") == ["head_tail"]
    assert names("selection", "counts", "heads") == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("umax", "UMax"),
        ("sgd", "SGD"),
        ("head_tail", "HeadTail"),
        ("is", "IS"),
        ("minibatch_implicit", "MinibatchImplicit"),
    ],
)
def test_names_of_classes_are_made_of_names(name, expected):
    assert class_name(name) == expected
    assert ALL[name].__name__ == expected


# Given: what is set and not taken is refused.


class Owner(BaseEstimator):
    def __init__(self, *, first=1, second="auto", third=None, fourth=False):
        self.first, self.second, self.third, self.fourth = first, second, third, fourth


def test_taking_gives_the_value_or_what_auto_stands_for():
    given = Given(Owner(first=5))
    assert given.take("first", 7) == 5
    assert given.take("second", 7) == 7
    assert given.take("second") == "auto"
    assert given.take("third", 7) is None
    assert given.take("fifth", 7) == 7
    assert given.is_auto("second")
    assert given.is_auto("fifth")
    assert not given.is_auto("first")


@pytest.mark.parametrize(
    "taken",
    list(
        itertools.chain.from_iterable(
            itertools.combinations(("first", "second", "third", "fourth"), n) for n in range(5)
        )
    ),
    ids=str,
)
def test_exactly_what_was_set_and_not_taken_is_refused(taken):
    changed = {"first": 2, "second": 0.5, "third": "x", "fourth": True}
    given = Given(Owner(**changed), "owner: ")
    for name in taken:
        given.take(name)
    left = sorted(changed.keys() - set(taken))  # as get_params has them
    if not left:
        given.refuse_rest("here")
        return
    default = inspect.signature(Owner).parameters[left[0]].default
    message = f"owner: {left[0]} is {changed[left[0]]!r}, which has no effect here; leave it {default!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        given.refuse_rest("here")
    Given(Owner()).refuse_rest("here")


@pytest.mark.parametrize(
    ("value", "default", "expected"),
    [
        (1, 1, True),
        (1.0, 1, False),  # of another type: set on purpose
        (True, 1, False),
        (None, None, True),
        ("auto", "auto", True),
        (np.float64(1), 1.0, False),
        (np.nan, np.nan, True),
        (0.5, 0.25, False),
    ],
)
def test_only_a_default_of_the_same_type_counts_as_left(value, default, expected):
    assert same(value, default) is expected


def test_a_part_made_of_data_is_a_class_like_one_that_is_written():
    made = part_classes(Part, "somewhere", [("my_part", (NUMBER, FLAG), "It does things.")])["my_part"]
    assert (made.__name__, made.name, made.__module__) == ("MyPart", "my_part", "somewhere")
    assert str(inspect.signature(made)) == "(*, gain=0.5, shuffle=True)"
    assert repr(made(gain=0.25)) == "MyPart(gain=0.25)"
    made(gain=1).check()
    with pytest.raises(ValueError, match=r"gain is 2; it must be finite"):
        made(gain=2).check()
    with pytest.raises(TypeError, match="MyPart has no parameter 'depth'; it has 'gain', 'shuffle'"):
        made(depth=3)
    choices = {"my_part": made}
    assert type(resolve_part("solver", "my_part", choices, "here")) is made
    one = made()
    assert resolve_part("solver", one, choices, "here") is one
    with pytest.raises(ValueError, match=r"gain is 0; it must be finite"):
        resolve_part("solver", made(gain=0), choices, "here")
    for wrong in ("my_prt", 3, None, made, solvers.UMax()):
        with pytest.raises(ValueError, match="it must be one of 'my_part' or an object of here"):
            resolve_part("solver", wrong, choices, "here")
    same_name = part_classes(Part, "elsewhere", [("my_part", (), "Another.")])["my_part"]
    with pytest.raises(ValueError, match="it must be one of 'my_part' or an object of here"):
        resolve_part("solver", same_name(), choices, "here")


def test_rooms_of_parts_say_what_they_have_and_what_they_lack():
    made = {solvers: (solvers.SOLVERS, solvers.LOCAL_STEPS, solvers.POSTERIORS), samplers: (samplers.SAMPLERS,)}
    for room, kinds in made.items():
        assert set(room.__all__) == {part.__name__ for kind in kinds for part in kind.values()}
        assert all(issubclass(getattr(room, name), Part) for name in room.__all__)
        with pytest.raises(AttributeError, match=f"{room.__name__} has no 'Depth'; it has {room.__all__[0]}, "):
            room.Depth  # noqa: B018
