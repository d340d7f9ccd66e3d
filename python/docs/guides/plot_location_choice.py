"""Location choice
===============

Where do people move, shop or work, among thousands of zones? Zones have features, a home and a zone have a distance,
and what is wanted are coefficients with standard errors: what a kilometre is worth, and who would go where if a zone
closed. The usual way out is to draw some zones for each person and to correct the likelihood; logsums are then off by
the logarithm of the share that was drawn. :class:`~manyclass.ChoiceClassifier` looks at all zones, or draws them for a
sum whose gradient has no bias; the model that comes out is that of all zones. The choices are made here, so that the
coefficients are known.

In short, with your data in the place of those below::

    sets = choice_sets(
        alternatives=np.arange(N_ZONES), X=rich, Z=zones, pairs=distance, pair_names=["distance"], chosen=chosen
    )
    model = ChoiceClassifier().fit(sets)
    print(model.summary())
"""

# %%
# A city
# ------
# Zones have jobs and a rent; rich people mind the rent less. Distances are a function, called for the pairs that are
# looked at: a table of all pairs need not exist.

import numpy as np

from manyclass import ChoiceClassifier
from manyclass.datasets import choice_sets
from manyclass.plot.style import Panel, Series, line_chart

N_PEOPLE, N_ZONES = 3_000, 1_000
rng = np.random.default_rng(0)
place = rng.uniform(0, 10, (N_ZONES, 2))  # km
zones = np.stack([rng.normal(size=N_ZONES), rng.lognormal(0, 0.3, N_ZONES)], axis=1)  # log of jobs, rent
home = rng.integers(0, N_ZONES, N_PEOPLE)
rich = rng.integers(0, 2, (N_PEOPLE, 1)).astype(float)


def distance(people, zones):
    """Kilometres from homes to zones."""
    return np.linalg.norm(place[home[people]] - place[zones], axis=1, keepdims=True)


truth = {"jobs": 0.8, "rent": -1.0, "distance": -0.5, "rich:jobs": 0.0, "rich:rent": 0.6}
people, every = np.repeat(np.arange(N_PEOPLE), N_ZONES), np.tile(np.arange(N_ZONES), N_PEOPLE)
utility = -0.5 * distance(people, every).reshape(N_PEOPLE, N_ZONES) + zones @ [0.8, -1.0] + 0.6 * rich * zones[:, 1]
chosen = np.argmax(utility + rng.gumbel(size=utility.shape), axis=1)

# %%
# Coefficients and their errors
# -----------------------------

sets = choice_sets(
    alternatives=np.arange(N_ZONES),
    X=rich,
    Z=zones,
    pairs=distance,
    chosen=chosen,
    chooser_names=["rich"],
    alternative_names=["jobs", "rent"],
    pair_names=["distance"],
)
model = ChoiceClassifier().fit(sets)
print(model.summary())
for name, coef, error in zip(model.coef_names_, model.coef_, model.std_errors_, strict=True):
    print(f"{name:9}  {(coef - truth[name]) / error:+.2f} standard errors from the truth")
print({name: round(value, 3) for name, value in model.willingness_to_pay("distance", "rent", change=-1).items()})

# %%
# With drawn zones
# ----------------
# ``solver="double_sum"`` sees 32 zones a person and pass. That is what makes a million people and ten thousand zones
# a matter of minutes. ``draw_errors_`` says what the draws leave. With ``noise="normal"`` it is a probit by augment and
# reduce, for which a correction of the likelihood does not exist.

drawn = ChoiceClassifier(solver="double_sum", n_negatives=32, random_state=0).fit(sets)
print("off by", np.round((drawn.coef_ - model.coef_) / model.std_errors_, 2), "standard errors")
print("said  ", np.round(drawn.draw_errors_ / model.std_errors_, 2))

# %%
# Logsums
# -------
# The expected utility of the best zone. A sum over drawn zones lacks the logarithm of the share that was drawn; the
# model's own, whatever it was trained on, has all of it: what is left is the error of the coefficients.

own = model.inclusive_values(sets)
exact = np.logaddexp.reduce(utility, axis=1)
counts = [10, 30, 100, 300, 1000]
off = []
for m in counts:
    some = np.take_along_axis(utility, rng.integers(0, N_ZONES, (N_PEOPLE, m)), axis=1)
    off.append(float(np.mean(np.logaddexp.reduce(some, axis=1) - exact)))
ours = float(np.mean(own - exact))
lines = [Series("drawn zones", counts, off, "-o"), Series("the model", counts, [ours] * len(counts))]
logsums = line_chart([Panel("Mean error of the logsum", lines)], "zones drawn of 1,000", "nats", log_x=True)
print(f"30 drawn zones {off[1]:.2f} nats, -log(1000 / 30) is {-np.log(1000 / 30):.2f}; the model {ours:+.3f}")

# %%
# A zone closes
# -------------
# Shares and surplus, in the unit of the rent, of all people.

busiest = int(np.argmax(np.bincount(chosen)))
after = model.simulate(sets, sets.without(busiest), price="rent")
gained = after["share_after"] - after["share_before"]
print(f"zone {busiest} had {after['share_before'][busiest]:.3f}; most goes to {int(np.argmax(gained))}")
print(f"a person loses {-after['surplus_change'].mean():.4f} in the mean")
