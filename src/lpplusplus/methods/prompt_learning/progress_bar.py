"""A progress bar for a training: loss, validation accuracy, time left."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..._core.history import History
from ..._core.progress import Progress


@contextmanager
def progress_bar(progress: bool | Progress | None, name: str, history: History) -> Iterator[Progress | None]:
    """What to call after each epoch: the caller's own function, a bar on standard error for True, or nothing."""
    if progress is not True:
        yield progress or None
        return
    from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]  # open_clip depends on it.

    with tqdm(desc=name, unit="epoch") as bar:

        def update(done: int, total: int) -> None:
            if bar.total is None:
                bar.reset(total)
                bar.initial = bar.n = done - 1  # Epochs done before an interruption do not count for the speed.
            last = {"loss": f"{history['loss'][-1]:.3f}"}
            if "validation_accuracy" in history.columns:
                last["validation"] = f"{history['validation_accuracy'][-1]:.1%}"
            bar.set_postfix(last, refresh=False)
            bar.update(done - bar.n)

        yield update
