"""`lpp inspect`: what is in this file? `lpp encoders`: what can embed images here?"""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from .console import say, show_json, show_table

_TOLD = (
    "measured", "accuracy", "interval", "zero_shot_accuracy", "examples_alone_accuracy", "over_names", "over_examples",
    "weakest", "confused", "mislabelled", "doubtful_names", "twins", "repeats", "copies",
)  # fmt: skip
"""What `lpp train` found out."""


def inspect(
    path: Annotated[Path, Argument(help="A classifier or a feature store.")],
) -> None:
    """Show what a classifier or a feature store holds. Loads no encoder.

    Examples
    --------
    lpp inspect birds.lpp
    lpp inspect photos.features --json
    """
    about = _store(path) if path.is_dir() else _model(path)
    show_json(about)
    show_table(str(path), ("", ""), ((key.replace("_", " "), _short(value)) for key, value in about.items()))


def _model(path: Path) -> dict[str, Any]:
    from .._core.model_file import load
    from ..encoders.named_models import current_name

    model = load(path)
    images, insight = (_section(model.metadata_, name) for name in ("images", "insight"))
    encoder = _section(images, "encoder")
    parameters = {name: value for name, value in model.get_params(deep=False).items() if value is not None}
    return {
        "kind": "classifier",
        "method": type(model).__name__,
        "classes": [str(label) for label in model.classes_.tolist()],
        "names": images.get("names", []),
        "dim": model.n_features_in_,
        "encoder": current_name(encoder["spec"], encoder["fingerprint"]) if encoder else None,
        "encoder_fingerprint": encoder.get("fingerprint"),
        "preprocessing": encoder.get("preprocessing"),
        "templates": images.get("templates", []) if encoder else [],  # Without one, the text came with the arrays.
        "views": images.get("views"),
        "support": len(model.task_.y) if "task_" in vars(model) else None,
        **{name: insight.get(name) for name in _TOLD},
        "parameters": parameters,
        "bytes": path.stat().st_size,
    }


def _store(path: Path) -> dict[str, Any]:
    from ..images.store import FeatureStore

    store = FeatureStore(path)
    damaged = store.verify()
    return {
        "kind": "feature store",
        "images": len(store),
        "views": store.origin.views,
        "dim": store.origin.dim,
        "encoder": store.origin.spec,
        "encoder_fingerprint": store.origin.fingerprint,
        "preprocessing": store.origin.preprocessing,
        "labelled": store.labelled,
        "classes": list(store.classes),
        "damaged": damaged,
        "bytes": _bytes(path),
        "bytes_set_aside": _bytes(path / "replaced"),
    }


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def _section(about: Any, name: str) -> dict[str, Any]:
    """A part of a file's metadata; empty if it is not a dictionary, since a file may contain anything."""
    part = about.get(name) if isinstance(about, dict) else None
    return part if isinstance(part, dict) else {}


def _short(value: Any) -> str:
    if isinstance(value, list):
        between = "; " if any(isinstance(one, dict) for one in value) else ", "
        shown = between.join(_short(one) for one in value[:8])
        return shown + (f"{between}… {len(value)} in all" if len(value) > 8 else "") if value else "–"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_short(one)}" for key, one in value.items()) or "–"
    if isinstance(value, float):
        return f"{value:.3f}"
    return "–" if value is None else str(value)


def encoders(
    action: Annotated[str | None, Argument(help="pull: fetch an encoder, to use it offline later.")] = None,
    name: Annotated[str | None, Argument(help="The encoder to fetch.")] = None,
) -> None:
    """List encoders, what each is good for and whether it is here; or fetch one.

    Examples
    --------
    lpp encoders
    lpp encoders --json
    lpp encoders pull clip
    """
    from ..encoders import known_encoders, open_encoder

    if action is not None:
        if action != "pull" or name is None:
            raise typer.BadParameter("write `lpp encoders`, or `lpp encoders pull NAME`.", param_hint="encoders")
        opened = open_encoder(name)
        show_json({"encoder": opened.spec, "fingerprint": opened.fingerprint, "dim": opened.dim})
        say("{} is on this machine and needs no network from now on. Its exact name: {}", name, opened.spec)
        return
    rows = [(row, row.here() if row.usable else None) for row in known_encoders()]
    told = ("scheme", "about", "needs", "usable", "size")
    show_json([{key: getattr(row, key) for key in told} | {"here": here} for row, here in rows])
    usable = {True: "yes", False: "yes, after a download", None: "no"}
    show_table(
        "",
        ("--encoder", "what it is good for", "size", "needs", "usable here"),
        ((row.scheme, row.about, size(row.size), f"lpplusplus[{row.needs}]", usable[here]) for row, here in rows),
        right=("size",),
    )


def size(count: int | None) -> str:
    """Bytes for people.

    Examples
    --------
    >>> size(606_000_000)
    '606 MB'
    """
    return "" if count is None else f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"
