"""Random cases for every estimator: parameters drawn from what the code declares, extreme data, and what must hold.

`parameters` draws parameters, `classifiers` and `vectors` make cases and say what is wrong with one, `pool` runs cases
in processes that may crash or hang. A case is its number: `python -m drawn 1234` in the folder `tests` makes it again.
"""
