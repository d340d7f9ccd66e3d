"""What messages say of values: as a person writes them, without NumPy's types or another library's English."""

import numpy as np
import pytest

import manyclass
from manyclass import SoftmaxClassifier

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.resize(["tea", "milk", "wine"], 60)


def fitted():
    return SoftmaxClassifier(solver="exact", max_iter=2, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fitted().top_features("beer", 2), ("'beer'",)),
        (lambda: SoftmaxClassifier().fit(X, np.full(60, 1.0)), ("one class, 1.0",)),
        (lambda: SoftmaxClassifier().fit(X, np.full(60, "tea")), ("one class, 'tea'",)),
        (lambda: fitted().predict_top_k(X, 2, exclude=True), ("exclude is True", "'seen'")),
        (lambda: fitted().predict_top_k(X, 2, exclude=np.full((60, 3), np.int64(2))), ("holds 2",)),
        (lambda: SoftmaxClassifier(class_weight={"beer": 2.0}).fit(X, Y), ("'beer'", "'milk'")),
        (lambda: SoftmaxClassifier(alpha=np.float32(-0.5)).fit(X, Y), ("alpha is -0.5",)),
    ],
)
def test_values_are_plain(call, words):
    with pytest.raises((ValueError, TypeError, UserWarning)) as error:
        call()
    message = str(error.value)
    assert all(word in message for word in words), message
    assert "np." not in message, message


def test_a_file_that_is_no_model_is_named_without_the_library_s_words(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"table\.csv is not a safetensors file, or it is truncated$"):
        manyclass.load(path)
