"""A backend of Annif, the National Library of Finland's subject indexing tool, that trains and serves our models.

Importing this module registers the backend "manyclass". One line lets Annif's own command do so::

    export ANNIF_CONFIG=manyclass.integrations.annif.Config

Nothing else of this package imports this module, and only it imports Annif. Where processes are not forked (macOS,
Windows), `python -m manyclass.integrations.annif` in the place of `annif` registers the backend in each of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import annif.backend
import annif.default_config
import annif.eval
import joblib
import numpy as np
import scipy.sparse as sp
from annif.backend import backend, hyperopt, mixins
from annif.exception import ConfigurationException, NotInitializedException, NotSupportedException
from annif.suggestion import SubjectSuggestion, SuggestionBatch
from sklearn.feature_extraction.text import TfidfVectorizer

from manyclass.checks import did_you_mean
from manyclass.datasets import load_csr, save_csr
from manyclass.datasets.csr import indicator
from manyclass.integrations.subject_model import PARAMETERS, Estimator, SubjectModel, estimator_from, write_together

NAME = "manyclass"
VECTORIZER = {"min_df": 1, "ngram": 1}  # the defaults of Annif's other backends
# Settings of a project that Annif itself reads.
ANNIFS = ("name", "language", "analyzer", "backend", "vocab", "transform", "access", "limit", "allow_learn")


class Config(annif.default_config.Config):
    """Annif's default configuration, for the environment variable ANNIF_CONFIG: reading it imports this module."""

    # As without ANNIF_CONFIG: a server loads its projects at its start, a command only the one that it needs.
    INITIALIZE_PROJECTS = os.environ.get("FLASK_RUN_FROM_CLI") != "true"


class ManyclassBackend(mixins.TfidfVectorizerMixin, hyperopt.AnnifHyperoptBackend, backend.AnnifLearningBackend):
    """Annif's backend "manyclass": TF-IDF of words, and a `SubjectModel` of them."""

    name = NAME

    TRAIN_FILE = "manyclass-train.safetensors"
    MODEL_FILE = "manyclass-model.safetensors"
    DEFAULT_PARAMETERS = VECTORIZER

    vectorizer: Any = None
    _model: SubjectModel | None = None

    def initialize(self, parallel: bool = False) -> None:
        """Load the vectorizer, and map the model, which predicts with one thread: Annif has processes for the cores."""
        self.initialize_vectorizer()
        if self._model is None:
            path = self._existing(self.MODEL_FILE, "model")
            self.debug(f"mapping the model {path}")
            with self._show_errors():
                self._model = SubjectModel.load(path)

    def get_hp_optimizer(self, corpus: Any, metric: str) -> Optimizer:
        """Return an `Optimizer` that finds parameters by the documents of a corpus."""
        return Optimizer(self, corpus, metric, TrialObjective)

    def rows_of(self, texts: Sequence[str]) -> sp.csr_array:
        """Return TF-IDF of texts by the vectorizer of the training."""
        return sp.csr_array(self.vectorizer.transform(texts), dtype=np.float32)

    def cached_data(self) -> tuple[sp.csr_array, sp.csr_array]:
        """Return TF-IDF of the documents of the last training, and their subjects as an indicator matrix."""
        X, Y = load_csr(self._existing(self.TRAIN_FILE, "training data, which train without --cached writes,"))
        assert Y is not None  # `_train` writes both
        return X, Y

    def estimator(self, params: Mapping[str, Any], jobs: int) -> Estimator:
        """Return the estimator that the parameters of the project describe; Annif's jobs=0 is all cores."""
        for name in params.keys() - PARAMETERS.keys() - VECTORIZER.keys() - set(ANNIFS):
            self.warning(f"the parameter {name} is not known and has no effect{did_you_mean(name, PARAMETERS)}")
        with self._show_errors():
            return estimator_from(params, n_jobs=jobs or -1)

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        estimator, files = self.estimator(params, jobs), dict[str, Callable[[str], Any]]()
        with self._show_errors():
            for name in VECTORIZER:
                if not str(params[name]).strip().isdecimal() or int(params[name]) < 1:
                    raise ValueError(f"{name} is {params[name]!r}; it must be an integer of at least 1")
        options = {"min_df": int(params["min_df"]), "ngram_range": (1, int(params["ngram"]))}
        if corpus == "cached":
            self.info("reusing cached training data")
            self.initialize_vectorizer()
            with self._show_errors():
                for name, value in options.items():
                    if (cached := getattr(self.vectorizer, name)) != value:
                        raise ValueError(f"{name} is {value}, the cached data have {cached}; train without --cached")
            X, Y = self.cached_data()
        elif corpus.is_empty():
            raise NotSupportedException("training with no documents", backend_id=self.backend_id)
        else:
            vectorizer, X, Y = self._vectors(corpus, options)
            files[self.TRAIN_FILE] = lambda path: save_csr(path, X, Y)
            files[self.VECTORIZER_FILE] = partial(joblib.dump, vectorizer)
        self.info(f"training on {X.shape[0]} documents with {X.shape[1]} features")
        with self._show_errors():
            model = SubjectModel.fit(estimator, X, Y)
        # A new vectorizer beside an old model would make rows of words that the model takes for others.
        write_together(self.datadir, files | {self.MODEL_FILE: model.save})
        self._model = self.vectorizer = None  # what is trained is loaded from its files

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        self.initialize(parallel=False)
        documents = [*corpus.documents]
        if not documents:
            raise NotSupportedException("learning from no documents", backend_id=self.backend_id)
        X = self.rows_of([document.text for document in documents])
        Y = indicator([sorted(document.subject_set) for document in documents], len(self.project.subjects))
        self.info(f"learning from {len(documents)} documents")
        path = os.path.join(self.datadir, self.MODEL_FILE)
        with self._show_errors():
            SubjectModel.load(path).learn(X, Y).save(path)
        self._model = None

    def _suggest_batch(self, documents: Sequence[Any], params: dict[str, Any]) -> SuggestionBatch:
        assert self._model is not None
        X = self.rows_of([document.text for document in documents])
        return suggestion_batch(self._model, X, self.project.subjects, int(params["limit"]))

    def _vectors(self, corpus: Any, options: dict[str, Any]) -> tuple[TfidfVectorizer, sp.csr_array, sp.csr_array]:
        """Read the documents once: a vectorizer of their words, their TF-IDF and their subjects."""
        subjects: list[list[int]] = []

        def texts() -> Iterator[str]:
            for document in corpus.documents:
                subjects.append(sorted(document.subject_set))
                yield document.text

        vectorizer = TfidfVectorizer(**options, tokenizer=self.project.analyzer.tokenize_words, token_pattern=None)
        try:
            X = vectorizer.fit_transform(texts())
        except ValueError as error:  # no word of any document is frequent enough
            raise NotSupportedException(f"no features: {error}", backend_id=self.backend_id) from error
        return vectorizer, sp.csr_array(X, dtype=np.float32), indicator(subjects, len(self.project.subjects))

    def _existing(self, name: str, content: str) -> str:
        path = os.path.join(self.datadir, name)
        if not os.path.exists(path):
            raise NotInitializedException(f"{content} {path} not found", backend_id=self.backend_id)
        return path

    @contextmanager
    def _show_errors(self) -> Iterator[None]:
        """Make errors about parameters or data those that Annif shows its users."""
        try:
            yield
        except (ValueError, TypeError) as error:
            raise ConfigurationException(str(error), backend_id=self.backend_id) from error


def suggestion_batch(model: SubjectModel, X: sp.csr_array, subjects: Any, limit: int) -> SuggestionBatch:
    """Return suggestions for documents as Annif has them; documents without a known word have none."""
    ids, scores = model.suggest(X, limit)
    rows = [
        list(map(SubjectSuggestion, document_ids, document_scores)) if n_words else []
        for n_words, document_ids, document_scores in zip(np.diff(X.indptr), ids.tolist(), scores.tolist(), strict=True)
    ]
    return SuggestionBatch.from_sequence(rows, subjects)


class TrialObjective(hyperopt.HPObjective):
    """A trial: it trains on the cached data with some parameters, and evaluates suggestions for the corpus."""

    @classmethod
    def objective(cls, trial: Any, args: Mapping[str, Any]) -> float:
        """Train a model with parameters in ranges around the defaults, and return its metric.

        Parameters
        ----------
        trial : optuna.trial.Trial
        args : mapping
            What `Optimizer` has prepared.

        Returns
        -------
        float
        """
        params = dict(args["params"])
        params["learning_rate"] = trial.suggest_float("learning_rate", 0.25, 4.0, log=True)
        params["decay"] = trial.suggest_float("decay", 0.3, 1.0)
        params["max_iter"] = trial.suggest_int("max_iter", 2, 12)
        if params.get("model", "embedding") == "embedding":
            params["dim"] = trial.suggest_int("dim", 64, 512, step=64)
        if params.get("estimator", "margin") == "margin":
            params["smoothing"] = trial.suggest_float("smoothing", 1.0, 20.0, log=True)
        model = SubjectModel.fit(estimator_from(params, n_jobs=1), *args["training"])
        batch = annif.eval.EvaluationBatch(args["subjects"])
        suggestions = suggestion_batch(model, args["vectors"], args["subjects"], int(params["limit"]))
        batch.evaluate_many(suggestions, args["gold"])
        return float(batch.results(metrics=[args["metric"]])[args["metric"]])


class Optimizer(hyperopt.HyperparameterOptimizer):
    """A search for learning_rate, decay, max_iter, dim and smoothing by trials on the data of the last training."""

    def _prepare(self, n_jobs: int = 1) -> dict[str, Any]:
        project, params = self._backend.project, self._backend.params
        self._backend.estimator(params, jobs=1)  # so that a wrong parameter is refused here, not by each trial
        self._backend.initialize_vectorizer()
        documents = list(project.transform.transform_corpus(self._corpus).documents)
        vectors = self._backend.rows_of([document.text for document in documents])
        corpus = {"vectors": vectors, "gold": [document.subject_set for document in documents]}
        training = self._backend.cached_data()
        return {"params": params, "training": training, **corpus, "subjects": project.subjects, "metric": self._metric}

    def _postprocess(self, study: Any) -> Any:
        lines = [f"{name}={value:.4g}" for name, value in study.best_params.items()]
        return hyperopt.HPRecommendation(lines=lines, score=study.best_value)


# Annif has no other way to register a backend.
annif.backend._backend_fns[NAME] = lambda: ManyclassBackend

if __name__ == "__main__":
    import annif.cli

    annif.cli.cli()
