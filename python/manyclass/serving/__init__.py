"""Predictions of one model over HTTP, by the standard library's server: what `manyclass serve` runs."""
