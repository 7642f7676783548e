"""Outlines of shapes: polygons in a box of [-1, 1] × [-1, 1], y downwards, each adding area or taking it away."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Stroke = tuple[Points, bool]
"""A closed polygon, (n, 2), and whether it adds area (True) or cuts it out."""


def arc(radius: float, x: float = 0, y: float = 0, start: float = 0, end: float = 360, squash: float = 1) -> Points:
    """Points of an arc, or of a whole ellipse."""
    turn = np.radians(np.linspace(start, end, max(8, int(abs(end - start) / 9)), endpoint=abs(end - start) < 360))
    return np.stack([x + radius * np.cos(turn), y + squash * radius * np.sin(turn)], axis=1)


def regular(corners: int, radius: float = 1) -> Points:
    """A regular polygon, one corner up."""
    turn = 2 * np.pi * np.arange(corners) / corners - np.pi / 2
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)


def _spikes(points: int, inner: float) -> Points:
    turn = np.pi * np.arange(2 * points) / points - np.pi / 2
    radius = np.where(np.arange(2 * points) % 2, inner, 1.0)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)


def box(left: float, top: float, right: float, bottom: float) -> Points:
    """A rectangle."""
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)])


def polygon(*corners: tuple[float, float]) -> Points:
    """A polygon by its corners."""
    return np.array(corners, dtype=float)


def ribbon(path: Points, width: float) -> Points:
    """The outline of a line of that width along `path`."""
    along = np.gradient(path, axis=0)
    normal = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.linalg.norm(along, axis=1, keepdims=True)
    return np.concatenate([path + width / 2 * normal, (path - width / 2 * normal)[::-1]])


def _heart() -> list[Stroke]:
    t = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return [(np.stack([np.sin(t) ** 3, -(y + 2.5) / 15], axis=1), True)]


def _spiral() -> list[Stroke]:
    t = np.linspace(0.6, 5.2 * np.pi, 110)
    path = (t / t[-1] * 0.88)[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1)
    return [(ribbon(path, 0.19), True)]


OUTLINES: dict[str, Callable[[], list[Stroke]]] = {
    "circle": lambda: [(arc(1), True)],
    "square": lambda: [(box(-0.85, -0.85, 0.85, 0.85), True)],
    "triangle": lambda: [(regular(3), True)],
    "star": lambda: [(_spikes(5, 0.42), True)],
    "heart": _heart,
    "cross": lambda: [(box(-0.3, -0.95, 0.3, 0.95), True), (box(-0.95, -0.3, 0.95, 0.3), True)],
    "ring": lambda: [(arc(1), True), (arc(0.58), False)],
    "diamond": lambda: [(polygon((0, -1), (0.68, 0), (0, 1), (-0.68, 0)), True)],
    "arrow": lambda: [
        (polygon((-1, -0.25), (0.1, -0.25), (0.1, -0.7), (1, 0), (0.1, 0.7), (0.1, 0.25), (-1, 0.25)), True)
    ],
    "spiral": _spiral,
    "house": lambda: [
        (box(-0.7, -0.15, 0.7, 0.95), True),
        (polygon((-1, -0.15), (0, -0.95), (1, -0.15)), True),
        (box(-0.18, 0.4, 0.18, 0.95), False),
    ],
    "tree": lambda: [
        (box(-0.16, 0.4, 0.16, 1), True),
        (polygon((0, -1), (0.6, -0.1), (-0.6, -0.1)), True),
        (polygon((0, -0.6), (0.8, 0.5), (-0.8, 0.5)), True),
    ],
    "fish": lambda: [
        (arc(0.72, -0.25, 0, squash=0.68), True),
        (polygon((0.3, 0), (1, -0.55), (1, 0.55)), True),
        (arc(0.1, -0.62, -0.12), False),
    ],
    "cup": lambda: [
        (arc(0.42, 0.52, -0.1), True),
        (arc(0.22, 0.54, -0.1), False),
        (polygon((-0.85, -0.75), (0.55, -0.75), (0.4, 0.8), (-0.7, 0.8)), True),
    ],
    "boat": lambda: [
        (polygon((-1, 0.3), (1, 0.3), (0.6, 0.85), (-0.6, 0.85)), True),
        (polygon((-0.05, -0.95), (-0.05, 0.15), (-0.8, 0.15)), True),
        (polygon((0.08, -0.7), (0.08, 0.15), (0.7, 0.15)), True),
    ],
    "cloud": lambda: [
        (arc(0.42, -0.55, 0.2), True),
        (arc(0.55, 0, -0.12), True),
        (arc(0.42, 0.55, 0.2), True),
        (box(-0.55, 0.15, 0.55, 0.62), True),
    ],
    "mushroom": lambda: [
        (arc(0.95, 0, 0.05, 180, 360), True),
        (polygon((-0.28, 0.05), (0.28, 0.05), (0.36, 0.9), (-0.36, 0.9)), True),
    ],
    "umbrella": lambda: [
        (arc(1, 0, 0.05, 180, 360), True),
        (ribbon(np.concatenate([polygon((0, 0), (0, 0.3)), arc(0.2, 0.2, 0.72, 180, 20)]), 0.13), True),
    ],
}
"""How each shape is made. Those of the demonstration; `tools/drawings` adds what the training shows besides."""


@cache
def parts(shape: str) -> tuple[Stroke, ...]:
    """The polygons of a shape, in drawing order."""
    if shape not in OUTLINES:
        raise ValueError(f"no shape {shape!r}: there are {', '.join(OUTLINES)}.")
    return tuple(OUTLINES[shape]())


def smooth(points: Points, step: float = 0.12) -> Points:
    """The same outline with points at most about `step` apart, so that it can be bent."""
    ahead = np.roll(points, -1, axis=0)
    pieces = np.maximum(1, np.ceil(np.linalg.norm(ahead - points, axis=1) / step).astype(int))
    return np.concatenate(
        [a + (b - a) * (np.arange(n) / n)[:, None] for a, b, n in zip(points, ahead, pieces, strict=True)]
    )
