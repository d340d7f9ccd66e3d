"""Categorical models with very many classes."""

__version__ = "0.1.0"
