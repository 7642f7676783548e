"""A progress bar for a training: loss, validation accuracy, time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..journal import Journal
from ..methods.finetuning import Progress


@contextmanager
def shown(progress: bool | Progress | None, name: str, history: Journal) -> Iterator[Progress | None]:
    """What to call after each epoch: the caller's own function, a bar on standard error for True, or nothing."""
    if progress is not True:
        yield progress or None
        return
    from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]  # open_clip brings it.

    with tqdm(desc=name, unit="epoch") as bar:

        def tell(done: int, total: int) -> None:
            if bar.total is None:
                bar.reset(total)
                bar.initial = bar.n = done - 1  # A resumed training has not done those before just now.
            last = {"loss": f"{history['loss'][-1]:.3f}"}
            if "validation_accuracy" in history.columns:
                last["validation"] = f"{history['validation_accuracy'][-1]:.1%}"
            bar.set_postfix(last, refresh=False)
            bar.update(done - bar.n)

        yield tell
