"""Pictures of models and of measurements, in one style; matplotlib is needed only where one is drawn."""

from manyclass.plot.models import confusion, learning_curve, reliability_diagram
from manyclass.plot.records import loss_against_seconds, loss_over_time, recall_against_speed
from manyclass.plot.style import Picture

__all__ = [
    "Picture",
    "confusion",
    "learning_curve",
    "loss_against_seconds",
    "loss_over_time",
    "recall_against_speed",
    "reliability_diagram",
]
