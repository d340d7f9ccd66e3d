"""The numbers that were tuned: each is named once here, with the measurement that it came from.

Recipes, predictions of costs, trials and trainings read them here; `bench/bench_leave_one_out.py` halves and doubles
them one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figures:
    """Numbers that choices depend on."""

    # Solvers of one label a row

    # Where a visit of all classes takes at most these microseconds they are worth it: no noise of sampling, no u to
    # learn, and twenty passes over 10^5 points still end in 16 s. bibtex takes 4, delicious 2.5, eurlex57k 150.
    MOST_EXACT: float = 8.0
    # Full passes of L-BFGS go to the optimum where they and the trials of their ridge take at most these predicted
    # seconds.
    MOST_FULL: float = 5.0
    MOST_ITERATIONS: int = 10_000
    # What is open where the solver was chosen by hand: nothing that is not in the solver's definition.
    PASSES_BY_HAND: int = 20
    DECAY_BY_HAND: float = 0.9
    NEGATIVES_BY_HAND: int = 64
    # Sampled implicit steps, chosen by hand or not. On nine sets of first labels 12 passes of half the step gain up to
    # 0.1 nats over 6, and 256 classes up to 0.06 over 112; 512 gain at most 0.03 more in 2.5 times the time. Steps fall
    # to an eightieth: over a twentieth that gains 0.002 to 0.02 nats on six sets of eight and loses 0.001 on the
    # others, and smaller ones gain hardly more (bench/decisions.md).
    PASSES_SAMPLED: int = 12
    NEGATIVES_SAMPLED: int = 256
    LAST_STEP: float = 1 / 80
    # Classes are drawn by their frequency itself: best, or within 0.035 nats, of the powers 0.5, 0.75 and 1 on each.
    POWER_SAMPLED: float = 1.0
    # The step size, times the mean of |x|^2 with the intercept's 1; it is 1 for all other solvers. A sampled implicit
    # step bears 6, which on eurlex57k and yso-en learns in 12 passes what 2 does not in 20. Explicit steps on the
    # double sum carry the weight K/m of a sampled class, hence less; one-vs-each adds up K probabilities, of 1/2 at the
    # start.
    RELATIVE_RATES: Mapping[str, float] = field(
        default_factory=lambda: {"implicit": 6.0, "umax": 0.1, "sgd": 0.01, "softplus": 0.1}
    )
    # In a stream u begins at its exact value or at what the visit's own draw makes of it, so that the probabilities of
    # a step sum to at most 1: these bear the step size of exact ones there.
    AS_EXACT_IN_STREAMS: tuple[str, ...] = ("umax", "sgd")
    # The first step of a stream, times the median of |x|^2 with the intercept's 1: the prior variance of a score,
    # before rows that have its features tell of it. Of 10, 30 and 100 the middle is the best, or within .08 nats of it,
    # on six sets of eight in one pass of 30 calls; delicious wants 3 and 20news 300, by .15 and .06 nats
    # (bench/decisions.md).
    RELATIVE_RATE_OF_STREAM: float = 30.0
    RELATIVE_RATE_OVE: float = 4.0  # over n_classes
    ADAPTIVE_RATE: float = 0.02  # Ruiz et al. 2018, section 4
    RATE_UTILITY_SGD_NORMAL: float = 0.01  # of augment and reduce, relative as above: gradients grow with the scores
    # Step sizes of u for u_learning_rate="auto". A visit lets u fall by at most its step, so that small ones lag
    # behind: for the implicit step 3 costs 0.5 nats on sets of definitions, where 30 and 300 differ by 0.06
    # (bench/decisions.md).
    U_RATES: Mapping[str, float] = field(default_factory=lambda: {"implicit": 30.0, "bregman": 0.5, "scent": 0.5})
    # The last iterates are averaged, a gain of 0.02 nats on yso-en, unless the mean takes more than these bytes beside
    # W.
    MOST_FOR_AVERAGE: int = 2 << 30

    # Models

    # Where W would take more bytes than LEAST_TO_EMBED, and NUMBERS_A_VALUE numbers for each stored value of sparse
    # data, its rows cannot be learned one by one: yso-en has 290 and yelp-next 270 of them, and embeddings gain 0.3 and
    # 1.1 nats there, in less time; eurlex57k has 1.3 and loses 0.3 by them. Between these, nothing was tried.
    LEAST_TO_EMBED: int = 256 << 20
    NUMBERS_A_VALUE: int = 30
    # A pair of a feature and a class gets no weight if so few rows have it that a row meets at most MOST_MET weights,
    # predicted from SAMPLED_FEATURES of its features. Pairs of five rows and more do better than all on eurlex57k,
    # whose rows meet 188,000 weights, in a third of the time; on yso-en, where they meet 19,000, pairs of one row are
    # worth a point of P@1. Where not even those are so few, pairs of many rows add little, and a row meets a fifth: on
    # eurlex57k pairs of 30 and of 300 rows rank alike beside embeddings.
    MOST_MET: int = 50_000
    FEW_ROWS_OF_A_PAIR: int = 5
    MOST_MET_OF_MANY: int = 10_000
    LEAST_COUNTS: tuple[int, ...] = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200)
    # Where that leaves out pairs, it is of features that occur with more classes than these, if that is enough. Of
    # 106,000 definitions of 79,000 words, rows meet 70,000 weights, most of them by 22 frequent words: without all
    # pairs of one row the words, of which most have one, end at 8.52 nats and an accuracy of .114, with those of rare
    # features at 7.57 and .136.
    FEW_CLASSES_OF_A_FEATURE: int = 3000
    SAMPLED_FEATURES: int = 256
    # Embeddings of several labels a row rank them by margins; of one label, and of more labels than these in the mean,
    # they are those of the decoupled softmax with the settings of one label: they gain a point of P@1 and P@5 on
    # delicious, which has 19, in a third of the time, since a margin visits all classes once a label; on bibtex and
    # eurlex57k, which have 2.4 and 5.1, they lose one to four (bench/decisions.md).
    MANY_LABELS: float = 8.0
    # The mean of MOST_RUNS runs of a hybrid is taken, if those after the first one are predicted to take no more than
    # SECONDS_OF_RUNS and all embeddings no more than BYTES_OF_RUNS. Three gain .03, .02 and .05 nats on bibtex,
    # delicious and 20news, and half a point of P@1 of several labels, for a second or two; a mean of linear models
    # gains nothing, as their objective is convex (bench/decisions.md).
    MOST_RUNS: int = 3
    SECONDS_OF_RUNS: float = 20.0
    BYTES_OF_RUNS: int = 256 << 20
    # A second run may take these predicted seconds: on yso-en two gain .1 nats and half a point of accuracy, and of
    # several labels on package dependencies .4 points of P@1 and .2 of P@5 (bench/decisions.md).
    SECONDS_OF_SECOND_RUN: float = 100.0

    # Minibatches

    # Of 128, 192 and 256 columns with 512 or 1,024 draws and 4 or 6 passes the one best in both log-loss and accuracy
    # on yso-en. Passes stand with their decay.
    EMBEDDED_DIM: int = 192
    NEGATIVES_BATCHES: int = 1024
    EMBEDDED_PASSES: tuple[int, float] = (5, 0.7)
    # A hidden layer on dense rows of one label: its columns, its passes with their decay, and Adagrad's rate; the ridge
    # is PRIOR / N, as of full passes. Of 256 and 512 columns, 4 and 8 passes, rates of 1, 3 and 6 and ridges of 0 to
    # 1e-3 these are the best on omniglot and mnist together (bench/decisions.md).
    HIDDEN_DIM: int = 512
    HIDDEN_PASSES: tuple[int, float] = (8, 0.7)
    HIDDEN_RATE: float = 3.0
    # A hidden layer that has this many times the log-loss of the linear model after two passes or more is left: planted
    # softmaxes, which are linear, end 1.04 and 1.2 times behind, and noisy modes go from level to .93 of it.
    FAR_BEHIND_LINEAR: float = 1.2
    # Next items beside weights on pairs: where no row tells its label, the noise of few draws is small beside its own.
    # 128 end as low as 1,024, in a third of the time; esco-titles, whose rows tell the label, loses .05 nats by them
    # (bench/decisions.md).
    NEGATIVES_NEXT: int = 128
    # Up to 64 classes of one label a row, embeddings beside pairs have 64 columns: a product of W and embeddings
    # needs no more. 20news has .507 nats for .505 in 6.9 s for 11.2; the 30 to 60 most frequent classes of bibtex,
    # esco-titles, yso-en and delicious have at most .006 more, about what seeds differ by (bench/decisions.md).
    FEW_CLASSES: int = 64
    # Several labels a row by margins, beside weights on pairs and alone; the smoothing is that of Yen et al. 2018. A
    # decay of .5 ranks better than .7 beside pairs on bibtex, and worse alone on eurlex57k, where two runs of 384
    # columns do better than three of 256 in the same time (bench/decisions.md).
    NEGATIVES_RANKING: int = 2048
    RANKING_PASSES: tuple[int, float] = (4, 0.5)
    RANKING_ALONE_PASSES: tuple[int, float] = (4, 0.7)
    RANKING_DIM: int = 256
    RANKING_ALONE_DIM: int = 384
    SMOOTHING: float = 5.0
    BATCHES_PASSES: tuple[int, float] = (10, 0.9)  # of all other minibatches
    NEGATIVES_MARGIN: int = 256  # of MarginClassifier
    # Margins beside embeddings, by implicit steps: 10 passes lose .002 nats and .35 points of accuracy on agent-brand,
    # .003 nats on recipe-ingredient. Adagrad's lose .012 nats and a point on agent-brand, in 4.1 s for 2.8; bibtex,
    # recipe-ingredient, esco-titles and 20news differ by at most .005 nats.
    MARGINS_PASSES: tuple[int, float] = (20, 0.9)
    # Linear members are trained where they are predicted to take at most this many times the seconds of all embeddings:
    # on eurlex57k one by sampled steps takes 1.3 times theirs and gains .03 nats, margins 5 times and gain nothing.
    MOST_OF_EMBEDDINGS: float = 3.0
    MOST_SCORED: int = 8192  # minibatches score all classes up to this number
    # Adagrad's rate over the root mean square of |x|: how far a row moves at first. Of 0.3, 1 and 3 the best on
    # eurlex57k by P@1 after three passes.
    ADAGRAD_RATE: float = 1.0

    # The step of embeddings, which start with length 1, over that of W: for margins 0.5, of 0.1, 0.5, 1 and 1.5 the
    # best on eurlex57k; for the softmax, of 0.25, 0.5, 1, 1.5 and 2, the best on yso-en by log-loss
    # (bench/decisions.md).
    EMBEDDING_STEP: float = 1.5
    EMBEDDING_STEP_BY_MARGINS: float = 0.5
    # Classes that a search returns: a margin's gradient is that of the few best wrong classes; the softmax's is spread
    # over many, a hundredth as Yen et al. 2018, section 5.
    MARGIN_BUDGET: int = 64
    SOFTMAX_BUDGET_SHARE: int = 100
    # Points that see the same weights: what one pass over W for the exact scores is shared by, a vector's worth for
    # each of two threads (Yen et al. 2018, section 5, take 10); and fewer where there are few classes, because the
    # steps of points that move the same row are added.
    BATCH_POINTS: int = 32
    CLASSES_A_POINT: int = 16
    COLUMN_BLOCKS: int = 8  # of a decomposed search, as Yen et al. 2018, section 5.1
    SEARCH_QUERIES: int = 256  # points by which the number of clusters to probe is chosen

    # Weights on pairs

    # The first step of a row moves the score of a class by the rate times its sum of |x|: the rate makes that
    # FIRST_MOVE nats. 7.2 is a rate of 3 on yso-en, where larger ones lose, and .9 on bibtex, where .3 and 3 lose a
    # point of P@1 and more.
    FIRST_MOVE: float = 7.2
    # In a blend, where factors are found for it: 1.55 is as good as what trials chose on delicious, with one label and
    # all, and gains .04 and .11 nats over them on tmall-next and gowalla; elsewhere pairs have no share by either.
    FIRST_MOVE_IN_BLENDS: float = 1.55
    # Of margins the rate, over the root mean square of |x|. Of .1, .3 and 1 the best by P@1 on bibtex, 40,000 rows of
    # yso-en and a set of package dependencies, by up to 3 points (bench/decisions.md).
    MARGIN_RATE_OF_PAIRS: float = 0.3
    # Pairs of more rows learn the decoupled softmax. Margins win 1.3 to 1.8 points of P@1 on 5,000 to 41,000 rows of
    # three sets, and lose half a point, and a sixth of the seconds, on the 609,000 of yso-en; between these is no set.
    MOST_ROWS_BY_MARGINS: int = 150_000
    # Passes and their decay, up to FEW_ROWS rows and beyond: what is learned from few rows takes more visits. 5 passes
    # for 2 gain 2 to 3 points on 10,000 rows of eurlex57k and half a point on bibtex; for many rows they would take
    # their time.
    FEW_ROWS: int = 100_000
    PAIRS_PASSES_OF_FEW: tuple[int, float] = (5, 0.7)
    PAIRS_PASSES: tuple[int, float] = (2, 0.4)

    # The rate of the intercepts, which start at the log of the classes' frequencies, over that of the weights.
    INTERCEPT_STEP: float = 0.05
    # What is added to Adagrad's sums of squares, for rows of length 1: of .01, .1 and 1 the best on bibtex; 1 gains
    # half a point of P@1 on delicious. It keeps the first step of a weight, which would be the whole rate, near its
    # gradient.
    PAIRS_OFFSET: float = 0.1
    # Gradients below this are rounded to 0 or to it, at random and without bias: it leaves 800 of 27,754 on the first
    # rows of yso-en. Where a line of 16 has none, its weights are not written.
    PAIRS_ROUNDING: float = 0.003
    # Points that see the same weights, so that threads can share the work; and fewer where there are few classes,
    # because the steps of points that move the same weight are added.
    PAIRS_BATCH_POINTS: int = 8
    PAIRS_CLASSES_A_POINT: int = 64

    # Rows held out

    VALIDATION: float = 0.1  # share that ridges and step sizes are compared on, and that early stopping holds out
    # For the shares of members, or the scales of two. By precision, which jumps, 244 rows of bibtex cost a point, and
    # 5,000 of yso-en no more than 1,000 by a loss (bench/decisions.md).
    MOST_HELD_OUT: int = 1000
    SHARE_HELD_OUT: float = 0.05
    MOST_HELD_OUT_FOR_ONE: int = 300  # 1,000 of eurlex57k give the same log-loss, and cost a tenth of a point
    FEWEST_TO_HOLD_OUT: int = 20  # of fewer rows none are held out, and shares are 1
    FEWEST_TO_WARN: int = 100  # by which a model is told to be no better than the shares of the classes
    # The first call of a stream trains on the rows that tell its scales afterwards, so that they may be more.
    FIRST_HELD_OUT: int = 100
    MOST_OF_FIRST: float = 0.5
    # A factor of scores: 0 would make all classes alike, and what has no use now in a stream may have one later.
    LEAST_FACTOR: float = 1e-3
    # Earlier rows of a stream have told something of the scales. It has the weight of 1,000 rows beside new ones, or of
    # a quarter of the earlier rows where these are fewer than 4,000: the best scales change as a model learns.
    MOST_REMEMBERED: float = 1000.0
    REMEMBERED: float = 0.25
    # Rows held out that are nearly all right want scores as large as can be. Before them a share is taken to be 0,
    # which is worth this part of a row whose scores are uniform. On 75 and 300 rows of planted classes the log-loss of
    # test rows is .022 and .008 nats for 1.914 and .049 without it, on 700 and 3,000 rows of agent-brand and 1,000 of
    # 20news it is within .002; a whole row costs .007 on 20news, five .05.
    PART_OF_ROW: float = 0.2
    # s of counts that saturate, n_jk / (n_jk + s n_k / m). Beside pairs and embeddings .315 of the codes of diagnoses
    # are right by 2, .301 to .308 by other numbers, by b = .75, or by features weighted by idf once more.
    SATURATION: float = 2.0
    # Of the largest share of a member; members of less are dropped, for the loss is flat at its least.
    LEAST_SHARE: float = 0.01
    # A member that lowers the loss of the rows held out by less than the share LEAST_GAIN after FIRST_PASSES of its
    # passes, a standard error more, ends there: of all labels of yso-en embeddings by margins (.0003 and as much) and
    # pairs (.0005), which take half of the seconds, and the sum is as good without them. Few rows have large errors: a
    # linear model of 855 texts is worth .1 nats, and 45 rows cannot tell. One pass of 20 says less than two.
    LEAST_GAIN: float = 0.002
    FIRST_PASSES: float = 0.1
    # Of the largest share, where further runs of embeddings are made: two of them gain .004 nats on eurlex57k, where
    # the first one has .43 of it, and take as long as the linear model; .013 to .025 on agent-brand, where it has .47
    # and more.
    SHARE_OF_RUNS: float = 0.45
    # Rows held out that want the scores of embeddings times less than this say that these are too sure of themselves.
    OVERCONFIDENT: float = 0.95
    # If they want these scores multiplied by more than UNDERTRAINED, the embeddings have learnt too little, and each
    # further run makes MORE_PASSES times the passes. On esco-titles, whose factors are 1.17 to 1.24, that gains .015
    # nats and .4 points of accuracy (three seeds, at a limit of 1.05); on agent-brand, whose factors are 1.07 to 1.17,
    # .004 nats, and it loses .14 points. On bibtex and 20news, whose factors are .8 and 1.0, it loses .015 nats.
    UNDERTRAINED: float = 1.18
    MORE_PASSES: int = 2
    RANKED_LABELS: int = 5  # what ranks labels is compared by the mean of P@1 to P@RANKED_LABELS
    LABELS_IN_ORDER: int = 10  # best classes of several labels that keep their order where a mixture ranks them worse
    SHRINKAGE: float = 10.0  # of counts, in rows, before any were tried
    # Rows count as parts of sequences where at least LEAST_FOLLOWING of the rows with several features come after
    # another row. Sequences are short below ROWS_OF_LONG rows. tmall-next has 3.1 rows a sequence, toys-next 6.6 and
    # yelp-next 8.2: by whole sequences the first ends at 6.535 nats for 6.588 and an accuracy of .138 for .122, the
    # others .025 worse (bench/decisions.md). Where more than MOST_NEXT rows may follow a row, it is not known which of
    # them does, and none is taken. At most about MOST_TOGETHER of all rows are held out, as training lacks them.
    LEAST_FOLLOWING: float = 0.5
    ROWS_OF_LONG: float = 5.0
    MOST_NEXT: int = 3
    MOST_TOGETHER: float = 0.1
    # Nats that all rows together must gain where counts are of both directions, or where own classes of rows never were
    # labels and their frequencies say what chance would make of that; any mixture must (evaluate/label_mixtures.cpp).
    LEAST_OF_MIXTURE: float = 5.0
    # How much of a history counts: the lengths and decays that small embeddings try, from the first length and
    # MEMORY_DECAY on; a longer memory must gain MEMORY_GAIN nats, as all rows cost more, be of use to MEMORY_LONGER of
    # the rows, and leave them MEMORY_ENTRIES entries. Of 16, 32 and 64 columns, 1 to 6 passes, 32, 128 and 512 draws
    # and 50,000 to 200,000 rows all take the same decay on toys-next. Planted decays of 2 and 1/2 of the last 10 and
    # 200 items are found, where counts of what came after what took 1/2, and 1 or 3/2 (bench/decisions.md).
    MEMORY_LENGTHS: tuple[int, ...] = (20, 60, 200, 600)
    MEMORY_DECAYS: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0)
    MEMORY_DECAY: float = 1.0
    MEMORY_DIM: int = 32
    MEMORY_ROWS: int = 100_000
    MEMORY_TELLING: int = 2000
    MEMORY_FEWEST: int = 25
    MEMORY_GAIN: float = 0.01
    MEMORY_LONGER: float = 0.05
    MEMORY_ENTRIES: int = 1 << 27
    # The most and the fewest rows that are held out to find a temperature.
    CALIBRATION_ROWS: int = 4096
    LEAST_CALIBRATION_ROWS: int = 256
    # The model is fitted again, on all rows, where calibration has held out more than this share of them: a tenth of
    # the rows is worth 0.02 to 0.04 nats on bibtex, delicious and eurlex57k, and fits of so few rows are short; T is
    # that of the first fit, which is as good for the second one (bench/decisions.md).
    MOST_WITHOUT: float = 0.03
    MOST_FOR_TEXTS: int = 256  # rows that are held out for texts of classes, or this share
    # A threshold of several labels is found on at most THRESHOLD_ROWS rows, and on fewer where there are many classes:
    # rows times classes stay below THRESHOLD_CELLS, which takes a part of the time of a pass.
    THRESHOLD_ROWS: int = 2048
    LEAST_THRESHOLD_ROWS: int = 32
    THRESHOLD_CELLS: int = 1 << 24

    # The closed form of dense rows. The covariance is taken from this number of rows, drawn at random: it is known well
    # then, and takes a second where there are a thousand features. Beyond these features it is a multiple of the unit
    # matrix: others would take more memory than 128 MB, and minutes.
    COVARIANCE_ROWS: int = 20_000
    COVARIANCE_FEATURES: int = 4096
    LEAST_VARIANCE: float = 1e-6  # of a direction, in units of the mean one: what single precision tells from none
    # Of rows held out of few for naive Bayes: it is too sure, and 20 rows that it happens to tell rightly have no best
    # scale.
    SHARE_OF_SPARSE: float = 0.3

    # Trials

    # All before a fit take at most this share of its predicted seconds, or QUICK seconds where that is more, which
    # nobody waits for. With fewer rows a tenth held out would say nothing.
    MOST_OF_FIT: float = 0.3
    QUICK: float = 4.0
    FEWEST_TO_TRY: int = 1000
    MOST_TO_TRY: int = 20_000
    # Step sizes are tried on at most MOST_TO_TRY rows, in RATES trials as a rule, for two passes, the second of a
    # quarter of the step, in steps of a third of a decade: a valley is wider than that. The first three surround the
    # step of the rules.
    RATES: int = 6
    TRIAL_PASSES: int = 2
    TRIAL_DECAY: float = 0.25
    RATE_RATIO: float = 10 ** (1 / 3)
    FIRST_RATES: tuple[int, ...] = (-1, 0, 1)
    FURTHEST_RATE: tuple[int, int] = (-6, 6)
    # Of the steps with a log-loss of at most 0.5 % above the least the geometric middle of the smallest and the
    # largest. Where a valley is flat the smallest loses 0.1 nats on yelp-next and the largest 0.06 on eurlex57k, the
    # middle 0.04 and 0.02 (bench/decisions.md).
    AS_GOOD: float = 1.005
    # Trials make two passes. From weights in closed form these end nearer to the end of a fit than from 0, so that the
    # former's log-loss must be below this share of the latter's.
    BETTER_START: float = 0.95
    # Nor are further rates tried from 0 where the first ones have this many times the least log-loss from the closed
    # form: 20,000 directions have 3.7 nats at best for .12, and the five trials took a quarter of the fit.
    FAR_BEHIND: float = 4.0
    # Whole classes that make up the rows of a trial; fewer would be another problem than that of all.
    LEAST_CLASSES: int = 25
    # Of the steps of all passes, in units of the pick; it was 2.0 for 12 passes of half the pick that fell to a
    # twentieth.
    SUM_OF_STEPS: float = 2.0
    # Step sizes of pairs: a third of the rate of the rules, and a third of that, while held-out rows get better by it.
    # On bibtex and eurlex57k the rate of the rules is best, on delicious a fifth of it (66.4 for 64.8 of P@1). Larger
    # ones are not tried: a trial has few of the rows, and few rows want larger ones.
    PAIR_RATES: int = 4
    LEAST_PAIR_RATE: int = -3
    MOST_ROWS_OF_PAIRS: int = 4000
    SHARE_OF_PAIRS: float = 0.2
    # With fewer rows held out whose labels the trial's training has, nothing is tried.
    FEWEST_KNOWN: int = 100

    # Ridge of linear steps, RIDGE / N in units of mean |x|^2, so that scaling X changes nothing: a weak one. Of 0, 1e-8
    # and 4e-8 none is clearly ahead on yso-en, eurlex57k gains up to 0.06 nats by 1e-6, and a choice by fits to nine
    # tenths of the rows gained .007 nats on bibtex and 20news and nothing on delicious, agent-brand, recipe-ingredient,
    # mnist and omniglot, for twice the time. With sampled implicit steps it also restrains what the two passes of a
    # trial cannot tell from learning, steps that overfit in twelve: 0.31 nats of 100,000 rows of yso-en, and 0.01 or
    # 0.02 of three of nine other sets; it costs at most 0.003 on any (bench/decisions.md).
    RIDGE: float = 0.01
    # Of rows with a smaller mean |x|^2 there is no ridge unless it is set: steps on them, of size 1 / |x|^2, are
    # divided by the factor of a row of W, which falls to 2^-40, and would leave single precision.
    LEAST_FOR_RIDGE: float = 1e-20
    # A ridge of PRIOR / N makes W the most probable one for weights that are normal with variance 1 in units of the
    # features' scales, which is what scikit-learn's LogisticRegression takes for scaled features. It is too weak for
    # many uninformative features and too strong for classes that can be separated, so others are tried by
    # cross-validation.
    PRIOR: float = 1.0
    PRIORS: tuple[float, ...] = (1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2)
    PAST_THE_VALLEY: float = 1.02  # of the least loss: where a ridge has more no weaker one is tried
    FOLDS: int = 5

    LOOSE: float = 1e-4  # so small a gradient leaves a log-loss that differs by much less than ridges do

    # Passes of a call of `partial_fit` in a stream that began without `fit`. Of 1, 2, 4 and 8, 2 of weights on pairs
    # had the least log-loss on bibtex and esco-titles by 1, 10 and 100 calls, and .01 more than 1 on 20news by 100
    # calls, but less by 1 and 10. After a fit of seven tenths of the rows, the others in 1, 10 and 60 calls, 2 end
    # below 1 on three sets of four, and .01 above it on bibtex. 8 of margins had the least error on bibtex and 20news
    # by 1 and 10 calls, and on esco-titles (bench/figures/streams.md).
    CALL_PASSES_OF_PAIRS: int = 2
    CALL_PASSES_OF_MARGINS: int = 8

    # Fits of a stream that began without `fit`

    # Which of its rows are kept, and when it is fitted to them anew. One visit of each row leaves what the passes of a
    # fit find, and fits tell which model is the best. A stream is within .03 nats of a fit of all rows only if it has
    # been fitted to nearly all of them: a fit of nine tenths of bibtex is .05 above one of all
    # (bench/figures/streams.md). A fit to fewer rows than these holds out too few for the scales of the terms: by 52
    # rows of 12 easy classes one was 3.1 where .9 is best, and the loss .24 nats higher.
    FEWEST_TO_FIT: int = 2000
    # The next fit comes when there are n / ROWS_OF_DOUBLE more rows, as a share of the n rows of the last one, but at
    # least LEAST_MORE and at most MOST_MORE. Fits of few rows are quick, and more rows tell more there. All fits of a
    # stream take as long as 3 to 9 of the last one.
    ROWS_OF_DOUBLE: int = 50_000
    LEAST_MORE: float = 0.07
    MOST_MORE: float = 0.5
    # Beyond either number the stream goes on without its rows: a fit to 100,000 rows takes up to a minute.
    MOST_KEPT: int = 100_000
    MOST_KEPT_BYTES: int = 128 << 20
    # Of linear models of dense rows: rows times features times classes, of which a pass takes a tenth of a second. One
    # visit leaves them within .02 nats of a fit on mnist and planted rows, of thousands of rows a class, but .39 above
    # on omniglot, of 16. So below FEW_OF_A_CLASS rows a class it may be more: a fit takes half a minute there.
    MOST_DENSE: float = 1e8
    MOST_DENSE_OF_FEW: float = 4e10
    FEW_OF_A_CLASS: int = 100
    TELLING: int = 8  # the last eighth of the rows tells whether a first fit is better than the stream

    # Trainings that go on, and streams

    # Up to this number of classes, a point's first visit in a training that goes on scores them all. What a draw
    # estimates itself is biased where it is small: streams of 50 classes end .12 nats higher by draws of 16, those of
    # 1,024 classes no higher by draws of 64. With 16 of 256 classes drawn a visit then takes 1.2 times as long on rows
    # of 50 stored values, and five times, 6 microseconds, on dense rows of 100 features.
    MOST_SCORED_FIRST: int = 256
    # What points carry where training begins at weights that are not 0 is exact if that takes at most this share of the
    # time of all passes, by the time that a product of dense rows takes.
    MOST_FOR_FIRST_U: float = 0.25
    # Rows that tell g: the standard error of its mean is then .02 or less, since it is within [0, 1] and varies by less
    # than .25 from row to row.
    CURVATURE_ROWS: int = 128
    # Rows by which weights may shrink: some thousand scores of all classes take hundredths of a second, and those of
    # the fewest rows, of at most MOST_TO_SHRINK classes, a quarter of one. So many tell of a share SHARE_TO_SHRINK of
    # the rows before, and fewer of smaller calls, so that a stream scores as many by calls of any size. After the share
    # FIRST_STRETCH of a call's rows weights may shrink first; then whenever there are twice as many.
    FEWEST_TO_SHRINK: int = 64
    MOST_ROWS_TO_SHRINK: int = 512
    SCORES_TO_SHRINK: int = 300_000
    MOST_TO_SHRINK: int = 30_000
    SHARE_TO_SHRINK: float = 0.1
    FIRST_STRETCH: float = 1 / 32
    SMALLER_STEP: float = 10.0  # a training that diverged is made again by its step size over this
    # Recall of a search for certain classes: .95 takes four times as many probes (bench/decisions.md), and a class that
    # is missed adds no bias.
    HEAD_RECALL: float = 0.8
    POSTERIOR_BATCH: int = 16  # points of a Gaussian posterior that see the same weights and classes
    # Of max_memory, the share that numbers kept for each row between passes may take, their bytes for a row, the rows
    # that are read to estimate the size of one, and the most rows of a part.
    CARRIED_BYTES: int = 8
    SHARE_CARRIED: float = 0.125
    ROWS_OF_SIZE: int = 1000
    MOST_ROWS_OF_PART: int = 1 << 20

    # Costs, in microseconds of one thread, as bench/bench_auto.py measures them: see `choosing/costs.py`

    VISIT: tuple[float, float] = (0.5, 0.006)  # of a row, and of a stored value
    EXACT_CLASS: tuple[float, float, float] = (0.002, 3.3e-4, 0.9e-4)  # of a class; of a value of sparse, dense rows
    SAMPLED_CLASS: tuple[float, float, float] = (0.0036, 0.9e-4, 0.7e-4)  # likewise
    # Powers of W's megabytes by which values take longer: exact steps, sampled ones of sparse and of dense rows.
    CACHE_POWERS: tuple[float, float, float] = (0.18, 0.37, 0.36)
    LAST_CACHE: float = 32.0  # megabytes
    EMBEDDED_CLASS: tuple[float, float] = (0.003, 4.0e-5)  # of a drawn class, and of a column
    RANKED_CLASS: tuple[float, float] = (0.0035, 4.0e-5)
    # Of a row, a stored value, a weight met, a class listed, and the most classes that are, as a share.
    PAIRS_VISIT: tuple[float, float, float, float, float] = (2.0, 0.03, 0.0018, 0.01, 0.15)
    DISCRIMINANT: float = 2e-4  # of a product of two numbers
    # Of full passes: an evaluation, a row, a class of it, a value of sparse and of dense rows, a number of W.
    FULL_PASS: tuple[float, float, float, float, float, float] = (100.0, 0.1, 0.015, 1e-3, 5e-4, 0.02)
    # Evaluations of a fit from the weights of the ridge before, in the mean over ridges: 5 to 16 on nine planted sets.
    EVALUATIONS: int = 15
    VALUES_AS_COLUMNS: float = 2.5  # columns of embeddings that a stored value of sparse rows costs as much as
    HIDDEN_VALUE: tuple[float, float] = (1e-4, 5e-5)  # of a hidden layer's value and column; what batches save
    SECONDS_PER_SCORED: float = 2.5e-11  # of a value of X and a class, where all are scored
    # Copies of W, in float32, that L-BFGS has at its peak, and bytes of a feature beside weights on pairs: those of the
    # worst shapes of memory_of_fits.py.
    FULL_COPIES: float = 23.2
    FEATURE_BYTES: float = 32.0
    # Columns of X, and columns for each value stored, from which on only those that rows use have weights. Arrays with
    # a number for each column are below these no larger than X, or take .02 s.
    USED_COLUMNS: tuple[int, int] = (1 << 22, 4)
    FITS_ANYWHERE: int = 256 << 20  # bytes for which the system is not asked what memory there is

    BYTES_OF_CLASS: int = 24  # a label and its counts: 10**8 classes of 4 rows take 23 each by weights on pairs
    MOST_MEMORY: float = math.inf  # bytes of the machine's memory that a model may take


FIGURES = Figures()
