"""Word vectors by the skip-gram model, and what can be asked of them."""

from manyclass.words import objectives
from manyclass.words.skip_gram import SkipGram
from manyclass.words.vectors import WordVectors

__all__ = ["SkipGram", "WordVectors", "objectives"]
