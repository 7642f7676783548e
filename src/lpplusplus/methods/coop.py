"""CoOp: context vectors beside the class name, learned by cross-entropy."""

from .._core.parameters import with_parameters
from .prompt_learning.prompt_learner import PromptLearner


@with_parameters
class CoOp(PromptLearner):
    """Learn M vectors to put before every class name, so that each prompt is closest to the images of its class.

    Not black-box: needs an open_clip model, whose text tower runs forward and backward for all classes at every step.
    Images are embeddings, computed once. The epoch with the best validation accuracy is kept; without validation data,
    the last. Needs `pip install "lpplusplus[torch]"` to fit; prediction needs numpy only.

    Hand-written prompts are `text` in `fit`, else `templates`. CoOp only keeps them, as `text_`; `KgCoOp` and
    `ProGrad` train with them.

    Parameters
    ----------
    encoder : str or OpenClipEncoder
        The model that the images were embedded with: "open_clip:ARCH/PRETRAINED", or opened already.
    class_names : list of str, optional
        What prompts call the classes, in the order of `classes` in `fit`. By default the labels, which must then be
        names that read differently; given names may repeat.
    templates : str or sequence of str
        Hand-written prompts, with {} for the name.
    n_context : int, optional
        M; by default 16, or the number of words of `context_init`. If M is larger, the words are the last vectors, with
        zeros before them.
    class_specific : bool
        Learn separate vectors for each class, rather than the same for all.
    class_position : {"end", "middle", "front"}
        Where the name stands.
    context_init : str, optional
        A phrase to begin with, such as "a photo of a"; by default noise of standard deviation 0.02. As in the authors'
        program, words are counted at spaces: "pet, a" is two words but three tokens, so the context begins at the first
        two, and the last one stays as it is, before the name.
    epochs : int, optional
        By default 50 for one shot, 100 for less than eight, 200 from there on.
    batch_size : int
    learning_rate, momentum, weight_decay : float
        Parameters of SGD; the learning rate falls along a cosine, epoch by epoch.
    warm_up : float, optional
        Learning rate of the first epoch.
    logit_scale : float, optional
        Factor of the cosines; by default the model's own, 100 for OpenAI's.
    mixed_precision : bool
        On a GPU, run the text tower in half precision, as the authors do. On a CPU it is always single.
    memory_mib : float, optional
        Memory for the text tower's activations, in MiB. If all classes need more, they are computed in chunks, and
        twice, which takes a third more time.
    device : str, optional
        Where to open an encoder that is given by its name.
    checkpoint : path, optional
        A file that is written after each epoch. If it exists, an interrupted fit goes on from there, and ends as if it
        had not been interrupted; a file of another fit is refused.
    progress : bool or callable, optional
        True for a bar with loss, validation accuracy and time left; or a function, called as `progress(done, total)`
        after each epoch. Not saved.
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
        The model whose text tower was used.
    history_ : History
        Columns epoch, loss and validation_accuracy.

    Examples
    --------
    >>> from lpplusplus import CoOp
    >>> model = CoOp(encoder="open_clip:RN50/openai", epochs=50, progress=True)
    >>> model.fit(X, y, classes=names, X_val=X_val, y_val=y_val).score(X_test, y_test)  # doctest: +SKIP
    """
