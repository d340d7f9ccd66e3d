"""Clients of this package in other programs: what each needs is imported by its own module only."""
