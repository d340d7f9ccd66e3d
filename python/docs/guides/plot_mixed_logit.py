"""Tastes that differ: mixed logit
================================

Does everybody mind a dollar as much as everybody else? A logit says so; a mixed logit learns how tastes spread among
persons, from several choices of each. Here 400 planted persons choose eight times among three ways to work, and their
dislike of cost is lognormal: nobody likes to pay, and some hardly mind.

In short, with your data in the place of those below::

    trips = from_wide(table, utilities=utilities, chosen="mode", person="person")
    mixed = ChoiceClassifier(mixture=RandomCoefficients({"cost": "-lognormal"}), random_state=0).fit(trips)
    print(mixed.summary())
"""

# %%
# Choices of persons
# ------------------
# A wide table has a row for each choice; the utilities are written as in a paper. Names that are no columns are
# coefficients.

import numpy as np

from manyclass import ChoiceClassifier
from manyclass.choice import RandomCoefficients
from manyclass.datasets import from_wide
from manyclass.plot.style import Panel, Series, line_chart

rng = np.random.default_rng(0)
N_PERSONS, N_TASKS = 400, 8
person = np.repeat(np.arange(N_PERSONS), N_TASKS)
MEAN, SPREAD = -0.5, 0.8  # of the logarithm of what a dollar costs in utility
dislike = np.exp(MEAN + SPREAD * rng.normal(size=N_PERSONS))[person]
modes = ("bus", "train", "car")
table = {"person": person}
table |= {f"time_{mode}": rng.uniform(0.2, 1.5, len(person)) for mode in modes}  # hours
table |= {f"cost_{mode}": rng.uniform(1, 6, len(person)) for mode in modes}  # dollars
utility = np.stack([-2 * table[f"time_{mode}"] - dislike * table[f"cost_{mode}"] for mode in modes], axis=1)
utility += np.array([0.0, 0.5, 1.0]) + rng.gumbel(size=utility.shape)
table["mode"] = np.array(modes)[np.argmax(utility, axis=1)]
utilities = {
    "bus": "time*time_bus + cost*cost_bus",
    "train": "asc_train + time*time_train + cost*cost_train",
    "car": "asc_car + time*time_car + cost*cost_car",
}
trips = from_wide(table, utilities=utilities, chosen="mode", person="person")

# %%
# One taste for all, and a distribution of tastes
# -----------------------------------------------
# "-lognormal" is minus the exponential of a normal number, so that the coefficient is negative for everybody;
# ``coef_`` has the mean and the standard deviation of the logarithm.

logit = ChoiceClassifier().fit(trips)
spread = RandomCoefficients({"cost": "-lognormal"}, n_draws=200)
mixed = ChoiceClassifier(mixture=spread, random_state=0).fit(trips)
print(mixed.summary())
test = mixed.likelihood_ratio_test(logit)
print(f"log-likelihood {mixed.log_likelihood_:.1f}, of one taste {logit.log_likelihood_:.1f}; p = {test.p_value:.1e}")
estimates = dict(zip(mixed.coef_names_, mixed.coef_, strict=True))
print(f"log of the dislike: mean {estimates['cost']:.2f}, spread {estimates['sd[cost]']:.2f}; planted {MEAN}, {SPREAD}")

# %%
# The distribution, planted and found
# -----------------------------------
# The value of an hour is the ratio of two coefficients, so it has a distribution, too: its median, where nine of ten
# persons lie, and what the logit gives for everybody.

worth = mixed.willingness_to_pay("time", "cost", change=-1, level=0.9)
print("of nine of ten persons between {persons_low:.2f} and {persons_high:.2f} dollars".format(**worth))
saved = logit.willingness_to_pay("time", "cost", change=-1)
median, one_taste = worth["estimate"], saved["estimate"]
print(f"an hour: median {median:.2f} dollars, planted {2 / np.exp(MEAN):.2f}; with one taste {one_taste:.2f}")


def density(x, mean, sd):
    """The density of a lognormal number."""
    return np.exp(-(((np.log(x) - mean) / sd) ** 2) / 2) / (x * sd * np.sqrt(2 * np.pi))


x = np.linspace(0.02, 3, 120)
curves = [
    Series("planted", x, density(x, MEAN, SPREAD), "-"),
    Series("mixed logit", x, density(x, estimates["cost"], estimates["sd[cost]"]), "--"),
]
one = -logit.coef_[logit.coef_names_.index("cost")]
curves.append(Series("logit: one taste", [one, one], [0.0, float(density(x, MEAN, SPREAD).max())], ":"))
chart = line_chart([Panel("Dislike of a dollar", curves)], "utility lost with a dollar", "density among persons")

# %%
# Each person
# -----------
# What is expected of a person's coefficient, given what this person chose: means are drawn together, and go with the
# planted ones.

means, _ = mixed.person_coefficients(trips)
correlation = np.corrcoef(means[:, 0], -dislike[::N_TASKS])[0, 1]
print(f"correlation of persons' expected and planted coefficients of cost: {correlation:.2f}")

# %%
# A fare is raised
# ----------------
# Shares before and after the train costs half as much again; the column changes, and what was made of it follows.

changes = mixed.simulate(trips, trips.changed(cost_train=lambda cost: 1.5 * cost))["shares"]
for mode, before, after in zip(changes["alternative"], changes["before"], changes["after"], strict=True):
    print(f"{mode:6} {before:.3f} -> {after:.3f}")
print("elasticities of shares by the train's cost:", np.round(mixed.elasticities(trips, "cost_train"), 2))
