"""Word vectors by the skip-gram model."""
