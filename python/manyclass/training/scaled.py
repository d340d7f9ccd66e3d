"""What a fit was given beside the data, for training on scaled features."""

from __future__ import annotations

from dataclasses import replace

from manyclass.model.scaling import FeatureScaling
from manyclass.model.weights import LinearWeights, Matrix
from manyclass.training.passes import TrainingState
from manyclass.training.plan import Watch
from manyclass.training.start import Start


def scaled_for_training(
    scaling: FeatureScaling | None, x: Matrix, watch: Watch, start: Start | None
) -> tuple[Matrix, Watch, Start | None]:
    """Return the data, what looks on and the first weights: a callback has features as they were before."""
    if scaling is None:
        return x, watch, start
    callback = watch.callback
    if callback is not None:
        told = callback

        def of_features(state: TrainingState) -> bool | None:
            return told(state.of_features(scaling))

        watch = replace(watch, callback=of_features)
    if start is not None:
        weights = scaling.unfold(LinearWeights(start.coef, start.intercept, sparse=False))
        start = Start(weights.coef, weights.intercept)
    return scaling.apply(x), watch, start
