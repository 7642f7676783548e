"""Logistic regression at many strengths of its penalty, and CoOp's search among them."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from .._core.history import History

DECADES = (1e6, 1e4, 1e2, 1.0, 1e-2, 1e-4, 1e-6)
"""Values of C in the first stage, in the order of the search: if accuracies are equal, the largest C wins."""
BISECTIONS = 8
"""Number of bisections in the second stage."""

Matrix = np.ndarray[Any, Any]


def search_strength(score: Callable[[float], float], history: History) -> float:
    """The C that CoOp's search finds, given the accuracy at any C. It asks 23 times, for 15 different C."""
    known: dict[float, float] = {}

    def ask(C: float) -> float:
        C = float(f"{C:.12g}")  # 10**log10(C) need not be C again.
        new = C not in known
        if new:
            known[C] = score(C)
        history.add(C=C, accuracy=known[C], solved=float(new))
        return known[C]

    # Solved from the strongest penalty to the weakest, so that each starts near its neighbour; judged in CoOp's order.
    for C in sorted(DECADES):
        known[C] = score(C)
    for C in DECADES:
        history.add(C=C, accuracy=known[C], solved=1.0)
    centre = np.log10(max(DECADES, key=lambda C: known[C]))
    left, right = centre - 1, centre + 1
    for _ in range(BISECTIONS):
        middle = (left + right) / 2
        if ask(10**left) < ask(10**right):
            best, left = right, middle
        else:
            best, right = left, middle
    return float(f"{10**best:.12g}")


class LogisticPath:
    """Solutions of one logistic regression for many C."""

    def __init__(self, X: Matrix, y: Matrix, tol: float, max_iter: int) -> None:
        # The optimum lies in the span of the images, so it can be found in coordinates of that span.
        self._basis = np.linalg.qr(X.T)[0] if X.shape[0] < X.shape[1] else None
        self._X, self._y = (X if self._basis is None else X @ self._basis), y
        self._tol, self._max_iter = tol, max_iter
        self._solutions: dict[float, tuple[Matrix, Matrix]] = {}
        self.converged, self.iterations = True, 0

    def solve(self, C: float) -> tuple[Matrix, Matrix]:
        """Weights (K, D) and intercepts (K,) at `C`."""
        coef, intercept = self._solve(C)
        if self._basis is not None:
            coef = coef @ self._basis.T
        if len(coef) == 1:  # scikit-learn has one score for two classes; here each class has its own.
            return np.concatenate([-coef / 2, coef / 2]), np.concatenate([-intercept / 2, intercept / 2])
        return coef, intercept

    def hits(self, C: float, X: Matrix, y: Matrix) -> int:
        """Number of images `X` with labels `y` that are right at `C`."""
        coef, intercept = self.solve(C)
        return int(((X @ coef.T + intercept).argmax(axis=1) == y).sum())

    def _solve(self, C: float) -> tuple[Matrix, Matrix]:
        if C not in self._solutions:
            model = LogisticRegression(C=C, tol=self._tol, max_iter=self._max_iter, warm_start=True)
            if self._solutions:
                nearest = min(self._solutions, key=lambda other: abs(np.log(other / C)))
                model.coef_, model.intercept_ = (part.copy() for part in self._solutions[nearest])
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", ConvergenceWarning)
                model.fit(self._X, self._y)
            self.converged = not any(issubclass(w.category, ConvergenceWarning) for w in caught)
            self.iterations = int(model.n_iter_.max())
            self._solutions[C] = model.coef_, model.intercept_
        return self._solutions[C]
