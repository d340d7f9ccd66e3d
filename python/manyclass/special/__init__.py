"""Special functions as NumPy ufuncs."""
