"""Names of a report's tables and figures, as files and anchors have them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def own_keys(keys: Iterable[str], otherwise: str) -> list[str]:
    """Keys that can be file names and differ from each other; `otherwise` where nothing of one is left.

    >>> own_keys(["Ranks", "ranks", "…"], "figure")
    ['ranks', 'ranks-2', 'figure']
    """
    found: dict[str, None] = {}
    for given in keys:
        plain = re.sub(r"[^a-z0-9]+", "-", given.casefold()).strip("-") or otherwise
        key, number = plain, 1
        while key in found:
            number += 1
            key = f"{plain}-{number}"
        found[key] = None
    return list(found)
