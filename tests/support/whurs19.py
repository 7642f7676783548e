"""WHU-RS19, real CLIP features: its data and the tasks of its tables, for tests."""

import numpy as np
from sklearn.base import clone

from helpers import shared_data
from lpplusplus.bench.datasets import catalog
from lpplusplus.bench.draw_task import draw_from

ENCODERS = ("RN50", "ViT-B/32", "ViT-L/14")
SHOTS = (1, 2, 4, 8, 16)


def load(encoder):
    """Published features of one encoder, or skip."""
    entry = catalog()["whurs19"]
    file = shared_data(f"{entry.folder}/{entry.options['files'][encoder]}")
    return entry.features(file.parents[1], encoder=encoder)


def task(data, shots, seed):
    """Pairs (X, y) of support, validation and test images."""
    draw = draw_from(data, shots=shots, seed=seed, generator="whurs19-table")
    pool = data.train
    return [(pool.rows[rows], pool.labels[rows]) for rows in (draw.support, draw.validation, draw.test)]


def accuracies(data, estimator, shots, seeds, *, validation=False):
    """Test accuracy in percent for each seed, which is also the estimator's own."""

    def one(seed):
        (X, y), held, test = task(data, shots, seed)
        model = clone(estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        model.fit(X, y, text=data.text, **(dict(zip(("X_val", "y_val"), held, strict=True)) if validation else {}))
        return 100 * float(model.score(*test))

    return np.array([one(seed) for seed in seeds])
