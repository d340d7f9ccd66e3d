"""Slow twins in plain Python and NumPy (float64) of what the core does, written from the formulas."""
