"""A model card from what training found."""

from typing import Any

from .._core.base import FewShotClassifier
from .embeddings import DIGEST
from .words import percent

MOST_CLASSES = 100
"""Classes that are named."""
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#{}!&~$"})


def model_card(model: FewShotClassifier, repo_id: str) -> str:
    """The card's text, in Markdown. Everything in it comes from the classifier's file."""
    images = model.metadata_.get("images", {})
    insight = model.metadata_.get("insight") or {}
    labels = [str(label) for label in model.classes_.tolist()]
    parts = [
        f"# {_plain(repo_id.rpartition('/')[2])}",
        f"Sorts images into {len(labels)} classes. Trained with [lpplusplus](https://arxiv.org/abs/2404.02285) "
        f"({type(model).__name__}) on a few labelled images per class.",
        *_use(repo_id),
        "## Classes",
        ", ".join(_plain(label) for label in labels[:MOST_CLASSES])
        + (f", and {len(labels) - MOST_CLASSES} more" if len(labels) > MOST_CLASSES else ""),
        "## Data",
        _data(images),
        "## How good it is",
        *_accuracy(insight),
        "## Encoder",
        _encoder(images),
        "## Limits",
        *_limits(insight),
    ]
    return "\n\n".join(parts) + "\n"


def _use(repo_id: str) -> list[str]:
    shell = f"lpp pull {repo_id} -o model.lpp\nlpp predict model.lpp photo.jpg"
    python = (
        "from lpplusplus.images import ImageClassifier\n\n"
        f'classifier = ImageClassifier.from_pretrained("{repo_id}")\n'
        'classifier.predict(["photo.jpg"])'
    )
    return ["## Use", f"```sh\n{shell}\n```", f"```python\n{python}\n```"]


def _data(images: dict[str, Any]) -> str:
    count = len(images.get("trained_on", "")) // (2 * DIGEST)
    said = f"{count} different images" if count else "The number of training images was not kept"
    views = images.get("views")
    return f"{said}{f', {views} random crops of each' if views else ''}. The images themselves are not in the file."


def _accuracy(insight: dict[str, Any]) -> list[str]:
    accuracy, interval = insight.get("accuracy"), insight.get("interval")
    if accuracy is None or interval is None:
        return ["Not measured."]
    rows = [f"| this classifier | {percent(accuracy)} ({percent(interval[0])} to {percent(interval[1])}) |"]
    for name, key in (("class names alone", "zero_shot_accuracy"), ("images alone", "examples_alone_accuracy")):
        if insight.get(key) is not None:
            rows.append(f"| {name} | {percent(insight[key])} |")
    found = [
        f"Accuracy by {insight['measured']}, with the 95 % confidence interval:",
        "\n".join(["| | accuracy |", "|---|---|", *rows]),
    ]
    if insight.get("weakest"):
        weak = [f"{_plain(one['label'])} ({percent(one['accuracy'])})" for one in insight["weakest"]]
        found.append(f"Weakest classes: {', '.join(weak)}.")
    if insight.get("confused"):
        pairs = [
            f"{_plain(one['truth'])} taken for {_plain(one['answer'])} ({one['images']})" for one in insight["confused"]
        ]
        found.append(f"Most often confused: {', '.join(pairs)}.")
    return found


def _encoder(images: dict[str, Any]) -> str:
    made = images.get("encoder")
    if not made:
        return "Not known: it was trained on arrays, and takes embeddings of the same kind."
    sentences = ", ".join(f"“{_plain(template)}”" for template in images.get("templates", ()))
    name = made["spec"].replace("`", "")
    return (
        f"`{name}`, {made['dim']} dimensions, fingerprint `{made['fingerprint']}`. Another model is refused. Class "
        f"names were read in {sentences}. The encoder is not in this repository; its own licence holds."
    )


def _limits(insight: dict[str, Any]) -> list[str]:
    limits = [
        "- It answers one of its classes for every image, also for one that shows none of them.",
        "- Its accuracy was measured on images like those it was trained on. Others may be recognised less well.",
    ]
    if insight.get("copies"):
        limits.append(
            f"- {insight['copies']} validation images were also training images, so the accuracy is too high."
        )
    if insight.get("mislabelled"):
        limits.append(f"- {len(insight['mislabelled'])} training images look mislabelled.")
    if insight.get("doubtful_names"):
        names = ", ".join(_plain(name) for name in insight["doubtful_names"])
        limits.append(f"- The encoder seems not to understand these class names: {names}.")
    return ["\n".join(limits)]


def _plain(text: str) -> str:
    """Text that Markdown shows as it is.

    >>> _plain("<b>reed_warbler</b>")
    '\\\\<b\\\\>reed\\\\_warbler\\\\</b\\\\>'
    """
    return " ".join(str(text).split()).translate(SPECIAL)
