"""LP++ as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import _arrays, _checks
from ._arrays import Array
from ._checks import Task
from ._parameters import Choice, Flag, Nothing, Number, Pair, Rule, Seed
from ._random import generator
from .base import FewShotClassifier
from .recipes import Recipe, resolve
from .selection import History
from .training import train

_FROM_RECIPE = Nothing("as the recipe has it")


class LPPlusPlus(FewShotClassifier):
    """Linear probe whose class weights are w_k + α_k t_k: a visual prototype and a multiple of the name's embedding.

    Parameters
    ----------
    recipe : {"default", "paper", "released"}
        Preset for all parameters below that are None. "paper" is Algorithm 1 (with one α for all classes at the
        start), "released" what the authors' code does.
    solver : {"flow", "block-mm", "heavy-ball", "gradient-descent", "adam", "lbfgs"}, optional
        Default "flow": the same descent in a few long steps.
    alpha : {"learned", "fixed", "none"}, optional
        Whether the text weights move from their start; "none" ignores the text.
    alpha_init : {"shared", "per-class", "random"} or float, optional
        Start of the text weights. Default "shared".
    w_init : {"class-sums", "random"}, optional
        Start of the prototypes.
    cycle : (int, int), optional
        Steps on W and on α in turn. Default (10, 1).
    updates : int, optional
        Budget, counting steps on both blocks; 0 is the training-free classifier. By default 300, but "flow", for which
        it sets the time to run and not the number of steps, has 300 for each shot of the smallest class, and 30 000
        where held-out loss says when to stop.
    tau_w, tau_alpha : float, optional
        Factors of the blocks' curvature constants. Default 1 and 16, as in the paper.
    certified : bool, optional
        Use constants that bound the curvature everywhere, so that every step lowers the loss ("block-mm" and
        "gradient-descent").
    learning_rate : {"lipschitz", "grid"} or float, optional
        Step of "gradient-descent" and "adam": from the curvature, the best of 1e-4 … 1e2 on validation, or a number.
    intercept : bool, optional
        Whether classes have a bias. The paper has none, the released code has.
    selection : {"auto", "last", "cross-validation", "validation", "validation-loss"}, optional
        Which iterate to keep. "validation" takes the one with the best validation accuracy, "validation-loss" goes as
        far as validation log-loss falls, "cross-validation" as far as that of the support's own folds does. "auto"
        comes to "validation-loss" with a validation set and to "cross-validation" without, or to "last" where some
        class has a single example; in the recipes "paper" and "released", to "validation" with and "last" without.
    ties : {"latest", "first"}, optional
        Which of equally accurate iterates wins on a validation set.
    folds : int, optional
        Folds of the cross-validation. Default 4.
    normalize : bool
        Scale embeddings to unit length, in `fit` (after averaging an image's views) and in `predict`. Text is always
        scaled.
    random_state : int, Generator, RandomState or None
        Folds and random starts. The default 0 makes fits repeat bit for bit (on a CPU; a GPU adds in any order).

    Attributes
    ----------
    coef_ : (K, D) array
        w_k + α_k t_k, what embeddings are multiplied with.
    alpha_ : (K,) array or None
        Text weights; None without text.
    intercept_ : (K,) array
        Zero where the recipe has no intercept.
    prototypes_ : (K, D) array
        The visual part w_k.
    text_ : (K, D) array or None
        Unit class-name embeddings.
    classes_ : (K,) numpy array
    history_ : History
        Loss, time and what selection measured, one entry an iterate; `history_.as_arrays()` to plot.
    n_updates_ : int
        The iterate that was kept.
    selection_ : str
        How it was chosen.
    learning_rate_ : float or None
        The rate that was named, or the best of a grid; None where steps come from the curvature.

    Examples
    --------
    >>> import numpy as np
    >>> from lpplusplus import LPPlusPlus
    >>> images = np.array([[1.0, 0.1], [0.9, 0.3], [0.1, 1.0], [0.3, 0.9]])
    >>> names = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> probe = LPPlusPlus().fit(images, ["cat", "cat", "dog", "dog"], text=names)
    >>> probe.predict([[0.8, 0.2], [0.2, 0.8]])
    array(['cat', 'dog'], dtype='<U3')
    """

    parameter_rules: ClassVar[dict[str, list[Rule]]] = {
        "recipe": [Choice(("default", "paper", "released"))],
        "solver": [
            Choice(("flow", "block-mm", "heavy-ball", "gradient-descent", "adam", "lbfgs")),
            _FROM_RECIPE,
        ],
        "alpha": [Choice(("learned", "fixed", "none")), _FROM_RECIPE],
        "alpha_init": [Choice(("shared", "per-class", "random")), Number(), _FROM_RECIPE],
        "w_init": [Choice(("class-sums", "random")), _FROM_RECIPE],
        "cycle": [Pair((1, 0)), _FROM_RECIPE],
        "updates": [Number(0, whole=True), _FROM_RECIPE],
        "tau_w": [Number(0, open=True), _FROM_RECIPE],
        "tau_alpha": [Number(0, open=True), _FROM_RECIPE],
        "certified": [Flag(), _FROM_RECIPE],
        "learning_rate": [Choice(("lipschitz", "grid")), Number(0, open=True), _FROM_RECIPE],
        "intercept": [Flag(), _FROM_RECIPE],
        "selection": [
            Choice(("auto", "last", "cross-validation", "validation", "validation-loss")),
            _FROM_RECIPE,
        ],
        "ties": [Choice(("latest", "first")), _FROM_RECIPE],
        "folds": [Number(2, whole=True), _FROM_RECIPE],
        "normalize": [Flag()],
        "random_state": [Seed()],
    }

    fitted_arrays: ClassVar[dict[str, str]] = {"coef_": "KD", "intercept_": "K", "text_": "KD?", "alpha_": "K?"}
    fitted_scalars = ("n_updates_", "selection_", "learning_rate_")
    history_kind = History

    alpha_: Array | None
    history_: History
    n_updates_: int
    selection_: str
    learning_rate_: float | None

    def __init__(
        self,
        *,
        recipe: str = "default",
        solver: str | None = None,
        alpha: str | None = None,
        alpha_init: str | float | None = None,
        w_init: str | None = None,
        cycle: tuple[int, int] | None = None,
        updates: int | None = None,
        tau_w: float | None = None,
        tau_alpha: float | None = None,
        certified: bool | None = None,
        learning_rate: str | float | None = None,
        intercept: bool | None = None,
        selection: str | None = None,
        ties: str | None = None,
        folds: int | None = None,
        normalize: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.recipe = recipe
        self.solver = solver
        self.alpha = alpha
        self.alpha_init = alpha_init
        self.w_init = w_init
        self.cycle = cycle
        self.updates = updates
        self.tau_w = tau_w
        self.tau_alpha = tau_alpha
        self.certified = certified
        self.learning_rate = learning_rate
        self.intercept = intercept
        self.selection = selection
        self.ties = ties
        self.folds = folds
        self.normalize = normalize
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._resolved()

    def _resolved(self) -> Recipe:
        return resolve(self.recipe, self.get_params(deep=False))

    def _fit_task(self, task: Task) -> None:
        recipe = self._resolved()
        uses_text = task.text is not None and recipe.alpha != "none"
        if not uses_text:
            remedy = "pass text=" if task.text is None else "leave out alpha='none', which ignores the text"
            _checks.check_every_class_has_examples(task, self.classes_, remedy)
        fitted = train(task, recipe, normalize=self.normalize, rng=generator(self.random_state))
        self.coef_ = fitted.effective
        self.alpha_ = fitted.weights.alpha
        self.intercept_ = fitted.weights.intercept
        if self.intercept_ is None:
            self.intercept_ = _arrays.zeros(self.coef_, (task.n_classes,))
        self.text_ = None if self.alpha_ is None else _arrays.copy(task.text)
        self.history_ = fitted.history
        self.n_updates_ = fitted.update
        self.selection_ = fitted.selection
        self.learning_rate_ = fitted.learning_rate

    def _count_parameters(self) -> int:
        recipe = self._resolved()
        if recipe.updates == 0:
            return 0
        learns_alpha = self.alpha_ is not None and recipe.learns_alpha
        return len(self.classes_) * (self.n_features_in_ + learns_alpha + recipe.intercept)

    def _restore(self, arrays: dict[str, np.ndarray[Any, Any]], scalars: dict[str, Any], n_classes: int) -> None:
        super()._restore(arrays, scalars, n_classes)
        if (self.alpha_ is None) != (self.text_ is None):
            raise ValueError("alpha_ without text_, or text_ without alpha_")

    @property
    def prototypes_(self) -> Array:
        """The visual part of the weights, w_k = coef_ - α_k t_k."""
        check_is_fitted(self)
        if self.text_ is None:
            return self.coef_
        return self.coef_ - self.alpha_[:, None] * self.text_  # type: ignore[index]
