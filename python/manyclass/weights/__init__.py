"""A fitted model: weights in memory and in files."""
