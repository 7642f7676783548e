"""The standard linear probe: logistic regression on the images alone, its regularisation searched as the field does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .. import _arrays, _checks
from .._checks import Task
from .._parameters import Choice, Number, Rule, Seed
from .._random import generator
from ..base import FewShotClassifier
from ..cross_validation import assign_folds
from ..journal import Journal
from .logistic_path import LogisticPath, Matrix, search_strength


class LinearProbe(FewShotClassifier):
    """Multinomial logistic regression with an L2 penalty; class names are not used.

    The strength C is searched as in CoOp's protocol: seven values two decades apart, then eight bisections of the two
    decades around the best, 23 fits in all; the last bisection's winner is the answer. Accuracy is counted on the
    validation data or, without them, on the support's own folds; where some class has a single example, nothing can
    be held out, and C is `fallback_C`.

    Fits share their work and agree with 23 separate ones to the tolerance: a value of C that comes up again is not
    solved again, each solution starts from that of the nearest C, and images are rotated into the space they span,
    which is smaller than the embedding when examples are few.

    Parameters
    ----------
    C : "search" or float
        Inverse strength of the penalty, as scikit-learn has it.
    flavour : {"lpp", "coop"}
        "lpp" scales embeddings to unit length, as the LP++ authors do; "coop" takes them as they come, as CoOp does.
    fallback_C : float
        C where there is neither validation data nor a second example of every class.
    folds : int
        Folds of the cross-validation.
    tol : float
        Largest gradient entry of the mean loss at which a fit counts as solved. scikit-learn's 1e-4 would stop a task
        of a thousand classes before its first step.
    max_iter : int
        Most iterations a fit.
    random_state : int, Generator, RandomState or None
        Folds.

    Attributes
    ----------
    coef_ : (K, D) array
    intercept_ : (K,) array
    C_ : float
    n_iter_ : int
        Iterations of the last fit.
    history_ : Journal
        Columns C, accuracy and solved (0 where an earlier fit had the answer), one entry for each of the 23 fits.

    Examples
    --------
    >>> from lpplusplus import LinearProbe
    >>> images = [[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]]
    >>> probe = LinearProbe().fit(images, ["cat", "cat", "dog", "dog"])
    >>> probe.predict([[0.8, 0.2]]), len(probe.history_["C"])
    (array(['cat'], dtype='<U3'), 23)
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        "C": [Choice(("search",)), Number(0, open=True)],
        "flavour": [Choice(("lpp", "coop"))],
        "fallback_C": [Number(0, open=True)],
        "folds": [Number(2, whole=True)],
        "tol": [Number(0, open=True)],
        "max_iter": [Number(1, whole=True)],
        "random_state": [Seed()],
    }
    fitted_scalars = ("C_", "n_iter_")

    C_: float
    n_iter_: int

    def __init__(
        self,
        *,
        C: str | float = "search",
        flavour: str = "lpp",
        fallback_C: float = 100.0,
        folds: int = 4,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.flavour = flavour
        self.fallback_C = fallback_C
        self.folds = folds
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @property
    def normalize(self) -> bool:  # type: ignore[override]
        """Whether embeddings are scaled to unit length."""
        return self.flavour == "lpp"

    def _fit_task(self, task: Task) -> None:
        _checks.check_every_class_has_examples(task, self.classes_)
        X, y = self._features(task.X), _arrays.to_numpy(task.y)
        whole = LogisticPath(X, y, self.tol, self.max_iter)
        self.history_ = Journal()
        if self.C != "search":
            self.C_ = float(self.C)
        elif task.X_val is not None:
            held, answers = self._features(task.X_val), _arrays.to_numpy(task.y_val)
            self.C_ = search_strength(lambda C: whole.hits(C, held, answers) / len(answers), self.history_)
        elif np.bincount(y).min() >= 2:
            self.history_.note(f"no validation data: C by {self.folds}-fold cross-validation on the support")
            self.C_ = search_strength(self._cross_validated(X, y), self.history_)
        else:
            self.history_.note("no validation data and a class with a single example: C is fallback_C")
            self.C_ = float(self.fallback_C)
        coef, intercept = whole.solve(self.C_)
        self.n_iter_ = whole.iterations
        if not whole.converged:
            self.history_.note(f"max_iter={self.max_iter} reached before tol={self.tol:g}")
        self.coef_, self.intercept_ = (_arrays.like(part, task.X, dtype=task.X.dtype) for part in (coef, intercept))
        self.text_ = None

    def _features(self, X: Any) -> Matrix:
        """As scikit-learn computes with them: numpy, in double precision."""
        return _arrays.to_numpy(_arrays.unit_rows(X) if self.normalize else X).astype(np.float64)

    def _cross_validated(self, X: Matrix, y: Matrix) -> Callable[[float], float]:
        folds = assign_folds(y, self.folds, generator(self.random_state))
        parts = []
        for fold in np.unique(folds):
            held = folds == fold
            parts.append((LogisticPath(X[~held], y[~held], self.tol, self.max_iter), X[held], y[held]))
        return lambda C: sum(path.hits(C, held, answers) for path, held, answers in parts) / len(y)
