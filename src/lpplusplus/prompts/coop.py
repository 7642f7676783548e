"""CoOp: context vectors before the class name, learned by cross-entropy."""

from __future__ import annotations

from .base import PromptLearner


class CoOp(PromptLearner):
    """Learn M vectors that stand before every class's name, so that names read thus are closest to their images.

    Not black-box: needs an open_clip model, whose text tower is run forth and back for all classes at every step. The
    images are features, computed once. The epoch with the best validation accuracy is kept; without validation data,
    the last. Needs `pip install "lpplusplus[torch]"` to fit; prediction needs the saved file and numpy only.

    Labels are the class names. `text` in `fit`, else `templates`, are hand-written prompts: kept as `text_` to compare
    with, and otherwise used by `KgCoOp` and `ProGrad` only.

    Parameters
    ----------
    encoder : str or OpenClipEncoder
        The model that the images were embedded with: "open_clip:ARCH/PRETRAINED", or opened already.
    templates : str or sequence of str
        Hand-written prompts, with {} for the name.
    n_context : int, optional
        M; by default 16, or as many as `context_init` has tokens. Where that has fewer, its words are the last vectors
        and zeros come before them.
    class_specific : bool
        Vectors of its own for each class, rather than the same for all.
    class_position : {"end", "middle", "front"}
        Where the name stands.
    context_init : str, optional
        A phrase to begin with, such as "a photo of a"; by default noise of standard deviation 0.02.
    epochs : int, optional
        By default 50 for one shot, 100 below eight, 200 from there on.
    batch_size : int
    learning_rate, momentum, weight_decay : float
        Of SGD; the rate falls along a cosine, epoch by epoch.
    warm_up : float, optional
        Rate of the first epoch.
    logit_scale : float, optional
        Factor of the cosines; by default the model's own, 100 for OpenAI's.
    mixed_precision : bool
        On a GPU, run the text tower in half precision, as the authors do; on a processor it is always single.
    memory_mib : float, optional
        Memory for the text tower's activations, in MiB. Beyond it classes are taken in chunks, which are computed
        twice: a third more time.
    device : str, optional
        Where to open an encoder that is only named.
    checkpoint : path, optional
        A file that is written after each epoch. If it exists, an interrupted fit goes on from there, and ends as if it
        had not been interrupted; a file of another fit is refused.
    progress : bool or callable, optional
        True for a bar with loss, validation accuracy and time left; or a function that is told `(done, total)` after
        each epoch. Not saved.
    random_state : int, Generator, RandomState or None
        Random vectors and order of the batches.

    Attributes
    ----------
    context_ : (1 or K, M, W) array
        The vectors.
    coef_ : (K, D) array
        logit_scale_ · t_k, the resulting text classifier.
    text_ : (K, D) array
        Unit features of the hand-written prompts.
    logit_scale_ : float
    epoch_ : int
        The epoch that was kept.
    encoder_, fingerprint_ : str
        Whose text tower it was.
    history_ : Journal
        Columns epoch, loss and validation_accuracy.

    Examples
    --------
    >>> from lpplusplus import CoOp
    >>> model = CoOp(encoder="open_clip:RN50/openai", epochs=50, progress=True)
    >>> model.fit(X, y, classes=names, X_val=X_val, y_val=y_val).score(X_test, y_test)  # doctest: +SKIP
    """
