"""Fits: from plans and states to states, whichever estimator asks."""
