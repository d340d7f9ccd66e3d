"""Maximum inner product search over rows that move."""
