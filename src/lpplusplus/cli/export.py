"""`lpp export`: a classifier as one ONNX file. `lpp push` and `lpp pull`: classifiers on the Hugging Face hub."""

import shutil
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from .console import bar, remark, say, show_json, warn
from .options import AllowNetwork, ModelFile, NewModel, OtherSpec, need, open_model
from .outputs import check_file, check_model


def export(
    model: ModelFile,
    output: Annotated[Path, Option("--output", "-o", help="File to write (.onnx).")],
    head_only: Annotated[
        bool, Option("--head-only", help="Without the encoder: embeddings in, probabilities out.")
    ] = False,
    int8: Annotated[bool, Option("--int8", help="The encoder's weights in eight bits: smaller, less exact.")] = False,
    programs: Annotated[bool, Option(help="Also write a Python program and a page that use the file.")] = True,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
) -> None:
    """Write a classifier as one ONNX file that takes a photo and gives probabilities, for onnxruntime everywhere.

    Beside birds.onnx it writes birds.py (numpy, Pillow and onnxruntime are all it needs) and birds.onnx.html (a page
    that classifies photos in the browser).

    Examples
    --------
    lpp export birds.lpp -o birds.onnx
    lpp export birds.lpp -o birds.onnx --int8
    lpp export birds.lpp -o head.onnx --head-only
    """
    need("export", "onnx")
    from ..deploy.export import export_onnx, program_paths, write_programs

    wanted = programs and not head_only
    check_file(output, "-o", "an export", [".onnx"])
    for path in program_paths(output) if wanted else ():
        check_file(path, "-o", "an export", remedy="choose another name for -o, or leave it out with --no-programs")
    from .._core.model_file import load
    from ..images.classifier import ImageClassifier

    method = load(model)
    images = "images" in method.metadata_
    clf = open_model(model, encoder, allow_network) if images else method
    with bar("Exporting") as progress:
        made = export_onnx(clf, output, head_only=head_only, int8=int8, progress=progress)
    if made.why_head_only and not head_only:
        warn(f"{output} takes embeddings, not photos: {made.why_head_only}.")
    written = [output]
    if isinstance(clf, ImageClassifier) and not made.why_head_only and wanted:
        written += write_programs(output, [str(label) for label in clf.classes_.tolist()])
    show_json(
        {
            "files": [str(path) for path in written],
            "input": made.takes,
            "classes": len(method.classes_),
            "bytes": made.bytes,
            "difference": made.difference,
            "metadata": made.metadata,
        }
    )
    takes = "a photo of any size" if made.takes == "image" else f"embeddings of {method.n_features_in_} dimensions"
    say(f"[bold]{{}}[/]: {made.bytes / 1e6:.1f} MB, takes {takes}, gives {len(method.classes_)} probabilities", output)
    say(f"checked: on made-up inputs it differs from the classifier by at most {made.difference:.1g} in probability")
    if len(written) > 1:
        program, page = written[1:]
        say("beside it: [bold]{}[/] (python {} photo.jpg) and [bold]{}[/] (a page; it needs onnxruntime-web beside it)",
            program, program, page)  # fmt: skip


Repository = Annotated[str, Argument(help="Repository on the hub, such as me/birds.")]


def push(
    model: ModelFile,
    repository: Repository,
    private: Annotated[bool, Option("--private", help="Make a new repository private.")] = False,
    branch: Annotated[str | None, Option(help="Branch to push to.", show_default="main")] = None,
    message: Annotated[
        str, Option("--message", "-m", help="Message of the commit.")
    ] = "Upload a classifier of lpplusplus",
    card: Annotated[bool, Option(help="Whether to write the model card over what is there.")] = True,
) -> None:
    """Upload a classifier to the Hugging Face hub, with a model card of what training found.

    Log in first, with `hf auth login`.

    Examples
    --------
    lpp push birds.lpp me/birds --private
    lpp push birds.lpp me/birds -m "Two more species" --no-card
    """
    from .._core.model_file import load
    from ..images.hub import push as push_to_hub

    classifier = load(model)
    with bar("Uploading"):
        commit = push_to_hub(
            classifier,
            repository,
            private=True if private else None,
            revision=branch,
            commit_message=message,
            ignore_patterns=None if card else ["README.md"],
        )
    show_json({"model": str(model), "repository": repository, "commit": commit})
    say("[bold]{}[/] is on the hub: {}", model, commit)


def pull(
    repository: Repository,
    output: NewModel,
    revision: Annotated[str | None, Option(help="Branch, tag or commit.", show_default="main")] = None,
) -> None:
    """Download a classifier from the Hugging Face hub. The file is checked; its encoder is not opened.

    Examples
    --------
    lpp pull me/birds -o birds.lpp
    lpp pull me/birds -o birds.lpp --revision v2
    """
    check_model(output)
    from .._core.files import atomic_write
    from .._core.model_file import load
    from ..images.hub import fetch

    with bar("Downloading"):
        found = fetch(repository, revision=revision)
    classifier = load(found)
    with open(found, "rb") as source, atomic_write(output) as target:
        shutil.copyfileobj(source, target)
    labels = [str(label) for label in classifier.classes_.tolist()]
    encoder = (classifier.metadata_.get("images", {}).get("encoder") or {}).get("spec")
    show_json({"model": str(output), "repository": repository, "classes": labels, "encoder": encoder})
    some = ", ".join(labels[:10]) + (", …" if len(labels) > 10 else "")
    say("[bold]{}[/]: {} classes: {}", output, len(labels), some)
    if encoder:
        remark(f"It was trained with the encoder {encoder}; lpp predict opens it if it is on this machine.")
