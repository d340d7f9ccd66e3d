# cython: language_level=3
"""Replaced by the ufuncs."""
