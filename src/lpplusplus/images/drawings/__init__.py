"""Small images that the project draws itself: what the encoder `drawings` knows.

Shapes, colours, textures, counts, layouts and backgrounds, in a domain that the model never saw in training
(sketch-like strokes, other papers, clutter, noise); that of its training is in `tools/drawings`. Needs Pillow.

>>> import numpy as np
>>> from lpplusplus.images.drawings import Scene, Thing, render
>>> render(Scene(Thing("star", "red")), np.random.default_rng(0)).size
(128, 128)
"""

import io
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from ..._core.files import atomic_write
from .scene import ARRANGEMENTS, BACKDROPS, COLOURS, TABLES, TEXTURES, Scene, Thing, pick, render

__all__ = ["DemoClass", "Scene", "Thing", "demo_classes", "render", "write_demo"]


@dataclass(frozen=True)
class DemoClass:
    """A concept in words with what it fixes in a scene; all else varies."""

    name: str
    shape: str
    colour: str | None = None
    texture: str | None = "plain"
    count: int = 1
    arrangement: str | None = None
    other: str | None = None
    relation: str = "inside"

    @property
    def folder(self) -> str:
        """The class's folder name: its words joined by underscores."""
        return self.name.replace(" ", "_")

    def scene(self, rng: np.random.Generator) -> Scene:
        """A random scene that shows the concept, in the middle and not small."""
        colour = self.colour or pick(tuple(COLOURS), rng)
        texture = self.texture or pick(TEXTURES, rng)
        background = pick(tuple(c for c in COLOURS if c != colour), rng)
        second = None
        if self.other is not None:
            second = Thing(self.other, pick(tuple(c for c in COLOURS if c not in (colour, background)), rng))
        return Scene(
            Thing(self.shape, colour, texture),
            count=self.count,
            arrangement=self.arrangement or pick(ARRANGEMENTS, rng),
            place="centre",
            size=pick(("medium", "large"), rng),
            other=second,
            relation=self.relation,
            background=background,
            backdrop=pick(BACKDROPS, rng),
        )


_CLASSES = tuple(DemoClass(**about) for about in TABLES["classes"])


def demo_classes() -> tuple[DemoClass, ...]:
    """The classes of the demonstration, in a fixed order."""
    return _CLASSES


def write_demo(folder: str | PathLike[str], images_per_class: int = 16, seed: int = 0, size: int = 128) -> list[Path]:
    """Write a folder of JPEG images per class, `folder/red_star/0000.jpg`, and return their paths.

    A larger set with the same seed begins with the same images.
    """
    if images_per_class < 1:
        raise ValueError(f"images_per_class is {images_per_class}: ask for at least 1.")
    written = []
    for index, concept in enumerate(_CLASSES):
        place = Path(folder) / concept.folder
        place.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng((seed, index))
        for number in range(images_per_class):
            path, content = place / f"{number:04d}.jpg", io.BytesIO()
            render(concept.scene(rng), rng, size).save(content, "JPEG", quality=92)
            with atomic_write(path) as file:
                file.write(content.getvalue())
            written.append(path)
    return written
