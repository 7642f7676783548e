"""`lpp predict`: what do these images show?"""

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .console import bar, percent, say, show_json, show_table, tell_skipped, wants_json
from .options import AllowNetwork, ModelFile, OnError, OtherSpec, open_model
from .outputs import PAGES, check_file, tell_report
from .ray import PANEL, ByEngine, Engine, EngineOption, RayAddress, RayOptions, WorkerCpus, WorkerGpus, Workers

if TYPE_CHECKING:
    from ..images.answers import Question

LISTS = (".csv", ".jsonl", ".npz", ".parquet", ".safetensors", ".zip")
"""Endings of files that contain many images. Any other file is taken for an image."""


def predict(
    model: ModelFile,
    images: Annotated[
        list[Path], Argument(help="Images; or a single folder, zip file, manifest, feature store, Parquet or arrays.")
    ],
    top: Annotated[int, Option(min=1, help="How many of the likeliest classes to show.")] = 1,
    sets: Annotated[
        float | None,
        Option(min=0, max=1, help="List every plausible class; with 0.9 the right one is listed 90 % of the time."),
    ] = None,
    none: Annotated[
        float | None,
        Option(
            min=0, max=1, help='Answer "none of these" for images of no known class; 0.05 tolerates 5 % false alarms.'
        ),
    ] = None,
    other_names: Annotated[Path | None, Option(help="Names of other things, one per line, to help --none.")] = None,
    nearest: Annotated[int, Option(min=0, help="Also name this many training images that it looks most like.")] = 0,
    only: Annotated[list[str] | None, Option(help="A class that the images can show; repeat it for each.")] = None,
    prior: Annotated[
        str | None, Option(help='CSV file of class,count: how frequent classes are here; or "auto": find it out.')
    ] = None,
    parents: Annotated[
        Path | None, Option(help="CSV file of class,parent: also give the probability of each parent.")
    ] = None,
    back_off: Annotated[
        float | None, Option(min=0, max=1, help="With --parents: answer by the parent where no class is this probable.")
    ] = None,
    why: Annotated[
        Path | None, Option(help="Page that shows on each photo what speaks for the answer, and for the runner-up.")
    ] = None,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    on_error: ByEngine = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder or address for answers.", rich_help_panel=PANEL)
    ] = None,
    engine: EngineOption = Engine.local,
    ray_address: RayAddress = None,
    workers: Workers = None,
    worker_cpus: WorkerCpus = 1,
    worker_gpus: WorkerGpus = 0,
    as_csv: Annotated[
        bool, Option("--csv", help="Print CSV: path, rank, label, probability; set, none, nearest.")
    ] = False,
) -> None:
    """Classify images.

    Examples
    --------
    lpp predict birds.lpp new/*.jpg --top 3
    lpp predict birds.lpp new/ --csv > answers.csv
    lpp predict birds.lpp new/ --sets 0.9 --none 0.05
    lpp predict birds.lpp new.jpg --nearest 4
    lpp predict birds.lpp new.jpg --why why.html
    lpp predict birds.lpp new/ --only robin --only wren --prior counts.csv
    lpp predict birds.lpp new/ --parents families.csv --back-off 0.8
    lpp predict birds.lpp s3://bucket/new --engine ray -o s3://bucket/answers --top 3
    """
    _check_choices(images, as_csv, why)
    others = _names(other_names, none)
    from .._core.files import atomic_write
    from ..images.answers import Question, answers
    from ..images.prior import read_counts, read_parents
    from ..images.report import why_page

    kinds = None if parents is None else read_parents(parents)
    question = Question(top, sets, none, tuple(others), nearest, tuple(only or ()), parents=kinds, back_off=back_off)
    if prior is not None:
        question = replace(question, prior="auto" if prior == "auto" else read_counts(Path(prior)))
    if engine is Engine.ray or output is not None:
        if engine is not Engine.ray or output is None or len(images) != 1:
            raise typer.BadParameter("name one folder or address, --engine ray and -o together.", param_hint="--engine")
        RayOptions.refuse(nearest=nearest, prior=prior, why=why)
        ray = RayOptions(ray_address, workers, worker_cpus, worker_gpus)
        _on_ray(ray, model, images[0], output, question, on_error, encoder=encoder, allow_network=allow_network)
        return
    clf = open_model(model, encoder, allow_network, on_error or OnError.stop)
    with bar("Classifying") as clf.progress:
        found = clf.embed(images[0] if _is_single(images) else images)
        said = answers(clf, found, question)
        told = said.as_dicts(top)
    if why is not None:
        with bar("Looking for reasons") as progress, atomic_write(why) as file:
            file.write(why_page(clf, said, progress).encode())
    skipped = tell_skipped(found.skipped)
    show_json({"predictions": told, "skipped": skipped} | ({} if why is None else {"why": str(why)}))
    if as_csv:
        _write_csv(told)
    else:
        _show(told, min(top, len(clf.classes_)), question)
    tell_report(why)


def _check_choices(images: list[Path], as_csv: bool, why: Path | None) -> None:
    if as_csv and wants_json():
        raise typer.BadParameter("choose one of --json and --csv.")
    folders = [path for path in images if path.is_dir()]
    if folders and len(images) > 1:
        raise typer.BadParameter(f"{folders[0]} is a folder: name a single folder, or images.", param_hint="images")
    if why is not None:
        check_file(why, "--why", "a report", PAGES)


def _is_single(images: list[Path]) -> bool:
    """Whether it is one path that stands for many images."""
    from ..images.parquet.addresses import is_address

    return len(images) == 1 and (images[0].is_dir() or images[0].suffix.lower() in LISTS or is_address(images[0]))


def _on_ray(
    ray: RayOptions,
    model: Path,
    images: Path,
    output: Path,
    question: "Question",
    on_error: OnError | None,
    **opening: Any,
) -> None:
    done = ray.predict(model, images, output, question, on_error, **opening)
    show_json(done)
    say(f"[bold]{{}}[/]: answers for {done['images']} images, {done['reused']} of them there already, "
        f"{len(done['skipped'])} skipped", done["answers"])  # fmt: skip


def _show(answers: list[dict[str, Any]], top: int, question: "Question") -> None:
    """Print a table."""
    asked = {
        "may be": question.sets, "": question.none, "looks like": question.nearest or None,
        "is a": question.parents, "answer": question.back_off,
    }  # fmt: skip
    extra = [head for head, given in asked.items() if given is not None]
    rows = []
    for answer in answers:
        cells = [answer["path"]]
        cells += [f"{guess['label']} {percent(guess['probability'])}" for guess in answer["top"]]
        if "set" in answer:
            cells.append(", ".join(answer["set"]) or "no class")
        if "none_of_these" in answer:
            cells.append("none of these" if answer["none_of_these"] else "")
        if "nearest" in answer:
            cells.append(", ".join(answer["nearest"]))
        if "parents" in answer:
            cells.append(", ".join(f"{one['label']} {percent(one['probability'])}" for one in answer["parents"]))
        if "answer" in answer:
            cells.append(answer["answer"]["label"])
        rows.append(cells)
    show_table("", ("image", *(f"{rank}." for rank in range(1, top + 1)), *extra), rows)


def _write_csv(answers: list[dict[str, Any]]) -> None:
    """A row per image and rank. Other answers are repeated in each row; parts of lists are separated by |."""
    extra = [name for name in ("set", "none_of_these", "nearest", "answer") if answers and name in answers[0]]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["path", "rank", "label", "probability", *extra])
    for answer in answers:
        more = [_cell(answer[name]) for name in extra]
        for rank, guess in enumerate(answer["top"], 1):
            writer.writerow([answer["path"], rank, guess["label"], f"{guess['probability']:.6f}", *more])


def _cell(value: bool | list[str] | dict[str, Any]) -> str:
    if isinstance(value, dict):
        return str(value["label"])
    return str(value).lower() if isinstance(value, bool) else "|".join(value)


def _names(path: Path | None, none: float | None) -> list[str]:
    """Names of other things, from a text file."""
    if path is None:
        return []
    if none is None:
        raise typer.BadParameter("give --none as well, such as --none 0.05.", param_hint="--other-names")
    try:
        names = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read as text ({error}).", param_hint="--other-names") from error
    if not names:
        raise typer.BadParameter(f"{path} has no names: write one per line.", param_hint="--other-names")
    return names
