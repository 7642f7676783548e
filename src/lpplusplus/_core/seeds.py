"""`random_state` of any kind as a numpy Generator."""

from typing import Any

import numpy as np


def generator(random_state: Any) -> np.random.Generator:
    """The generator that `random_state` means: None for a fresh one, a seed, a RandomState or a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
