"""`lpp map`: which photos look alike?"""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from .console import bar, say, show_json, tell_skipped, wants_json
from .options import Errors, OnError, Spec
from .outputs import PAGES, check_file

if TYPE_CHECKING:
    from ..encoders import Encoder
    from ..images.embeddings import Embeddings


def map(
    source: Annotated[Path, Argument(help="Photos, or their embeddings, as `lpp train` takes them.")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Page to write (.html), which shows the photos; needed unless --json."),
    ] = None,
    unlabelled: Annotated[Path | None, Option(help="More photos, without labels; they are grey.")] = None,
    umap: Annotated[bool, Option("--umap", help="Draw it with UMAP (pip install umap-learn) instead of PCA.")] = False,
    most: Annotated[int, Option(min=3, help="Photos on it at most, evenly chosen of all.")] = 2000,
    encoder: Spec = None,
    on_error: Errors = OnError.stop,
) -> None:
    """Draw a map of photos: those that look alike to the encoder are close; colours are classes.

    Examples
    --------
    lpp map photos/ -o map.html
    lpp map photos.features --umap -o map.html
    lpp map birds/ --unlabelled birds/unsorted -o map.html
    lpp map photos/ --json > places.json
    """
    if output is None and not wants_json():
        raise typer.BadParameter("name a page to write, such as -o map.html; or ask for --json.", param_hint="-o")
    if output is not None:
        check_file(output, "-o", "a map", PAGES)
    from .._core.files import atomic_write
    from ..images.projection import FEWEST, has_umap, pca
    from ..images.projection import umap as draw
    from ..images.report import map_page

    if umap and not has_umap():
        raise typer.BadParameter("this needs umap-learn: pip install umap-learn", param_hint="--umap")
    found = _embedded(source, unlabelled, encoder, on_error)
    skipped = tell_skipped(found.skipped)
    chosen, count = found.subset(slice(None, None, -(-len(found) // most))), len(found)
    if len(chosen) < FEWEST:
        raise ValueError(f"{source} has {count} image(s) that can be read: a map needs {FEWEST}.")
    if umap:
        with bar("Drawing") as progress:
            xy, kind = draw(chosen.rows, progress), "UMAP"
    else:
        xy, kind = pca(chosen.rows), "PCA"
    if output is not None:
        about = f"Photos that look alike to the encoder are close ({kind})." + (
            "" if len(chosen) == count else f" {len(chosen)} of {count} photos are drawn."
        )
        with bar("Making the page") as progress:
            page = map_page(chosen, xy, about, progress)
        with atomic_write(output) as file:
            file.write(page.encode())
    assert chosen.labels is not None
    labels = [label or None for label in chosen.labels.tolist()]
    points = [
        {"path": path, "label": label, "x": x, "y": y}
        for path, label, (x, y) in zip(chosen.paths, labels, xy.tolist(), strict=True)
    ]
    show_json({"kind": kind, "points": points, "images": count, "skipped": skipped,
               "output": None if output is None else str(output)})  # fmt: skip
    say("[bold]{}[/]: {} of {} photos, by {}; open it in a browser", output, len(chosen), count, kind)


def _embedded(source: Path, unlabelled: Path | None, encoder: str | None, on_error: OnError) -> "Embeddings":
    """Photos with their labels, and those without a label, whose label is empty."""
    import numpy as np

    from ..encoders import DEFAULT_ENCODER, open_encoder
    from ..images.opening import embed_source, open_source
    from ..images.training_data import stacked

    @cache
    def opened() -> "Encoder":
        return open_encoder(encoder or DEFAULT_ENCODER)

    with bar("Embedding") as progress:
        photos = open_source(source, allow_empty=True, part="train")
        found = embed_source(photos, opened, on_error=on_error.value, progress=progress)
        if unlabelled is None:
            return found
        photos = open_source(unlabelled, labels=False, allow_empty=True, part="test")
        more = embed_source(photos, opened, required_origin=found.origin, owner=found.source, on_error=on_error.value,
                            progress=progress)  # fmt: skip
    return stacked([found, replace(more, labels=np.full(len(more), ""))])
