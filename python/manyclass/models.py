"""What the scores are made of: one class for each model, to be given as `model=`.

Scores are numbers of single precision. Those of huge features that are beyond 2**126 count as that, and one in which
infinities of both signs meet counts as 0, so that the probabilities of a finite model are always numbers.
"""

from __future__ import annotations

from manyclass.checks import Setting
from manyclass.parts import Part


class Model(Part):
    """Base class of the models."""


_SCALING = Setting("scaling", "auto", "Whether features are scaled for training.", choices=("standard", "none"))


class Linear(Model):
    """Scores are W x + b: one weight for each feature and class.

    Parameters
    ----------
    scaling : {"standard", "none"} or "auto", default="auto"
        With "standard" features are scaled for training, and W and b folded back, so that the model takes X as it is;
        the ridge is that of the weights of the scaled features. Dense features have mean 0, if there is an intercept,
        and standard deviation 1 then; those of mostly zeros keep them, and their other values have root mean square 1.
        Sparse ones keep their zeros, too: where these root mean squares differ by a factor of more than 100 each is
        made 1, else all are divided by the power of two that brings the length of rows to 1 to 8. Takes a copy of X, of
        its values where X is sparse. For one label a row. "auto" is "standard" with solver="auto", else "none".
    """

    name = "linear"
    settings = (_SCALING,)


_ACTIVATION = Setting("activation", "linear", "What the sum of embeddings goes through.", choices=("linear", "relu"))


class Embedding(Model):
    """Scores are W phi(x) + b, phi(x) being the sum of the embeddings of the row's features, `dim` numbers long.

    With "relu" it is a hidden layer. That of dense rows is max(E (x - m) + c, 0), m being the mean of the rows that
    training begins with, so that a shift of all rows changes no score.

    Parameters
    ----------
    activation : {"linear", "relu"}, default="linear"
        What the sum of embeddings goes through.
    """

    name = "embedding"
    settings = (_ACTIVATION,)


_MIN_COUNT = Setting("min_count", 1, "Rows that a pair must have to get a weight.", "integer", low=1)
_FEW_CLASSES = Setting("few_classes", 0, "Up to how many classes a feature has all its pairs.", "integer", low=0)
_PRUNE = Setting("prune", 0.0, "Share of the weights that are dropped after training, the smallest.", low=0, high=1)


class Pairs(Model):
    """Scores are S x + b, S having a weight for each pair of a feature and a class that occur together in training.

    The other pairs, most of all by far where texts are short, have weight 0. A row costs the number of classes that its
    features occur with, so that the loss and its gradient are exact, over all classes, and no class is drawn. Up to 8
    labels a row in the mean are ranked by margins, over the classes that a row meets, in `fit`; streams and more labels
    have the decoupled softmax. `coef_` is a `scipy.sparse.csc_array`.

    Parameters
    ----------
    min_count : int, default=1
        Rows that a pair must have to get a weight.
    few_classes : int, default=0
        Of a feature that occurs with at most this many classes all pairs get weights, whatever `min_count` is: rare
        features tell most of rare classes, and it is frequent ones that meet many weights.
    prune : float, default=0.0
        Share of the weights that are dropped after training, the smallest, in [0, 1].
    """

    name = "pairs"
    settings = (_MIN_COUNT, _FEW_CLASSES, _PRUNE)


_MEMBERS = tuple(
    Setting(name, "learn", f"Whether {sentence}.", choices=("learn", "ignore"))
    for name, sentence in {
        "repeats": "a share of repeats of what a row has is looked for",
        "counts": "counts of what came with a row's features count",
        "margins": "a linear model by margins is a member",
        "linear": "a linear model is a member",
    }.items()
)


class Hybrid(Model):
    """Scores are a sum of those of members, each trained alone; in probability, counts and repeats are mixed in.

    1. Up to 1,000 rows, at most a twentieth, are held out. On the others each member is trained in full: weights on
       pairs; up to three runs of embeddings, by steps on drawn classes (SCENT), whose cost does not grow with their
       number; and, where W of all classes takes at most 256 MB and they are predicted to take at most 3 times the
       seconds of the embeddings, or 4 seconds, a linear model by margins and one of the softmax, by exact steps where a
       visit takes at most 8 microseconds, else by sampled ones. A run of embeddings has a ridge of 1 / N where the rows
       held out want the scores of the first one smaller. solver, learning_rate and max_iter of the estimator are those
       of the weights on pairs, dim, sampler and n_negatives those of the embeddings, and alpha, where it is set, is the
       ridge of all but the pairs. A callback of `fit` sees the member in training.
    2. Scores are added, z = sum_m a_m z_m. The shares a_m >= 0 have the least log-loss on the rows held out, of several
       labels the decoupled one, a convex problem with a weak prior at 0. A member of less than a hundredth of the
       largest share is dropped; `auto_report_` has a line for each. Terms of the same problem are naive Bayes,
       log(n_jk n / (n_j n_k)), n_jk being how many rows have feature j and class k, and where most rows held out have a
       class without other rows n_jk / (n_jk + 2 n_k / m), m being the mean of n_k, and logarithms of the classes'
       shares.
    3. Weights on pairs and embeddings of up to 8 labels a row in the mean are trained by margins, and embeddings by
       SCENT are further members; more labels are those of the decoupled softmax. Several labels then get a temperature.
    4. Counts are mixed in: p_k = (1 - l m) softmax_k + l q_k, q_k = sum_j a_j C_jk / (C_j + s), m = sum_k q_k. C_jk is
       how many rows had feature j and class k, C_j how many labels the rows of feature j had, a_j = |x_j| / sum |x_j|,
       s one of 0.3, 1, 3, ..., 300. Of next items the rows that have k and class j are counted with them where that is
       better on the rows held out: what came before and after. `partial_fit` counts on.
    5. Repeats are mixed in where labels are numbers or names of columns, as next items of histories are:
       (1 - rho) p_k + rho w_k / sum w, w_k = (|x_k| / max |x|)^gamma v_k, over the row's own columns, the softmax being
       over the other classes; gamma is 0, 1/2 or 1, and v_k is 1 or (C_kk + s mu) / (C_k + s), how often item k came
       next of the times that a row had it. Then the odds of rho are multiplied by the mean of w_k / mu, mu being the
       rate of all items.

    What is mixed in has the least log-loss on the rows left out, and gains 5 nats there. Where it ranks several labels
    worse, the ten classes of the largest scores keep their order and get its largest probabilities.

    Parameters
    ----------
    min_count : int, default=1
        Rows that a pair must have to get a weight.
    few_classes : int, default=0
        Of a feature that occurs with at most this many classes all pairs get weights.
    prune : float, default=0.0
        Share of the weights that are dropped after training, the smallest, in [0, 1].
    activation : {"linear", "relu"}, default="linear"
        What the sum of embeddings goes through.
    repeats : {"learn", "ignore"}, default="learn"
        Whether to look for a share of repeats; where no row of the fit has one, it is half a row of them all.
    counts : {"learn", "ignore"}, default="learn"
        Whether to look for a share of counts, and for closed forms.
    margins : {"learn", "ignore"}, default="learn"
        Whether a linear model by margins is a member, of one label a row; with `prune` it is none.
    linear : {"learn", "ignore"}, default="learn"
        Whether a linear model by exact steps is a member, of one label a row; with `prune` it is none.
    """

    name = "hybrid"
    settings = (_MIN_COUNT, _FEW_CLASSES, _PRUNE, _ACTIVATION, *_MEMBERS)


MODELS: dict[str, type[Part]] = {kind.name: kind for kind in (Linear, Embedding, Pairs, Hybrid)}

__all__ = ["Embedding", "Hybrid", "Linear", "Pairs"]
