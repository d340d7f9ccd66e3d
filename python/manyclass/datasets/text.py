"""Texts to rows of weighted counts of words or sub-words, by arrays that a model file can hold."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from manyclass.checks import check_choice, check_flag, check_number, column_of, is_texts, lazy_property, outer_level
from manyclass.parts import storing
from manyclass.protocols import TrainingRows

# Letters of scripts that put no blanks between words: Thai to Myanmar, Khmer, and Japanese and Chinese.
_WITHOUT_BLANKS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
N_LOOKED_AT = 200  # texts that tell the script
# Format characters that stand within words without being of them (UAX 29, WB4): soft hyphens, joiners of lines, and
# marks of direction. Joiners of letters (U+200C, U+200D) change what is written, and stay.
_FORMAT = re.compile("[\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_DOTTED_I = "i\u0307"  # what folding makes of a Turkish capital I with a dot
VOWELS = "aeiouyAEIOUY"  # words of one letter in European languages
PART_OF_CODES = 0.1  # of the words of a text, beyond which it has codes
LAST_MARK = 0x1F000  # code points beyond are symbols, ideographs, and variants of these
BEFORE_0_3: dict[str, Any] = {"words": "python", "min_length_": 2}  # in files of these versions, which do not name them
NO_TERM = (
    "no term is left of {} texts; terms are words in at least {} of them; min_length=1 takes words of one character, "
    "analyzer='char_wb' parts of words"
)
MOST_HASHES = 2**31 - 1  # columns are int32
STEP = 1 << 16  # terms that are held at once
MOST_TERMS = 1 << 27  # of one text, which take a minute; 13 MB of text have half with parts of up to five letters
# Parameters that are counts, and what stands for none.
COUNTS = {"min_n": "", "max_n": "", "min_df": "", "min_length": "auto", "max_features": None, "n_hash": None}


class TextVectorizer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    r"""Texts to rows of unit length: counts of words or sub-words, weighted by how rare they are.

    Entry j of a text is :math:`(1 + \log n_j) \log\frac{1 + N}{1 + N_j} + (1 + \log n_j)`, :math:`n_j` being how often
    term j occurs in it and :math:`N_j` in how many of the N texts of the fit, divided by the length of the row. The
    work is that of scikit-learn's CountVectorizer (or HashingVectorizer) and TfidfTransformer; what is kept are
    arrays, so that a model file holds the vectorizer without pickle: `SoftmaxClassifier().fit(texts, y,
    vectorizer=TextVectorizer(max_n=2))` keeps it as `vectorizer_`, and the model takes texts from then on.

    Parameters
    ----------
    analyzer : {"word", "char_wb"}, default="word"
        Terms are words; or runs of characters within words, a blank at either end counting as one, which also see what
        misspelt or inflected words share. Languages that put no blanks between words, such as Chinese, Japanese and
        Thai, need "char_wb", with max_n=2.
    min_n : int, default=1
        The least length of a term, in words or characters.
    max_n : int, default=1
        The greatest length: 1 and 2 give words and pairs of neighbouring words.
    min_df : int, default=1
        Terms that are in fewer texts are left out.
    max_features : int or None, default=None
        Keep only this number of terms, the most frequent ones.
    lowercase : bool, default=True
        Fold case first, as Unicode does: "STRASSE" and "Straße" are one word, and so are "İzmir" and "izmir".
    words : {"unicode", "python"}, default="unicode"
        A word is a run of letters, digits and marks of any script, in Unicode's composed form (NFC), whatever form the
        text has; soft hyphens and marks of direction within it do not count. This is the subset of Unicode's rules
        (UAX 29) that breaks at every sign of punctuation, "don't" being two words. "python" is a run of letters and
        digits as Python's ``\\w`` has them, which breaks words of Indic scripts at their vowels: models of before 0.3.
    min_length : int or "auto", default="auto"
        The least characters of a word: 2, but 1 where in most texts more than a tenth of the words are codes such as
        "C" or "5", a digit or a letter other than a vowel; a warning then says so.
    sublinear_tf : bool, default=True
        Count 1 + log n where a term occurs n times in a text; else n.
    idf : bool, default=True
        Weigh terms by how rare they are, as above; else all terms weigh alike.
    n_hash : int or None, default=None
        Keep no vocabulary, but give each term one of n_hash columns by its hash: memory does not grow with the
        vocabulary, and terms may share a column. Not with min_df or max_features.

    Attributes
    ----------
    vocabulary_ : ndarray of shape (n_terms,), of str
        The term of each column, sorted; empty with n_hash.
    idf_ : ndarray of shape (n_columns,), float32
        The weight of each column; ones without idf.
    n_columns_ : int
        Columns that `transform` gives.
    min_length_ : int
        The least characters of a word.

    References
    ----------
    G. Salton and C. Buckley, "Term-weighting approaches in automatic text retrieval", Information Processing &
    Management 24, 1988; the formula with its added ones is that of scikit-learn's documentation. Unicode Standard
    Annex 29, "Unicode text segmentation".

    Examples
    --------
    >>> from manyclass.datasets import TextVectorizer
    >>> vectorizer = TextVectorizer().fit(["an ant", "a bee and an ant"])
    >>> vectorizer.vocabulary_.tolist()
    ['an', 'and', 'ant', 'bee']
    >>> vectorizer.transform(["bee"]).toarray().tolist()
    [[0.0, 0.0, 0.0, 1.0]]
    """

    vocabulary_: NDArray[Any]
    idf_: NDArray[np.float32]
    n_columns_: int
    min_length_: int

    @storing
    def __init__(
        self,
        *,
        analyzer: str = "word",
        min_n: int = 1,
        max_n: int = 1,
        min_df: int = 1,
        max_features: int | None = None,
        lowercase: bool = True,
        words: Literal["unicode", "python"] = "unicode",
        min_length: int | Literal["auto"] = "auto",
        sublinear_tf: bool = True,
        idf: bool = True,
        n_hash: int | None = None,
    ) -> None:
        """Store the parameters."""

    def check_parameters(self) -> None:
        """Check all parameters.

        Raises
        ------
        ValueError or TypeError
            For a parameter out of its range, or without effect.
        """
        check_choice("analyzer", self.analyzer, ("word", "char_wb"))
        check_choice("words", self.words, ("unicode", "python"))
        for name in ("lowercase", "sublinear_tf", "idf"):
            check_flag(name, getattr(self, name))
        for name, unset in COUNTS.items():
            value = getattr(self, name)
            if value != unset:
                check_number(name, value, low=1, high=MOST_HASHES if name == "n_hash" else np.inf, integer=True)
        if self.min_n > self.max_n:
            raise ValueError(f"min_n is {self.min_n}; it must be at most max_n, which is {self.max_n}")
        if self.analyzer != "word" and self.min_length not in ("auto", 1):
            raise ValueError(f"min_length is {self.min_length}, which has no effect with analyzer={self.analyzer!r}")
        for name in ("min_df", "max_features") if self.n_hash is not None else ():  # which need a vocabulary
            if getattr(self, name) not in (1, None):
                raise ValueError(f"{name} is {getattr(self, name)!r}, which has no effect with n_hash; leave it")

    def fit(self, documents: Iterable[str], y: object = None) -> Self:
        """Learn terms and weights.

        Parameters
        ----------
        documents : iterable of str
            The texts, at least one.
        y : object
            Not used; scikit-learn's pipelines give it.

        Returns
        -------
        self

        Raises
        ------
        ValueError or TypeError
            For a parameter out of its range, texts that are no list of str, or texts in which no term is left.
        """
        self.fit_transform(documents)
        return self

    def fit_transform(self, documents: Iterable[str], y: object = None) -> sparse.csr_array:
        """Learn terms and weights, and return the rows of these texts; see `fit`.

        Parameters
        ----------
        documents : iterable of str
            The texts, at least one.
        y : object
            Not used.

        Returns
        -------
        csr_array of shape (n_documents, n_columns_), float32
        """
        self.check_parameters()
        texts = self._checked(documents, self.max_n)
        if not texts:
            raise ValueError("documents is empty; there must be a text")
        self._see_first(texts)
        counter = self._counter(self.max_n, min_df=self.min_df, max_features=self.max_features)
        try:
            counts = counter.fit_transform(texts)
        except ValueError as error:
            raise ValueError(NO_TERM.format(len(texts), self.min_df)) from error
        terms = [] if self.n_hash else counter.get_feature_names_out()
        self._keep(terms, self._weigher().fit(counts).idf_ if self.idf else np.ones(counts.shape[1]))
        return self._weighted(counts)

    def fit_parts(self, parts: Iterable[Iterable[str]]) -> Self:
        """Learn terms and weights of texts that come in parts, one after the other: what `fit` learns of all of them.

        Of terms that are as frequent as each other, max_features keeps those that come first in the alphabet.

        Parameters
        ----------
        parts : iterable of iterables of str

        Returns
        -------
        self

        Raises
        ------
        ValueError or TypeError
            As `fit` does.
        """
        self.check_parameters()
        n_having: Counter[Any] = Counter()  # how many texts have a term, or are hashed to a column
        n_times: Counter[Any] = Counter()  # how often a term occurs
        n_texts, counter = 0, None
        for texts in filter(None, (self._checked(part, self.max_n) for part in parts)):
            if counter is None:
                self._see_first(texts)
                counter = self._counter(self.max_n)
            n_texts += len(texts)
            try:
                counts = counter.fit_transform(texts)
            except ValueError:  # no term is in these
                continue
            names = range(self.n_hash) if self.n_hash else counter.get_feature_names_out()
            n_having.update(dict(zip(names, np.bincount(counts.indices, minlength=len(names)).tolist(), strict=True)))
            if self.max_features is not None:
                n_times.update(dict(zip(names, np.bincount(counts.indices, counts.data).tolist(), strict=True)))
        terms = sorted(term for term, n in n_having.items() if n >= self.min_df or self.n_hash)
        if self.max_features is not None:
            terms = sorted(sorted(terms, key=lambda term: -n_times[term])[: self.max_features])
        n_in = np.array([n_having[term] for term in terms], np.float32)
        if not n_in.any():
            raise ValueError(NO_TERM.format(n_texts, self.min_df))
        idf = np.log(np.float32(n_texts + 1) / (n_in + np.float32(1))) + np.float32(1)
        self._keep([] if self.n_hash else terms, idf if self.idf else np.ones_like(idf))
        return self

    def transform(self, documents: Iterable[str]) -> sparse.csr_array:
        """Return the rows of texts, of unit length; a text without a known term is an empty row.

        Parameters
        ----------
        documents : iterable of str

        Returns
        -------
        csr_array of shape (n_documents, n_columns_), float32

        Raises
        ------
        ValueError or TypeError
            If the texts are no list of str.
        """
        check_is_fitted(self, "idf_")
        texts = self._checked(documents, self._most_n)
        if not texts:
            return sparse.csr_array(np.zeros((0, self.n_columns_), np.float32))
        return self._weighted(self._fitted_counter.transform(texts))

    def most_terms(self, text: str, max_n: int | None = None) -> int:
        """Return how many terms a text may have at most, by its letters: none are made for this.

        Parameters
        ----------
        text : str
        max_n : int, optional
            The greatest length of a term; None: that of the longest that was kept.

        Returns
        -------
        int
        """
        n_letters, max_n = len(text), self._most_n if max_n is None else max_n
        n_terms: int = n_letters * max(0, min(max_n, n_letters + 2) - self.min_n + 1)
        return n_terms if self.analyzer == "char_wb" else n_terms // 2

    def _checked(self, documents: Iterable[str], max_n: int) -> list[str]:
        """Return texts as a list, none of which may have too many terms.

        Raises
        ------
        TypeError
            If they are one str, or something that is no str is among them.
        ValueError
            If a text may have too many terms.
        """
        if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
            raise TypeError(f"documents is a {type(documents).__name__}; it must be a list of str, a text each")
        texts = list(column_of(documents))
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"documents[{i}] is {text!r}; it must be a str")
        longest = max(texts, key=len, default="")
        if (n_terms := self.most_terms(longest, max_n)) > MOST_TERMS:
            raise ValueError(
                f"documents has a text of {len(longest)} letters, which may have {n_terms} terms with max_n={max_n}; "
                f"at most {MOST_TERMS} are counted: cut it into several, or lower max_n"
            )
        return texts

    column_labels = None  # columns are terms, and no classes

    @property
    def fitted_parameters(self) -> dict[str, Any]:
        """The parameters and the least length of a word, as `restored` takes them."""
        return {**self.get_params(), "min_length_": self.min_length_}

    @property
    def keeps_terms(self) -> bool:
        """Whether columns have names."""
        return self.n_hash is None

    def takes(self, X: Any) -> bool:
        """Whether X is what `transform` makes rows of, and no rows.

        Parameters
        ----------
        X : object

        Returns
        -------
        bool
        """
        return is_texts(X)

    def training_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, *, first: bool) -> TrainingRows:
        """Return what training sees of texts, their labels, weights and groups; of the first ones, terms are learnt.

        Parameters
        ----------
        X : list of str
        y : object
        sample_weight : array-like or None
        groups : array-like or None
        first : bool
            Whether a fit begins, and no training goes on.
        """
        return self.fit_transform(X) if first else self.transform(X), y, sample_weight, groups

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the term of each column.

        Parameters
        ----------
        input_features : object
            Not used; scikit-learn's pipelines give it.

        Returns
        -------
        ndarray of shape (n_columns_,), of str

        Raises
        ------
        ValueError
            With n_hash, which keeps no terms.
        """
        check_is_fitted(self, "idf_")
        if self.n_hash is not None:
            raise ValueError(f"n_hash is {self.n_hash}; a vectorizer that hashes keeps no terms")
        return self.vocabulary_

    @classmethod
    def restored(cls, parameters: Mapping[str, Any], vocabulary: Sequence[str], idf: ArrayLike) -> TextVectorizer:
        """Return the fitted vectorizer that has these parameters and attributes.

        Parameters
        ----------
        parameters : mapping
            As `fitted_parameters` are.
        vocabulary : sequence of str
            `vocabulary_`; empty with n_hash.
        idf : array-like of shape (n_columns,)
            `idf_`.

        Returns
        -------
        TextVectorizer

        Raises
        ------
        ValueError or TypeError
            If they cannot be those of a fitted vectorizer.
        """
        unknown = sorted(set(parameters) - {*cls._get_param_names(), "min_length_"})
        if unknown:
            raise ValueError(f"a TextVectorizer has no parameter {unknown[0]!r}")
        options = BEFORE_0_3 | dict(parameters)
        check_number("min_length_", options["min_length_"], low=1, integer=True)
        min_length = options.pop("min_length_")
        self = cls(**options)
        self.check_parameters()
        self.min_length_ = min_length
        self._keep(vocabulary, idf)
        n_columns, terms = self.n_hash or len(vocabulary), self.vocabulary_
        if self.idf_.shape != (n_columns,) or (self.n_hash and len(terms)):
            raise ValueError(
                f"the text vectorizer has {len(terms)} terms and weights of shape {self.idf_.shape}; there must be "
                f"{n_columns} weights"
            )
        if not (np.isfinite(self.idf_).all() and (self.idf_ > 0).all()):
            raise ValueError("a weight of the text vectorizer is not above 0 and finite")
        if not np.all(terms[:-1] < terms[1:]):
            raise ValueError("the terms of the text vectorizer are not sorted and distinct")
        return self

    def _keep(self, terms: Sequence[str], idf: ArrayLike) -> None:
        """Take terms and their weights as what is fitted."""
        self.vocabulary_, self.idf_ = np.asarray(list(terms), dtype=object), np.asarray(idf, dtype=np.float32)
        self.n_columns_ = self.idf_.size
        for name in ("_fitted_counter", "_most_n"):  # of another fit
            self.__dict__.pop(name, None)

    @lazy_property
    def _most_n(self) -> int:
        """The greatest length of a term that is known, whatever max_n a file has."""
        terms = self.vocabulary_ if self.analyzer == "char_wb" else map(str.split, self.vocabulary_)
        most: int = self.max_n if self.n_hash else max(self.min_n, min(self.max_n, max(map(len, terms), default=0)))
        return most

    @lazy_property
    def _fitted_counter(self) -> Any:
        """The counter of the terms that are fitted."""
        return self._counter(self._most_n, vocabulary={term: column for column, term in enumerate(self.vocabulary_)})

    def _counter(self, max_n: int, **limits: Any) -> Any:
        """scikit-learn's counter of terms within limits: a vocabulary, or rules for what it finds in its fit."""
        # Imported here because it takes a tenth of a second that those without texts need not spend.
        from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

        shared: dict[str, Any] = {"analyzer": partial(self._terms, max_n), "dtype": np.float32}
        if self.n_hash is not None:
            return HashingVectorizer(n_features=self.n_hash, norm=None, alternate_sign=False, **shared)
        return CountVectorizer(**shared, **limits)

    def _terms(self, max_n: int, text: str) -> Iterable[str]:
        """Yield the terms of a text, few of which are held at once: all of them take a hundred times its bytes."""
        forms = (_composed, _folded) if self.words == "unicode" else (str, str.lower)
        text = forms[bool(self.lowercase)](text)
        if self.analyzer == "word":
            words = word_finder(self.min_length_, self.words)(text)
            lengths = range(max(2, self.min_n), min(max_n, len(words)) + 1)
            runs = (" ".join(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1))
            return chain(words, runs) if self.min_n == 1 else runs
        step, padded = max(1, STEP // max_n), (f" {word} " for word in text.split())
        places = ((word, first) for word in padded for first in range(0, len(word), step))
        return chain.from_iterable(_parts(word, first, first + step, self.min_n, max_n) for word, first in places)

    def _see_first(self, texts: Sequence[str]) -> None:
        """Find the least length of a word, and warn of scripts without blanks."""
        self.min_length_ = 1 if self.min_length == "auto" else self.min_length
        if self.analyzer != "word":
            return
        sample, hints = texts[:: max(1, len(texts) // N_LOOKED_AT)], []
        if 2 * len(_WITHOUT_BLANKS.findall("".join(sample))) > len("".join(sample)):
            hints.append(
                "the texts have no blanks between words, so that a term is a whole sentence; "
                "TextVectorizer(analyzer='char_wb', max_n=2) makes terms of characters"
            )
        if self.min_length == "auto":
            n_with_codes = sum(map(_has_codes, sample))
            self.min_length_ = 1 if 2 * n_with_codes > len(sample) else 2
            if self.min_length_ == 1:
                hints.append(
                    f"{n_with_codes} of {len(sample)} texts looked at have letters or digits by themselves, which "
                    "become terms; TextVectorizer(min_length=2) leaves them out"
                )
        for hint in hints:
            warnings.warn(hint, UserWarning, stacklevel=outer_level())

    def _weigher(self) -> Any:
        from sklearn.feature_extraction.text import TfidfTransformer

        return TfidfTransformer(norm="l2", use_idf=self.idf, sublinear_tf=self.sublinear_tf)

    def _weighted(self, counts: Any) -> sparse.csr_array:
        weigher = self._weigher()
        weigher.idf_ = self.idf_  # which it does not use without idf
        return sparse.csr_array(weigher.transform(counts), dtype=np.float32)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and joblib: without the counter, which the vocabulary makes again."""
        return {name: value for name, value in super().__getstate__().items() if name != "_fitted_counter"}


def _parts(word: str, first: int, end: int, min_n: int, max_n: int) -> list[str]:
    """Return the parts of a word that begin in [first, end); a word that is shorter than a part is one."""
    n_letters = len(word)
    lengths = range(min_n, max(min_n, min(max_n, n_letters)) + 1)
    return [word[i : i + n] for n in lengths for i in range(first, min(end, max(1, n_letters - n + 1)))]


def _composed(text: str) -> str:
    """A text in Unicode's composed form, without format characters."""
    return text if text.isascii() else unicodedata.normalize("NFC", _FORMAT.sub("", text))


def _folded(text: str) -> str:
    """The same, with case folded."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _composed(text).casefold()).replace(_DOTTED_I, "i")


@cache
def word_finder(min_length: int, rule: str) -> Callable[[str], list[str]]:
    """Return a function that lists the words of a text: letters, digits and, behind the first of these, marks.

    Parameters
    ----------
    min_length : int
        The least characters of a word.
    rule : {"unicode", "python"}
        See `TextVectorizer`.
    """
    plain = re.compile(rf"\b\w{{{min_length},}}\b").findall
    if rule == "python":
        return plain
    in_ascii = re.compile(rf"\b\w{{{min_length},}}\b", re.ASCII).findall
    with_marks = re.compile(rf"\w[\w\u200c\u200d{_marks()}]{{{min_length - 1},}}").findall  # and joiners of letters

    def find_words(text: str) -> list[str]:
        return in_ascii(text) if text.isascii() else with_marks(text)

    return find_words


@cache
def _marks() -> str:
    """Ranges of the code points that are marks, as a regular expression has them."""
    is_mark = [unicodedata.category(chr(code)).startswith("M") for code in range(LAST_MARK)]
    edges = np.flatnonzero(np.diff([False, *is_mark, False])).reshape(-1, 2).tolist()
    return "".join(f"{chr(begin)}-{chr(end - 1)}" for begin, end in edges)


def _has_codes(text: str) -> bool:
    """Whether more than a tenth of the words are a digit or a letter that is no vowel; "don't" is one word here."""
    words = word_finder(1, "unicode")(re.sub("['\u2019]", "", _composed(text)))
    return sum(len(word) == 1 and word not in VOWELS for word in words) > PART_OF_CODES * len(words)
