"""Small pictures that the project draws itself, with captions: what the embedded demonstration model knows.

Shapes, colours, textures, counts, layouts and backgrounds, in two domains: "plain", which the model is trained on, and
"shifted" (sketch-like strokes, other papers, clutter, noise), which it never sees. Needs Pillow.

>>> import numpy as np
>>> from lpplusplus.scenes import caption, random_scene, render
>>> rng = np.random.default_rng(0)
>>> scene = random_scene(rng)
>>> render(scene, rng).size
(128, 128)
>>> isinstance(caption(scene, rng), str)
True
"""

from .captions import caption, describe
from .demo import DemoClass, demo_classes, write_demo
from .rendering import DOMAINS, render
from .scene import Scene, Thing, random_scene

__all__ = [
    "DOMAINS",
    "DemoClass",
    "Scene",
    "Thing",
    "caption",
    "demo_classes",
    "describe",
    "random_scene",
    "render",
    "write_demo",
]
