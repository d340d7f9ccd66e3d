"""The code stays small, flat and readable: what tests/house.py measures, each measure shown a planted fault."""

import pytest
from house import PACKAGE, circles, floors, imports, typed_any

MOST_FLOORS = 13  # counted by file


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
    assert max(floors(graph).values()) <= MOST_FLOORS
    assert circles(imports(package)) == [[f"{package.name}.attic.roof", f"{package.name}.cellar"]]
    chain = {str(n): {str(n + 1)} for n in range(MOST_FLOORS)}
    assert circles(chain) == []
    assert max(floors(chain).values()) == MOST_FLOORS + 1


def test_no_estimator_has_the_type_any(package):
    assert typed_any(PACKAGE) == 0
    assert typed_any(package) == 1
