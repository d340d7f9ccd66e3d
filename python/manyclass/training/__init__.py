"""Training: from a plan to the core's loop and back to weights."""
