"""`lpp suggest`: which photos to label next."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from .console import add_row, bar, out, percent, say, show_json, table, tell_skipped
from .options import AllowNetwork, Errors, Json, ModelFile, OnError, OtherSpec, open_model
from .outputs import check_new_folder, check_writable

if TYPE_CHECKING:
    from ..images.suggesting import Suggestion


def suggest(
    model: ModelFile,
    source: Annotated[Path, Argument(help="Unlabelled photos: a folder, a zip file, a list.")],
    count: Annotated[int, Option("--count", "-n", min=1, help="How many photos.")] = 20,
    copy: Annotated[
        Path | None, Option(help="Copy them to this new folder, in a folder per guess, for you to correct.")
    ] = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
    as_json: Json = False,
) -> None:
    """Choose the photos that are most worth labelling: balanced over the classes they seem to be of, and diverse.

    Move wrong ones to the right folder, then `lpp add`.

    Examples
    --------
    lpp suggest birds.lpp unlabelled/ --count 20
    lpp suggest birds.lpp unlabelled/ --copy to_label/
    """
    if copy is not None:
        check_new_folder(copy, "--copy")
        check_writable(copy, "--copy")
    clf = open_model(model, encoder, allow_network, on_error)
    with bar("Embedding") as clf.progress:
        found = clf.embed(source)
    skipped = tell_skipped(found.skipped)
    chosen = clf.suggest(found, count)
    copied: list[str] = []
    if copy is not None:
        gone = [one.path for one in chosen if not Path(one.path).is_file()]
        if gone:
            raise ValueError(f"{gone[0]} is no file of its own (in an archive, or an embedding): unpack it first.")
        copied = _copy(chosen, copy)
    if as_json:
        show_json({"suggestions": [one.as_dict() for one in chosen], "copied": copied, "skipped": skipped})
        return
    shown = table("", "photo", "guess", "sure", "why", right=("sure",))
    for one in chosen:
        add_row(shown, one.path, one.guess, percent(one.probability), one.reason)
    out().print(shown)
    if copied:
        say("{} photos copied to [bold]{}[/]: move wrong ones to the right folder, then lpp add {} {}",
            len(copied), copy, model, copy)  # fmt: skip


def _copy(chosen: "list[Suggestion]", to: Path) -> list[str]:
    """Copy photos into a folder per guess; all of them or none, so that the command can be run again."""
    scratch = to.with_name(f".{to.name}.{os.getpid()}.tmp")
    names = []
    try:
        scratch.mkdir(parents=True)
        for number, one in enumerate(chosen, 1):
            label = one.guess.replace("/", "_").replace("\\", "_")
            name = Path(f"_{label}" if label in (".", "..") else label) / f"{number:04d}_{Path(one.path).name}"
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(one.path, scratch / name)
            names.append(name)
        if to.exists():
            to.rmdir()  # It is empty. Windows renames no folder onto another.
        scratch.rename(to)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return [str(to / name) for name in names]
