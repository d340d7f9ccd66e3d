"""Fitted models on disk and back: what knows the classes of estimators beside the form of files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from manyclass.choice.files import FORMAT as CHOICE_FORMAT
from manyclass.choice.model import ChoiceClassifier
from manyclass.classifiers.files import kind_of, open_model, read_model
from manyclass.classifiers.margin import MarginClassifier
from manyclass.classifiers.predictions import with_state
from manyclass.classifiers.softmax import SoftmaxClassifier
from manyclass.classifiers.utility import AugmentReduceClassifier
from manyclass.weights.tensor_file import PathLike, open_tensors, reading

Classifier = SoftmaxClassifier | MarginClassifier | AugmentReduceClassifier

CLASSES: dict[str, type[Classifier]] = {
    cls.__name__: cls for cls in (AugmentReduceClassifier, MarginClassifier, SoftmaxClassifier)
}


def save_model(model: Classifier | ChoiceClassifier, path: PathLike, notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model, see `SoftmaxClassifier.save`.

    Parameters
    ----------
    model : SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier or ChoiceClassifier
        Of a model that was fitted on texts, the file has the `vectorizer_`, too.
    path : str or path-like
    notes : mapping of str to what JSON holds, optional
        Kept in the file for `load_notes`; the model does not use them.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If labels, parameters, notes or the vectorizer are of a type that the format lacks; nothing is written then.
    ValueError
        If the weights are not finite, or the vectorizer has another number of columns than the model has features.
    OSError
        If the file cannot be written; an older file of this name stays as it was.
    """
    if isinstance(model, ChoiceClassifier):
        model.save(path, notes)
        return
    kind_of(model)  # else it may have no such method
    model._save(path, notes)


def load(
    path: PathLike, mmap: bool = False
) -> SoftmaxClassifier | MarginClassifier | AugmentReduceClassifier | ChoiceClassifier:
    """Load a model that an estimator's `save` has written.

    Parameters
    ----------
    path : str or path-like
        The file. Nothing in it is executed.
    mmap : bool, default=False
        Map the weights instead of reading them: they are read from the disk where a prediction needs them, shared
        between processes, and `coef_` is read-only. The file must stay as it is while the model is in use (`save`
        puts a new file in its place and does no harm). Numbers that are not finite, for which a model that is read is
        refused, are found by the first prediction that they change, which raises ValueError with the file's name.

    Returns
    -------
    SoftmaxClassifier, MarginClassifier, AugmentReduceClassifier or ChoiceClassifier
        What was saved, fitted; predictions are bit for bit those of the saved one, of texts, too, where that one was
        fitted on texts. What a newer version of this package has added to the file is left unread, with a UserWarning.

    Raises
    ------
    ValueError
        If the file is not a model of this package, truncated, inconsistent, of a newer format, or with a parameter that
        the constructor's class does not take; the message names the file.
    OSError
        If it cannot be read.
    """
    file = open_tensors(path)
    if file.metadata.get("format") != CHOICE_FORMAT:
        return load_classifier(path, mmap)
    return ChoiceClassifier.load(path)


def load_classifier(path: PathLike, mmap: bool = False) -> Classifier:
    """Load a model of classes with weights of their own; see `load`, which loads choice models, too."""
    file = open_model(path)
    with reading(file):
        kind, parameters, state = read_model(file, mmap)
        cls = CLASSES[kind]
        if unknown := sorted({*parameters, *state.fit_report.params} - set(cls._get_param_names())):
            raise ValueError(f"{kind} has no parameter {unknown[0]!r}")
        model: Classifier = cls(**parameters)
        model.check_parameters()
    return with_state(model, state)


def load_notes(path: PathLike) -> dict[str, Any]:
    """Read what `save_model` was given as notes.

    Parameters
    ----------
    path : str or path-like
        The model file.

    Returns
    -------
    dict
        The notes; empty if there were none.

    Raises
    ------
    ValueError
        As `load` does.
    OSError
        If the file cannot be read.
    """
    with reading(file := open_model(path)):
        return dict(json.loads(file.metadata["notes"]))
