"""Predictions of one model over HTTP, for the command `manyclass serve`."""
