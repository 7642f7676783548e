"""LP++ as a scikit-learn estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core import backend, checks
from .._core.backend import Array
from .._core.parameters import FLAG, SEED, choice, generator, having, nothing, number, with_parameters
from .._core.rows import MEMORY, Rows
from .._core.task import ClassWeight, Task, weighed
from .fit import train
from .initialization import weigh_prompts
from .recipes import Recipe, check_solver, resolve, without_options
from .selection import COLUMNS
from .solvers import SOLVERS, from_json, to_json
from .solvers.base import Updates
from .uncertainty import Uncertainty
from .unlabelled import with_unlabelled

if TYPE_CHECKING:
    from typing_extensions import Self

_FROM_RECIPE = nothing("as the recipe has it")


@with_parameters
class LPPlusPlus(Uncertainty):
    """Linear probe whose class weights are w_k + α_k t_k: a visual prototype and a multiple of the name's embedding.

    Parameters
    ----------
    recipe : {"default", "paper", "released"}
        Preset for all parameters below that are None. "paper" is Algorithm 1 (with one α for all classes at the
        start), "released" what the authors' code does.
    alpha : {"learned", "fixed", "none"}, optional
        Whether the text weights are trained, or stay at their start; "none" ignores the text.
    selection : {"auto", "last", "support-loss", "cross-validation", "validation", "validation-loss"}, optional
        Which iterate to keep. "validation": the one with the best validation accuracy. "validation-loss": the one with
        the lowest log-loss on validation images, at its best temperature. "cross-validation": the same with folds of
        the support. Both scale the logits by that temperature, so that probabilities are calibrated. "support-loss":
        the first with a mean loss below 1/12 on the support. "last": the last. "auto" means "validation-loss" with a
        validation set; without one "cross-validation", or "support-loss" if most classes have a single example. In the
        recipes "paper" and "released" it means "validation" with a validation set and "last" without.
    normalize : bool
        Scale embeddings to unit length, in `fit` (after averaging an image's views) and in `predict`. Text is always
        scaled.
    class_weight : "balanced" or dict, optional
        Weights of the images of each class. "balanced" gives all classes the same total weight. A dict maps classes to
        weights; classes that it leaves out have 1.
    memory : float
        MiB that `X` may take in `fit` if it is a memory map (`np.memmap`, `np.load(file, mmap_mode="r")`). A larger one
        is read from the file in every pass, block by block, and never all in memory. The classifier is the same, but it
        does not keep its rows, so it cannot `extend`.
    random_state : int, Generator, RandomState or None
        Seed of folds and random starts. The default 0 makes fits repeat bit for bit on a CPU.

    Other Parameters
    ----------------
    solver : {"flow", "block-mm", "heavy-ball", "gradient-descent", "adam", "lbfgs"} or object, optional
        For ablations, as all that follow. Default "flow": the same descent in a few long steps. An object of
        `lpplusplus.solvers` has options, `solver=BlockMM(tau_w=2.0)`; or one of your own with
        `run(objective, point, observer)`.
    updates : int, optional
        Budget, counting steps on both blocks; 0 is the training-free classifier. Default 300. For "flow" it is the time
        to reach, not a number of steps; its default is 300 per shot of the smallest class, or 120 000 if held-out loss
        decides when to stop.
    metric : {"auto", "within", "none"}, optional
        "within": run the descent in coordinates in which images of one class vary equally in all directions, as in
        linear discriminant analysis. It is off if no class has two images. "auto", the default, is the same; but if
        most classes have a single image, gradients are divided by the root of each coordinate's root mean square
        instead, a soft form of Adam, and a pseudo-image of each class, made from its name, counts as a tenth. This
        depends on the encoder's own coordinates: with turned embeddings the classifier is another one. The recipes
        "paper" and "released" have "none".
    alpha_init : {"trusted", "shared", "per-class", "random"} or float, optional
        Start of the text weights. "shared" is LP++'s: 250 times the mean cosine between images and their class names.
        "trusted", the default, is the smaller of two: that one, and the α that gives the labels the highest likelihood
        with names alone. So names that mean nothing do no harm. A name is not used if four or more images of its class
        contradict it. With the metric, and n images in the smallest class, α is multiplied by q^(1 - 2/n), where q is
        the part of their squared length that the images keep under the metric; where most classes have a single image,
        by its root.
    w_init : {"class-sums", "random"}, optional
        Start of the prototypes.
    intercept : bool, optional
        Whether classes have a bias. The paper has none, the released code has.
    ties : {"latest", "first"}, optional
        Which of equally accurate iterates wins on a validation set.
    folds : int, optional
        Folds of the cross-validation. Default 2; 4 with fewer than 200 images, or two or three in the smallest class.

    Attributes
    ----------
    coef_ : (K, D) array
        The class weights w_k + α_k t_k.
    alpha_ : (K,) array or None
        Text weights; None without text.
    intercept_ : (K,) array
        Zero if the recipe has no intercept.
    prototypes_ : (K, D) array
        The visual part w_k.
    text_ : (K, D) array or None
        Class-name embeddings of unit length. With several prompts per class: their mean, weighted by how well they fit
        the support; in the recipes "paper" and "released", the plain mean.
    classes_ : (K,) numpy array
    history_ : History
        Loss, time and what `selection` measured, one entry per iterate; plot `history_.as_arrays()`.
    n_updates_ : int
        The iterate that was kept.
    selection_ : str
        How it was chosen.
    learning_rate_ : float or None
        The given rate, or the best of the grid; None if step sizes come from the curvature.
    n_unlabelled_ : int
        How many of the unlabelled images it learned from. Not saved.
    held_out_ : HeldOutAnswers or None
        Predictions for the images that were held out; None if none were. Not saved.

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

    fitted_arrays: ClassVar[dict[str, str]] = {
        "coef_": "KD", "intercept_": "K", "text_": "KD?", "alpha_": "K?", **Uncertainty.uncertainty_arrays
    }  # fmt: skip
    fitted_scalars: ClassVar[dict[str, str]] = {
        "n_updates_": "number",
        "selection_": "word",
        "learning_rate_": "number?",
    }

    recipe: Annotated[str, choice(("default", "paper", "released"))] = "default"
    alpha: Annotated[str | None, choice(("learned", "fixed", "none")), _FROM_RECIPE] = None
    selection: Annotated[
        str | None,
        choice(("auto", "last", "support-loss", "cross-validation", "validation", "validation-loss")),
        _FROM_RECIPE,
    ] = None
    normalize: Annotated[bool, FLAG] = True
    class_weight: ClassWeight = None
    memory: Annotated[float, number(0)] = MEMORY
    random_state: Annotated[Any, SEED] = 0
    solver: Annotated[Any, choice(tuple(SOLVERS)), having("run"), _FROM_RECIPE] = None
    updates: Updates = None
    metric: Annotated[str | None, choice(("auto", "within", "none")), _FROM_RECIPE] = None
    alpha_init: Annotated[
        str | float | None, choice(("trusted", "shared", "per-class", "random")), number(), _FROM_RECIPE
    ] = None
    w_init: Annotated[str | None, choice(("class-sums", "random")), _FROM_RECIPE] = None
    intercept: Annotated[bool | None, FLAG, _FROM_RECIPE] = None
    ties: Annotated[str | None, choice(("latest", "first")), _FROM_RECIPE] = None
    folds: Annotated[int | None, number(2, whole=True), _FROM_RECIPE] = None

    def fit(
        self, X: Any, y: Any, *, text: Any = None, classes: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight: Any = None, unlabelled: Any = None,
    ) -> Self:  # fmt: skip
        """As in every method (`FewShotClassifier.fit`), with weights of images and with images without labels.

        Parameters
        ----------
        X, y, text, classes, X_val, y_val
            As in every method.
        sample_weight : (N,) array, optional
            How often each image counts. A weight of 3 is like three copies of an image; 0 leaves it out. Unlike
            copies, it never falls into two folds of a cross-validation.
        unlabelled : (n, D) array, optional
            Embeddings of more images of the same kind, without labels. They may lack some of the classes, or show other
            things. They are used only if that lowers the loss of held-out images; `n_unlabelled_` says how many were.
            Needs two examples per class, or `X_val`. See docs/how-to/unlabelled-photos.md.
        """
        return self._fit_checked(
            X, y, text=text, classes=classes, X_val=X_val, y_val=y_val, sample_weight=sample_weight,
            unlabelled=unlabelled,
        )  # fmt: skip

    def _weighed(self, task: Task) -> Task:
        return weighed(task, self.class_weight)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_solver(self.solver, self.updates, self.alpha)

    def _resolved(self) -> Recipe:
        return resolve(self.recipe, self.get_params(deep=False))

    def _fit_task(self, task: Task) -> None:
        recipe = self._resolved()
        if self.recipe == "default":
            task = weigh_prompts(task)
        uses_text = task.text is not None and recipe.alpha != "none"
        if not uses_text:
            remedy = "pass text=" if task.text is None else "leave out alpha='none', which ignores the text"
            checks.check_every_class_has_examples(task, self._labels, remedy)
        if not self.normalize:
            checks.check_scale(task.X, "X")
        rng = generator(self.random_state)
        fitted, used = train(task, recipe, normalize=self.normalize, rng=rng), 0
        if task.unlabelled is not None:
            fitted, used = with_unlabelled(task, fitted, recipe, normalize=self.normalize, rng=rng)
        self.coef_ = fitted.effective
        self.alpha_ = fitted.weights.alpha
        self.intercept_ = fitted.weights.intercept
        if self.intercept_ is None:
            self.intercept_ = backend.zeros(self.coef_, (task.n_classes,))
        self.text_ = None if self.alpha_ is None else backend.copy(task.text)
        self.history_ = fitted.history
        self.n_updates_ = fitted.update
        self.selection_ = fitted.selection
        self.learning_rate_ = fitted.learning_rate
        stays = fitted.selection == "last" or recipe.solver.updates == 0
        self.chosen_ = {} if stays else {"update": fitted.selection}
        if recipe.rates:
            self.chosen_["learning rate"] = fitted.selection
        if task.unlabelled is not None:
            self.chosen_["unlabelled images"] = "held-out loss"
        self.n_unlabelled_ = used
        self._learn_uncertainty(fitted.held_out)
        if isinstance(task.X, Rows):  # They are not kept.
            self._look_around(task)

    def _count_parameters(self) -> int:
        recipe = self._resolved()
        if recipe.solver.updates == 0:
            return 0
        learns_alpha = self.alpha_ is not None and recipe.solver.moves_alpha
        return len(self._labels) * (self.n_features_in_ + learns_alpha + recipe.intercept)

    def _parameters_to_save(self) -> dict[str, Any]:
        saved = {**super()._parameters_to_save(), "solver": to_json(self.solver)}
        if isinstance(self.class_weight, dict):  # JSON has no keys but strings.
            saved["class_weight"] = [[label, weight] for label, weight in self.class_weight.items()]
        return saved

    @classmethod
    def translated(cls, given: dict[str, Any]) -> dict[str, Any]:
        """As in every method; options of solvers are in the solver."""
        return without_options(given)

    @classmethod
    def _decoded(cls, saved: dict[str, Any]) -> dict[str, Any]:
        weights = saved.get("class_weight")
        if isinstance(weights, list):
            saved = {**saved, "class_weight": dict(weights)}
        return super()._decoded({**saved, "solver": from_json(saved.get("solver"))})

    @classmethod
    def _with_parameters(cls, saved: dict[str, Any]) -> Self:
        # Earlier versions let options pass that the solver does not have.
        return cls(**without_options(cls._decoded(saved), strict=False))

    def _restore(self, arrays: dict[str, Array], scalars: dict[str, Any], classes: np.ndarray[Any, Any]) -> None:
        super()._restore(arrays, scalars, classes)
        if (self.alpha_ is None) != (self.text_ is None):
            raise ValueError("alpha_ without text_, or text_ without alpha_")
        self._check_uncertainty()
        columns = self.history_.columns
        if not set(columns) <= set(COLUMNS):
            raise ValueError(f"the history has columns {sorted(columns)}")
        self.history_.columns = {name: columns.get(name, []) for name in COLUMNS}

    @property
    def prototypes_(self) -> Array:
        """The visual part of the weights, w_k = coef_ - α_k t_k."""
        check_is_fitted(self)
        if self.text_ is None:
            return self.coef_
        return self.coef_ - self.alpha_[:, None] * self.text_  # type: ignore[index]
