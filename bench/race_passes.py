"""The clocks of a fit that is looked at on its way: they stand still while losses are taken."""

import time

import numpy as np

MOST_PASSES = 64
LOOKS = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}  # after these passes or iterations, and each 32 from there


class Look:
    """What was seen of a fit: `curve` has rows [passes, CPU s, s, *losses], `kept` what is reported of one state."""

    def __init__(self, parts, most_s):
        self.parts, self.most_s, self.curve, self.kept = parts, most_s, [], {}
        self.start()

    def start(self):
        """Begin at 0: of a fit that is made anew, too."""
        self.spent = np.zeros(2)
        self.go_on()

    def go_on(self):
        self.since = np.array([time.process_time(), time.perf_counter()])

    def __call__(self, log_p, n, *, always=False):
        """Note the losses after n passes, if that is one to look at; return whether the seconds are used up."""
        self.spent += np.array([time.process_time(), time.perf_counter()]) - self.since
        ended = bool(self.spent[0] >= self.most_s)
        if n in LOOKS or n % 32 == 0 or always or ended:
            losses = [round(float(-np.mean(log_p(*part))), 4) for part in self.parts]
            self.curve.append([n, *(round(float(s), 3) for s in self.spent), *losses])
        self.go_on()
        return ended

    def has_turned(self):
        """Whether the last loss was above the least at two looks in a row."""
        losses = [row[-1] for row in self.curve]
        return len(losses) > 2 and min(losses[-2:]) > min(losses[:-2])

    def keep(self, ask=dict):
        """Report the state that was seen last, with what `ask` finds of it."""
        n, cpu_s, wall_s, *_ = self.curve[-1]
        self.kept = {"n_passes": n, "cpu_s": cpu_s, "wall_s": wall_s, **ask()}
        self.go_on()


class InPasses:
    """A contender that has `begin(X, y)` and `one_pass(X, y)`, and `asked`, which finds the figures of a state."""

    def fit(self, X, y):
        chosen = self.settings.get("n_passes")  # which a trial has not
        self.begin(X, y)
        for n in range(1, MOST_PASSES + 1):
            self.one_pass(X, y)
            ended = self.look(self.log_p, n)
            if chosen and (n == chosen or (ended and not self.look.kept)):
                self.look.keep(self.asked)
            if ended or (not chosen and self.look.has_turned()):
                break
