"""LP++ with names that lie, for docs/plans/names.toml."""

from dataclasses import dataclass, replace

import numpy as np

from lpplusplus import LPPlusPlus


@dataclass(kw_only=True, eq=False, repr=False)
class WrongNames(LPPlusPlus):
    """LP++ that is given a part of the class names in another order; `random_state` decides which."""

    part: float = 1.0

    def _fit_task(self, task):
        count = round(self.part * task.n_classes)
        rows = np.random.default_rng(self.random_state).permutation(task.n_classes)[:count]
        text = task.text.copy()
        text[rows] = task.text[np.roll(rows, 1)]  # Everyone of them has the name of another.
        super()._fit_task(replace(task, text=text))
