"""Discrete choice: models of what a chooser takes among alternatives that have features."""
