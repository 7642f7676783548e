"""Shapes that the training of the demonstration model shows besides those of the demonstration itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lpplusplus.images.drawings.scene import OUTLINES, Stroke, arc, box, polygon, regular, ribbon


def _drop() -> list[Stroke]:
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    return [(np.stack([0.85 * np.sin(t) * np.sin(t / 2) ** 1.5, -np.cos(t)], axis=1), True)]


def _wave() -> list[Stroke]:
    x = np.linspace(-0.95, 0.95, 60)
    return [(ribbon(np.stack([x, 0.38 * np.sin(3 * np.pi * x)], axis=1), 0.3), True)]


def _sun() -> list[Stroke]:
    rays = [polygon((-0.09, -0.66), (0, -1), (0.09, -0.66)) for _ in range(8)]
    turned = [ray @ _rotation(2 * np.pi * k / 8).T for k, ray in enumerate(rays)]
    return [(arc(0.55), True), *((ray, True) for ray in turned)]


def _flower() -> list[Stroke]:
    t = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    radius = 0.72 + 0.28 * np.cos(6 * t)
    return [(radius[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1), True), (arc(0.2), False)]


def _gear() -> list[Stroke]:
    t = np.linspace(0, 2 * np.pi, 128, endpoint=False)
    radius = np.where(np.cos(8 * t) > 0, 1.0, 0.76)
    return [(radius[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1), True), (arc(0.34), False)]


def _rotation(angle: float) -> NDArray[np.float64]:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([(c, -s), (s, c)])


OUTLINES.update(
    {
        "hexagon": lambda: [(regular(6), True)],
        "crescent": lambda: [
            # Two arcs that meet: of the unit circle, and of one of radius 0.85 around (0.5, 0).
            (np.concatenate([arc(1, 0, 0, 58.2, 301.8), arc(0.85, 0.5, 0, 271.85, 88.15)]), True)
        ],
        "drop": _drop,
        "wave": _wave,
        "flower": _flower,
        "sun": _sun,
        "gear": _gear,
        "key": lambda: [
            (arc(0.42, -0.55, 0), True),
            (arc(0.2, -0.55, 0), False),
            (box(-0.18, -0.11, 0.95, 0.11), True),
            (box(0.45, 0.1, 0.6, 0.42), True),
            (box(0.75, 0.1, 0.9, 0.42), True),
        ],
        "bolt": lambda: [
            (
                polygon((0.15, -1), (-0.6, 0.15), (-0.08, 0.15), (-0.25, 1), (0.6, -0.25), (0.05, -0.25), (0.45, -1)),
                True,
            )
        ],
        "bell": lambda: [
            (
                np.concatenate(
                    [arc(0.5, 0, -0.35, 180, 360), polygon((0.6, 0.3), (0.9, 0.6), (-0.9, 0.6), (-0.6, 0.3))]
                ),
                True,
            ),
            (arc(0.18, 0, 0.75), True),
        ],
    }
)
SHAPES = (
    "circle", "square", "triangle", "star", "heart", "cross", "ring", "diamond", "hexagon", "crescent", "arrow",
    "spiral", "drop", "wave", "flower", "sun", "gear", "house", "tree", "fish", "cup", "boat", "cloud", "mushroom",
    "umbrella", "key", "bolt", "bell",
)  # fmt: skip
"""All shapes. The model was trained with scenes that are chosen at random from them in this order."""
