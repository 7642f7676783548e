"""The data set "demo": the package's own images, drawn into a folder when they are first needed."""

from collections.abc import Callable
from pathlib import Path

from ...images.drawings import write_demo
from .catalog import Entry
from .splits import ImageSplits

IMAGES = {"train": 40, "val": 24, "test": 30}
"""Images per class in each split."""

DEMO = Entry(
    "demo",
    title="demo",
    folder="demo-pictures",
    reader="folder-per-class",
    templates=("a picture of a {}.",),
    options={split: split for split in IMAGES},
)


def demo_splits(root: Path, tell: Callable[[str], None]) -> ImageSplits:
    """The demonstration's splits below `root`, drawn unless they exist; `tell` is called with messages."""
    for seed, (split, count) in enumerate(IMAGES.items(), 11):
        folder = root / DEMO.below(split)
        complete = folder.with_suffix(".complete")
        if not complete.exists():
            tell(f"{DEMO.name}: drawing {count} images per class for {split}")
            write_demo(folder, count, seed=seed)
            complete.touch()
    return DEMO.splits(root)
