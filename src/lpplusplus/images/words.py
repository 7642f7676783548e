"""What was measured, in plain words: how good, compared with what, where it errs, and what would help most."""

from collections.abc import Callable, Sequence

from .evaluation import Scores
from .insight import Insight

CLEAR = 2
"""A difference of more than this many standard errors is more than noise."""


def percent(part: float) -> str:
    """0.913 as "91.3 %"."""
    return f"{100 * part:.1f} %"


def how_good(accuracy: float, interval: tuple[float, float]) -> str:
    """One sentence on accuracy.

    >>> how_good(0.841, (0.795, 0.879))
    'About 84 of 100 new images like these should be recognised; with 95 % confidence, between 79 and 88.'
    """
    low, high = int(100 * interval[0]), -int(-100 * interval[1] // 1)
    return (
        f"About {100 * accuracy:.0f} of 100 new images like these should be recognised; with 95 % confidence, between "
        f"{low} and {high}."
    )


def compared(lead: tuple[float, float], other: float, what: str) -> str:
    """One sentence on another way to classify the same images: ahead, behind, or no clear difference.

    >>> compared((0.29, 0.03), 0.551, "the class names alone")
    'That is 29.0 points better than the class names alone (55.1 %).'
    >>> compared((-0.01, 0.02), 0.85, "the images alone")
    'No clear difference from the images alone (85.0 %).'
    """
    difference, error = lead
    if abs(difference) <= CLEAR * error or difference == 0:
        return f"No clear difference from {what} ({percent(other)})."
    which = "better" if difference > 0 else "worse"
    return f"That is {abs(100 * difference):.1f} points {which} than {what} ({percent(other)})."


def summary(insight: Insight) -> list[str]:
    """How good a training was; nothing if that was not measured."""
    if insight.accuracy is None or insight.interval is None:
        return []
    told = [how_good(insight.accuracy, insight.interval)]
    if insight.over_names is not None and insight.zero_shot_accuracy is not None:
        told.append(compared(insight.over_names, insight.zero_shot_accuracy, "the class names alone"))
    if insight.over_examples is not None and insight.examples_alone_accuracy is not None:
        told.append(compared(insight.over_examples, insight.examples_alone_accuracy, "the images alone"))
    return told + _confused([(one.truth, one.answer, one.images) for one in insight.confused[:3]])


def advice(insight: Insight, path: Callable[[str], str] = str) -> list[tuple[str, list[str]]]:
    """What would help, the most useful first: a heading, and lines about it; `path` is how paths are written."""
    found = []
    if insight.misplaced_names:
        swapped = [f"{label} (its photos fit the name of {other})" for label, other in insight.misplaced_names.items()]
        found.append(
            ("The names seem to be in another order than the classes:", [f"{', '.join(swapped[:5])}. See --classes."])
        )
    if insight.mislabelled:
        odd = [f"{path(one.path)} ({one.label}, looks like {one.answer})" for one in insight.mislabelled[:5]]
        found.append(("Images that look mislabelled:", [*odd, "Have a look: a wrong label costs most."]))
    for both in insight.duplicates_of_two_classes:
        pair = f"{path(both.first)} ({both.first_label}) and {path(both.second)} ({both.second_label})"
        found.append(("Almost the same image in two classes:", [f"{pair}, likeness {both.likeness}"]))
    if insight.duplicate_count:
        said = (
            f"{insight.duplicate_count} times, within a class. The second teaches little. lpp check shows the closest."
        )
        found.append(("Almost the same image twice:", [said]))
    if insight.weakest:
        weak = ", ".join(f"{one.label} ({percent(one.accuracy)} of {one.images})" for one in insight.weakest)
        found.append(("Weakest classes:", [f"{weak}. More, or clearer, examples would help most here."]))
    if insight.doubtful_names:
        many = len(insight.doubtful_names)
        names = ", ".join(insight.doubtful_names[:40]) + (f", … ({many} in all)" if many > 40 else "")
        remedy = "Try other words with --classes, or another --template."
        found.append(("Names that the encoder seems not to understand:", [f"{names}. {remedy}"]))
    return found


def by_background(labels: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Advice about classes that may be recognised by the background of their photos.

    >>> by_background(["cat"])[0][1]
    ['cat. What speaks for it lies at the border of most of its photos. Add photos of it in other places.']
    """
    if not labels:
        return []
    remedy = "What speaks for it lies at the border of most of its photos. Add photos of it in other places."
    return [("It may be looking at the background:", [f"{', '.join(labels)}. {remedy}"])]


def evaluated(scores: Scores) -> list[str]:
    """How good an evaluation was. Images that were trained on say nothing about new ones."""
    told = [] if scores.trained_on else [how_good(scores.accuracy, scores.interval)]
    return told + _confused(scores.confused(3))


def seen_before(trained_on: int, images: int) -> str:
    """The warning about images that were trained on."""
    return (
        f"{trained_on} of {images} images were trained on: what is measured on them says nothing about new ones. Use "
        f"other images."
    )


def _confused(pairs: Sequence[tuple[str, str, int]]) -> list[str]:
    """The sentence on the most frequent mistakes, if there are any."""
    mistakes = ", ".join(f"{truth} taken for {answer} ({images})" for truth, answer, images in pairs)
    return [f"Most often confused: {mistakes}."] if mistakes else []
