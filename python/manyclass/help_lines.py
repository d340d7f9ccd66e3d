"""Hints for who knows other packages, and constructors that store their arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from manyclass.checks import did_you_mean

# What other packages call it, and what does it here.
_HINTS = {
    "C": "alpha is the L2 penalty on the mean loss; scikit-learn's C is alpha = 1 / (C * n_samples)",
    "penalty": "the penalty is L2, of weight alpha",
    "l1_ratio": "the penalty is L2, of weight alpha",
    "tol": "solver=manyclass.solvers.LBFGS(tol=1e-6) has one",
    "multi_class": "the model is a softmax over all classes",
    "loss": "SoftmaxClassifier has the log-loss, MarginClassifier margins: loss='margin' or 'triplet'",
    "batch_size": "it belongs to the solver: solver=manyclass.solvers.AdaGrad(batch_size=32)",
    **dict.fromkeys(("eta0", "eta", "lr", "learning_rate_init", "start_alpha"), "the step size is learning_rate"),
    **dict.fromkeys(("epochs", "epoch", "n_epochs", "n_epoch", "num_iterations"), "passes are max_iter"),
    **dict.fromkeys(("n_estimators", "n_trees"), "runs that are averaged are n_models"),
    **dict.fromkeys(("workers", "threads", "thread", "n_threads", "num_threads"), "threads are n_jobs"),
    **dict.fromkeys(("seed", "random_seed"), "the seed is random_state"),
    **dict.fromkeys(("vector_size", "size", "hidden_size", "embedding_dim"), "the length of vectors is dim"),
    **dict.fromkeys(("negative", "neg", "n_neg"), "words or classes that are drawn are n_negatives"),
    **dict.fromkeys(("sg", "hs"), "objective is 'softmax', 'negative_sampling', 'hierarchical' or another"),
    **dict.fromkeys(("wordNgrams", "minn", "maxn", "ngram_range"), "fit(texts, y, vectorizer=manyclass.datasets."
                    "TextVectorizer(max_n=2)) takes pairs of words, analyzer='char_wb' parts of words"),
    **dict.fromkeys(("sentences", "corpus_file", "corpus_iterable"), "fit(sentences) takes them"),
    **dict.fromkeys(("callbacks", "callback"), "fit(X, y, callback=...) calls a function after each pass"),
    **dict.fromkeys(("eval_set", "validation_data", "valid_sets", "X_val"), "with early_stopping=True, "
                    "SoftmaxClassifier.fit and MarginClassifier.fit(X, y, eval_set=(X, y)) stop by the rows of "
                    "eval_set; AugmentReduceClassifier stops where a callback of fit returns True"),
    **dict.fromkeys(("early_stopping_rounds", "patience"), "early_stopping=True and n_iter_no_change belong to the "
                    "constructors of SoftmaxClassifier and MarginClassifier"),
}  # fmt: skip
Method = TypeVar("Method", bound=Callable[..., Any])


def hinting(method: Method) -> Method:
    """Make of a method one whose TypeError for an unknown argument says what there is instead."""
    known = inspect.signature(method).parameters

    @functools.wraps(method)
    def called(*args: Any, **named: Any) -> Any:
        for name in named.keys() - known.keys():
            hint = (
                getattr(args[0], "hints", {}).get(name)
                or _HINTS.get(name)
                or did_you_mean(name, known).strip(" ()")
                or f"it takes {', '.join([*known][1:])}"
            )
            raise TypeError(f"{method.__qualname__}() got an unexpected keyword argument {name!r}: {hint}")
        return method(*args, **named)

    return cast(Method, called)


def storing(init: Method) -> Method:
    """Make of a constructor without a body one that stores its arguments, as scikit-learn asks of estimators, and that
    says of an unknown one what there is instead.
    """
    signature = inspect.signature(init)

    @functools.wraps(init)
    def stored(self: Any, *args: Any, **named: Any) -> None:
        init(self, *args, **named)  # whose TypeError is Python's own
        bound = signature.bind(self, *args, **named)
        bound.apply_defaults()
        vars(self).update([*bound.arguments.items()][1:])

    return hinting(cast(Method, stored))
