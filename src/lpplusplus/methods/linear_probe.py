"""The standard linear probe: logistic regression on the images alone, its strength searched as in CoOp."""

import warnings
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from .._core import backend, checks
from .._core.base import FewShotClassifier
from .._core.folds import assign_folds, splits
from .._core.history import History
from .._core.parameters import AUTO, SEED, choice, generator, number, with_parameters
from .._core.task import Task

DECADES = (1e6, 1e4, 1e2, 1.0, 1e-2, 1e-4, 1e-6)
"""Values of C in the first stage, in the order of the search: if accuracies are equal, the largest C wins."""
BISECTIONS = 8
"""Number of bisections in the second stage."""

Matrix = np.ndarray[Any, Any]


@with_parameters
class LinearProbe(FewShotClassifier):
    """Multinomial logistic regression with an L2 penalty; class names are not used.

    C, the inverse strength of the penalty, is searched as in CoOp: seven values two decades apart, then eight
    bisections of the two decades around the best, 23 fits in all; the last bisection's winner is taken. Accuracy is
    measured on the validation data or, without them, by cross-validation on the support. If some class has a single
    example, nothing can be held out, and C is `fallback_C`.

    The fits share their work and agree with 23 separate ones to the tolerance: a C that comes up again is not solved
    again, each fit starts from the solution at the nearest C, and with fewer images than dimensions the images are
    rotated into the space that they span.

    Parameters
    ----------
    C : "auto" or float
        Inverse strength of the penalty, as in scikit-learn.
    flavour : {"lpp", "coop"}
        "lpp" scales embeddings to unit length, as the LP++ authors do; "coop" takes them as they are, as CoOp does.
    fallback_C : float
        C if there are no validation data and some class has a single example.
    folds : int
        Number of folds of the cross-validation.
    tol : float
        A fit ends when no entry of the gradient of the mean loss is larger. scikit-learn's 1e-4 would stop a task with
        a thousand classes before its first step.
    max_iter : int
        Largest number of iterations per fit.
    random_state : int, Generator, RandomState or None
        Which images form a fold.

    Attributes
    ----------
    coef_ : (K, D) array
    intercept_ : (K,) array
    C_ : float
    n_iter_ : int
        Iterations of the last fit.
    history_ : History
        Columns C, accuracy and solved (0 if an earlier fit had the answer), one entry for each of the 23 fits.

    Examples
    --------
    >>> from lpplusplus import LinearProbe
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> probe = LinearProbe().fit(images, ["cat", "cat", "dog", "dog"])
    >>> probe.predict([[0.8, 0.2]]), len(probe.history_["C"])
    (array(['cat'], dtype='<U3'), 23)
    """

    fitted_scalars: ClassVar[dict[str, str]] = {"C_": "number", "n_iter_": "number"}

    C: Annotated[str | float, AUTO, number(0, open=True)] = "auto"
    flavour: Annotated[str, choice(("lpp", "coop"))] = "lpp"
    fallback_C: Annotated[float, number(0, open=True)] = 100.0  # noqa: N815
    folds: Annotated[int, number(2, whole=True)] = 4
    tol: Annotated[float, number(0, open=True)] = 1e-6
    max_iter: Annotated[int, number(1, whole=True)] = 1000
    random_state: Annotated[Any, SEED] = 0

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """As in every method; "auto" was "search"."""
        C = given.get("C")
        return {**given, "C": "auto"} if isinstance(C, str) and C == "search" else given

    @property
    def normalize(self) -> bool:  # type: ignore[override]
        """Whether embeddings are scaled to unit length."""
        return self.flavour == "lpp"

    def _fit_task(self, task: Task) -> None:
        checks.check_every_class_has_examples(task, self._labels)
        X, y = self._features(task.X), backend.to_numpy(task.y)
        whole = LogisticPath(X, y, self.tol, self.max_iter)
        self.history_, self.chosen_ = History(), {}
        if not isinstance(self.C, str):
            self.C_ = float(self.C)
        elif task.X_val is not None:
            held, answers = self._features(task.X_val), backend.to_numpy(task.y_val)
            self.C_ = search_strength(lambda C: whole.hits(C, held, answers) / len(answers), self.history_)
            self.chosen_ = {"C": "validation"}
        elif np.bincount(y).min() >= 2:
            self.history_.note(f"no validation data: C by {self.folds}-fold cross-validation on the support")
            self.C_ = search_strength(self._cross_validated(X, y), self.history_)
            self.chosen_ = {"C": "cross-validation"}
        else:
            self.history_.note("no validation data and a class with a single example: C is fallback_C")
            self.C_ = float(self.fallback_C)
        coef, intercept = whole.solve(self.C_)
        self.n_iter_ = whole.iterations
        if not whole.converged:
            self.history_.note(f"max_iter={self.max_iter} reached before tol={self.tol:g}")
        self.coef_, self.intercept_ = (backend.like(part, task.X, dtype=task.X.dtype) for part in (coef, intercept))
        self.text_ = None

    def _features(self, X: Any) -> Matrix:
        """Embeddings for scikit-learn: numpy, in double precision."""
        return backend.to_numpy(backend.unit_rows(X) if self.normalize else X).astype(np.float64)

    def _cross_validated(self, X: Matrix, y: Matrix) -> Callable[[float], float]:
        """Accuracy by cross-validation as a function of C."""
        folds = assign_folds(y, self.folds, generator(self.random_state))
        parts = [
            (LogisticPath(X[rest], y[rest], self.tol, self.max_iter), X[out], y[out])
            for out, rest in splits(folds, len(y))
        ]
        return lambda C: sum(path.hits(C, held, answers) for path, held, answers in parts) / len(y)


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
