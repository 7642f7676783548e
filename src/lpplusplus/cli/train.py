"""`lpp train`: a folder of images in, a classifier out."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .console import bar, in_words, percent, remark, say, show_json, show_table, tell_skipped, wants_json, warn
from .options import AllowNetwork, ClassFile, Errors, NewModel, OnError, Report, Seed, Shots, Spec, Store, Views
from .outputs import check_model, check_report, check_store, make_report, tell_report
from .ray import Engine, EngineOption, RayAddress, RayOptions, WorkerCpus, WorkerGpus, Workers

if TYPE_CHECKING:
    from .._core.base import FewShotClassifier
    from ..images.classifier import ImageClassifier
    from ..images.embeddings import Embeddings
    from ..images.insight import Insight
    from ..images.sources.image_set import ImageSet

METHODS = {
    "lp++": "LPPlusPlus",
    "zero-shot": "ZeroShot",
    "probe": "LinearProbe",
    "tip-adapter": "TipAdapter",
    "tip-adapter-f": "TipAdapterF",
    "tip-adapter-f*": "TipAdapterFStar",
    "clip-adapter": "ClipAdapter",
}
"""Short names of methods; all others are named by their class."""
SUBJECTS = "@photo, @satellite, @texture, @food, @pet, @car, @plane, @action, @medical"
"""Subjects of `encoders.class_text`, which is not imported for --help."""


def train(
    source: Annotated[
        Path, Argument(help="Folder per class, .zip, manifest, feature store, .parquet, .npz or .safetensors.")
    ],
    output: NewModel,
    encoder: Spec = None,
    template: Annotated[
        list[str] | None,
        Option(
            "--template",
            "-t",
            help="Sentence with {} for the class name; of several, the images decide how much each counts. Or those of "
            f'a subject: {SUBJECTS}. By default "a photo of a {{}}."',
        ),
    ] = None,
    classes: ClassFile = None,
    val: Annotated[Path | None, Option(help="Validation images, of any kind that SOURCE can be. Not needed.")] = None,
    unlabelled: Annotated[
        Path | None, Option(help="Images without labels; used if held-out images gain by it.")
    ] = None,
    shots: Shots = None,
    seed: Seed = 0,
    report: Report = None,
    views: Views = 0,
    store: Store = None,
    method: Annotated[
        str,
        Option(
            help=f"One of {', '.join(METHODS)}, or the name of a class such as LPPlusPlus.",
            autocompletion=lambda: list(METHODS),
        ),
    ] = "lp++",
    allow_empty: Annotated[
        bool, Option("--allow-empty", help="Keep empty class folders as classes known by name.")
    ] = False,
    support: Annotated[
        bool, Option(help="Keep the photos' embeddings in the file: without them it cannot be changed or checked.")
    ] = True,
    allow_network: AllowNetwork = False,
    on_error: Errors = OnError.stop,
    engine: EngineOption = Engine.local,
    ray_address: RayAddress = None,
    workers: Workers = None,
    worker_cpus: WorkerCpus = 1,
    worker_gpus: WorkerGpus = 0,
) -> None:
    """Train a classifier on a few labelled images per class.

    Examples
    --------
    lpp train photos/ -o birds.lpp
    lpp train photos/ -o birds.lpp --report birds.html
    lpp train photos/ -o birds.lpp --unlabelled more/
    lpp train photos/ -o birds.lpp -e onnx:immich-app/ViT-B-32__openai
    lpp train photos/ -o birds.lpp -t "a photo of a {}, a type of bird."
    lpp train tiles/ -o land.lpp -t @satellite -t "a map of a {}."
    lpp train s3://bucket/features -o birds.lpp --engine ray
    """
    kind = _method(method)
    check_model(output, [path for path in (source, val, classes, unlabelled) if path is not None])
    check_report(report, output)
    if store is not None:
        check_store(store, source, encoder, views, "--store")
    from ..encoders.class_text import DEFAULT_TEMPLATE
    from ..images.sources.class_names import read_class_names

    sentences = template or DEFAULT_TEMPLATE
    names = None if classes is None else read_class_names(classes)
    if engine is Engine.ray:
        RayOptions.refuse(shots=shots, unlabelled=unlabelled, report=report, store=store, views=views)
        ray = RayOptions(ray_address, workers, worker_cpus, worker_gpus)
        clf, told = ray.train(source, encoder=encoder, template=sentences, method=kind(), names=names, val=val,
                              allow_network=allow_network)  # fmt: skip
        clf.save(output)
        _tell_of_ray(clf, told, output, method)
        return
    from ..images.classifier import ImageClassifier
    from ..images.opening import open_source

    clf = ImageClassifier(
        encoder,
        template=sentences,
        method=kind(),
        views=views,
        on_error=on_error.value,
        allow_network=allow_network,
    )
    images = open_source(source, allow_empty=allow_empty, part="train")
    to_tell = "" if names is not None else _tell_names(images)
    with bar("Embedding") as progress:
        clf.progress = lambda done, total: progress(done, total, "Embedding" if done < total else "Training")
        clf.fit(images, val=val, names=names, shots=shots, seed=seed, store=store, allow_empty=allow_empty,
                unlabelled=unlabelled)  # fmt: skip
    skipped = tell_skipped([*clf.support_.skipped, *(clf.validation_.skipped if clf.validation_ else ())])
    if template and clf.origin_ is None:
        warn(f"--template has no use: class names of {source} are not embedded here.")
    insight = checked(clf)
    _write(clf, output, support, report)
    found = clf.support_
    show_json(
        {
            **summary(clf, output),
            "method": method,
            "encoder": clf.origin_ and clf.origin_.spec,
            "images": len(found),
            "unlabelled": getattr(clf.classifier_, "n_unlabelled_", 0),
            "computed": found.computed,
            "reused": found.reused,
            "left_aside": 0,  # Of version 0.1; stores of other images are refused now.
            "ignored": found.ignored,
            **insight.as_dict(),
            "skipped": skipped,
            "report": report and str(report),
        }
    )
    tell(clf, insight, output, to_tell)
    if unlabelled is not None:
        _tell_unlabelled(clf.classifier_.n_unlabelled_)
    tell_report(report)


def _write(clf: ImageClassifier, output: Path, support: bool, report: Path | None) -> None:
    clf.save(output, support=support)
    if not support:
        _tell_bare(output)
    try:
        make_report(clf, report)
    except BaseException:
        remark(f"{output} is written, without its report: lpp check {output} --report {report} makes one.")
        raise


def _tell_unlabelled(used: int) -> None:
    gained = f"{used} of them look like these classes, and held-out images gained by them"
    say("Unlabelled images: {}.", gained if used else "not used, since held-out images did not gain by them")


def _tell_bare(output: Path) -> None:
    remark(f"{output} has no embeddings of photos: it answers, but lpp add, remove, rename, merge and check refuse it.")


def _tell_of_ray(clf: ImageClassifier, told: dict[str, Any], output: Path, method: str) -> None:
    show_json({**summary(clf, output), "method": method, "encoder": clf.origin_ and clf.origin_.spec, **told})
    say("[bold]{}[/]: {} classes from {} images, held by {} worker(s)", output, len(clf.classes_), told["images"],
        told["workers"])  # fmt: skip
    if told["accuracy"] is not None:
        say("{} of {} are answered right.", percent(told["accuracy"]), told["measured"])
    _tell_bare(output)


def _method(name: str) -> type[FewShotClassifier]:
    """The method of that name, if it can be trained on embeddings alone."""
    from .._core.model_file import method as method_named

    kind: type[FewShotClassifier] | None = method_named(METHODS.get(name, name))
    if kind is None or not kind.black_box:
        reason = f"is not one of {', '.join(METHODS)}" if kind is None else "needs the model itself: use it in Python"
        raise typer.BadParameter(f"{name!r} {reason}.", param_hint="--method")
    return kind


def checked(clf: ImageClassifier) -> Insight:
    """What was found; warns if validation images are among the training images."""
    with bar("Checking") as progress:
        insight = clf.look_into(progress)
    if insight.leaked:
        warn(
            f"{insight.leaked} of {len(clf.validation_ or ())} validation images are among the training images: what "
            f"is measured on them says nothing about new ones."
        )
    return insight


def _tell_names(images: ImageSet | Embeddings, most: int = 6) -> str:
    """Class names in prompts that differ from labels. At a terminal they are shown before training; else returned."""
    from ..images.sources import ImageSet

    if wants_json() or not isinstance(images, ImageSet):
        return ""
    changed = [f"{label} → {name}" for label, name in zip(images.classes, images.names, strict=True) if name != label]
    more = f", … ({len(changed)} in all)" if len(changed) > most else ""
    told = f"Class names for the encoder: {', '.join(changed[:most])}{more}. For other words: --classes FILE"
    if changed and sys.stderr.isatty():
        remark(told)
        return ""
    return told if changed else ""


def tell(clf: ImageClassifier, insight: Insight, output: Path, first: str = "") -> None:
    """Print what was learned, after the text `first`."""
    if first:
        say("{}", first)
    support = clf.support_
    counts = Counter([] if support.labels is None else support.labels.tolist())
    single = [label for label in support.classes if counts[label] == 1]
    others = f", as have {len(single) - 1} other classes" if len(single) > 1 else ""
    kind = "" if clf.origin_ is None else f" with {clf.origin_.spec}"
    say("[bold]{}[/]: {} classes from {} images{}", output, len(clf.classes_), len(support), kind)
    if insight.accuracy is None:
        say(
            "Accuracy not measured: {} has a single image{}, and there are no validation images (--val).",
            single[0] if single else "a class",
            others,
        )
    else:
        rows = [("this classifier", percent(insight.accuracy))]
        if insight.zero_shot_accuracy is not None:
            rows.insert(0, ("images alone", percent(insight.examples_alone_accuracy)))
            rows.insert(0, ("class names alone (zero-shot)", percent(insight.zero_shot_accuracy)))
        show_table("", (f"accuracy by {insight.measured}", ""), rows, right=("",))
        if single and insight.measured != "validation":
            say("{} has a single image{}: it could not be held out. A second one would help most.", single[0], others)
    in_words(insight)
    if clf.origin_ is not None and clf.origin_.spec == "drawings":
        say("drawings is a demonstration model of drawn shapes: for photos leave out --encoder, or name clip.")


def summary(clf: ImageClassifier, output: Path) -> dict[str, Any]:
    """What `--json` says of a classifier that was written."""
    classes = [str(label) for label in clf.classes_.tolist()]
    return {"model": str(output), "classes": classes, "names": list(clf.names_)}
