"""Travel modes on public data
===========================

How did 210 people go from Sydney to Melbourne: by air, train, bus or car? The data of Greene and Hensher (1997), which
statsmodels ships, are in every textbook on discrete choice, so that the published estimates can be held against those
of :class:`~manyclass.ChoiceClassifier`. It needs ``pip install statsmodels pandas``.

In short, with your data in the place of those below::

    trips = from_long(table, chooser="individual", alternative="mode", chosen="choice", features=["gc", "ttme"])
    logit = ChoiceClassifier(constants="alternative").fit(trips)
    print(logit.summary())
"""

# %%
# A long table
# ------------
# A row is a person and a mode that the person could take. ``gc`` is the generalised cost in dollars, ``ttme`` the
# minutes at the terminal; the income counts for the plane alone.

from statsmodels.datasets import modechoice

from manyclass import ChoiceClassifier
from manyclass.datasets import from_long
from manyclass.plot.style import Panel, Series, line_chart

MODES = {1: "1 air", 2: "2 train", 3: "3 bus", 4: "0 car"}  # the first label is the reference of constants
table = modechoice.load_pandas().data
table["mode"] = table["mode"].map(MODES)
table["income by air"] = table["hinc"] * (table["mode"] == "1 air")
named = {"chooser": "individual", "alternative": "mode", "chosen": "choice"}
trips = from_long(table, features=["gc", "ttme", "income by air"], **named)

# %%
# Multinomial logit, beside the textbook
# --------------------------------------
# W. Greene, *Econometric Analysis*, has these estimates and standard errors.

logit = ChoiceClassifier(constants="alternative").fit(trips)
print(logit.summary())
published = {"gc": (-0.01550, 0.00441), "ttme": (-0.09612, 0.01044), "income by air": (0.01329, 0.01026)}
for name, (estimate, error) in published.items():
    at = logit.coef_names_.index(name)
    print(f"{name:14} {logit.coef_[at]:.5f} ({logit.std_errors_[at]:.5f}), published {estimate:.5f} ({error:.5f})")

# %%
# A nested logit
# --------------
# Do the modes on the ground compete more with each other than with the plane? The test of the nests against none says
# whether they do.

nests = ["ground" if mode != "1 air" else "air" for mode in trips.alternatives]
nested = ChoiceClassifier(constants="alternative", nests=nests).fit(trips)
test = nested.likelihood_ratio_test(logit)
print(f"log-likelihood {nested.log_likelihood_:.2f} with nests, {logit.log_likelihood_:.2f} without")
print(f"p = {test.p_value:.4f} of the likelihood-ratio test")
worth = logit.willingness_to_pay("ttme", "gc", change=-1)
print(f"a minute less at the terminal is worth {worth['estimate']:.2f} dollars, +- {worth['std_error']:.2f}")

# %%
# Shorter waits for trains
# ------------------------
# Shares of all modes, where trains make people wait less: who comes, and from which mode.

cuts = [0, 5, 10, 15, 20]
shares = []
for minutes in cuts:
    changed = table.assign(ttme=table["ttme"] - minutes * (table["mode"] == "2 train"))
    after = from_long(changed, features={"pairs": ["gc", "ttme", "income by air"]}, **named)
    shares.append(logit.predict_proba(after).mean(axis=0))
lines = [
    Series(str(mode)[2:], cuts, [float(share[at]) for share in shares], "-o")
    for at, mode in enumerate(trips.alternatives)
]
chart = line_chart([Panel("Shares of modes", lines)], "minutes less at train stations", "share of people")
print({str(mode)[2:]: round(float(shares[-1][at] - shares[0][at]), 3) for at, mode in enumerate(trips.alternatives)})
