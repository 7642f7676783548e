"""`lpp export`: a classifier as one ONNX file, with two small programs that use it."""

from pathlib import Path
from typing import Annotated

from typer import Option

from .console import bar, say, show_json, warn
from .options import AllowNetwork, Json, ModelFile, OtherSpec, need, open_model
from .outputs import check_file


def export(
    model: ModelFile,
    output: Annotated[Path, Option("--output", "-o", help="File to write (.onnx).")],
    head_only: Annotated[
        bool, Option("--head-only", help="Leave the encoder out: embeddings in, probabilities out.")
    ] = False,
    int8: Annotated[
        bool, Option("--int8", help="Store the encoder's weights in eight bits: smaller, a little less exact.")
    ] = False,
    programs: Annotated[
        bool, Option("--programs/--no-programs", help="Also write a Python program and a page that use the file.")
    ] = True,
    encoder: OtherSpec = None,
    allow_network: AllowNetwork = False,
    as_json: Json = False,
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
    if as_json:
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
        return
    takes = "a photo of any size" if made.takes == "image" else f"embeddings of {method.n_features_in_} dimensions"
    say(
        "[bold]{}[/]: {} MB, takes {}, gives {} probabilities",
        output,
        f"{made.bytes / 1e6:.1f}",
        takes,
        len(method.classes_),
    )
    say(
        "checked: on made-up inputs it differs from the classifier by at most {} in probability",
        f"{made.difference:.1g}",
    )
    if len(written) > 1:
        program, page = written[1:]
        say("beside it: [bold]{}[/] (python {} photo.jpg) and [bold]{}[/] (a page; it needs onnxruntime-web beside it)",
            program, program, page)  # fmt: skip
