"""Small images that the project draws itself: what the encoder `drawings` knows.

Shapes, colours, textures, counts, layouts and backgrounds, in two domains: "plain", which the model is trained on, and
"shifted" (sketch-like strokes, other papers, clutter, noise), which it never sees. Needs Pillow.

>>> import numpy as np
>>> from lpplusplus.images.drawings import Scene, Thing, render
>>> render(Scene(Thing("star", "red")), np.random.default_rng(0)).size
(128, 128)
"""

from .demo import DemoClass, demo_classes, write_demo
from .rendering import DOMAINS, render
from .scene import Scene, Thing

__all__ = ["DOMAINS", "DemoClass", "Scene", "Thing", "demo_classes", "render", "write_demo"]
