"""The code stays small, flat and readable: what tests/house.py measures, each measure shown a planted fault."""

import pytest
from house import (
    PACKAGE,
    bindings,
    circles,
    classes_twice,
    floors,
    imports,
    typed_any,
    vague,
)

MOST_FLOORS = 13  # counted by file
MOST_LINES = {"the Python layer": 25_000, "a folder of it": 3_500, "the core": 29_500}  # of code
MOST_VAGUE = 0.02  # of all bindings


@pytest.fixture
def package(tmp_path):
    """A package of four modules in a circle, with some of the faults."""
    (tmp_path / "attic").mkdir()
    (tmp_path / "cellar.py").write_text(f"from {tmp_path.name}.attic.roof import tile\nclass Coal: ...\n")
    (tmp_path / "attic/roof.py").write_text(f"if TYPE_CHECKING:\n    from {tmp_path.name}.cellar import coal\n")
    (tmp_path / "door.py").write_text(f"from {tmp_path.name} import cellar\ndef open(model: Any, own): ...\n")
    (tmp_path / "key.py").write_text("class Coal: ...\nfor of_door in doors: found, lock = turn(of_door)\n")
    return tmp_path


def test_modules_stand_on_few_floors_and_in_no_circle(package):
    graph = imports(PACKAGE)
    assert circles(graph) == []
    n_floors = max(floors(graph).values())
    assert n_floors <= MOST_FLOORS
    assert circles(imports(package)) == [[f"{package.name}.attic.roof", f"{package.name}.cellar"]]
    chain = {str(n): {str(n + 1)} for n in range(MOST_FLOORS)}
    assert circles(chain) == []
    assert max(floors(chain).values()) == MOST_FLOORS + 1


def test_no_estimator_has_the_type_any(package):
    assert typed_any(PACKAGE) == 0
    assert typed_any(package) == 1


def test_names_of_variables_are_nouns(package):
    names = bindings(PACKAGE)
    no_nouns = vague(names)
    share = no_nouns.total() / names.total()
    assert share <= MOST_VAGUE, no_nouns.most_common(12)
    planted = bindings(package)
    assert planted.total() == 5
    assert sorted(vague(planted)) == ["found", "of_door", "own"]


def test_no_two_classes_have_the_same_name(package):
    assert classes_twice(PACKAGE) == []
    assert classes_twice(package) == ["Coal"]
