"""A line of help for each method that scikit-learn gives an estimator, whose own texts take thirty or forty; and hints
for who knows other packages.

A class takes them by the decorator `brief`, because a base class more is lines of help too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sklearn.base import BaseEstimator, TransformerMixin

from manyclass.checks import did_you_mean, set_named

Class = TypeVar("Class")


class _Brief:
    """A method that scikit-learn makes, with a line for its text.

    It gives a function anew each time, as what it stands for does, so that no other class's method gets the line.
    """

    def __init__(self, method: Any, line: str) -> None:
        self._made, self._line = method, line

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = self._made.__get__(instance, owner)
        function.__doc__ = self._line
        return function


def brief_requests(cls: type) -> None:
    """Say in a line what each `set_..._request` does that scikit-learn has made in a class."""
    for name in [name for name in vars(cls) if name.startswith("set_") and name.endswith("_request")]:
        method = name.removeprefix("set_").removesuffix("_request")
        line = f"Say which metadata routing passes to `{method}`; see scikit-learn's metadata routing."
        setattr(cls, name, _Brief(vars(cls)[name], line))


def get_named(self: BaseEstimator, deep: bool = True) -> dict[str, Any]:
    """Return the parameters and, with `deep`, those of parts by names such as solver__decay."""
    return dict(BaseEstimator.get_params(self, deep))


def get_routing(self: BaseEstimator) -> Any:
    """Return what scikit-learn's metadata routing passes to each method."""
    return BaseEstimator.get_metadata_routing(self)


def brief(base: type[Class]) -> type[Class]:
    """Give a class of estimators, and its subclasses, methods of scikit-learn that say in a line what they do."""

    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        """Say of each method that scikit-learn makes here what it does in a line."""
        super(base, cls).__init_subclass__(**kwargs)
        brief_requests(cls)

    methods = {"set_params": set_named, "get_params": get_named, "get_metadata_routing": get_routing}
    for name, method in {**methods, "__init_subclass__": classmethod(init_subclass)}.items():
        setattr(base, name, method)
    brief_requests(base)
    return base


def fit_transformed(self: TransformerMixin, X: Any, y: Any = None, **fit_params: Any) -> Any:
    """Fit to X, with these parameters of `fit`, then transform it."""
    return TransformerMixin.fit_transform(self, X, y, **fit_params)


set_container = _Brief(
    inspect.getattr_static(TransformerMixin, "set_output"),
    "Choose the container of what `transform` gives; see scikit-learn's set_output.",
)

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
