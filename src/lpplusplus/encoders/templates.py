"""Ready sentences around class names, by what the images show. `-t @satellite` takes all of one subject."""

SUBJECTS: dict[str, tuple[str, ...]] = {
    "photo": (
        "a photo of a {}.",
        "a photo of the {}.",
        "a close-up photo of a {}.",
        "a bright photo of a {}.",
        "a blurry photo of a {}.",
        "a photo of a large {}.",
        "a photo of a small {}.",
    ),
    "satellite": (
        "a satellite image of a {}.",
        "a satellite photo of {}.",
        "an aerial image of a {}.",
        "an aerial view of the {}.",
        "a remote sensing image of {}.",
        "a centered satellite photo of {}.",
    ),
    "texture": (
        "a photo of a {} texture.",
        "a photo of a {} surface.",
        "a photo of a {} pattern.",
        "a close-up of a {} texture.",
        "something that looks {}.",
        "a photo of a {} thing.",
    ),
    "food": (
        "a photo of {}, a type of food.",
        "a photo of {} on a plate.",
        "a close-up photo of {}.",
        "a dish of {}.",
        "freshly made {}.",
    ),
    "pet": (
        "a photo of a {}, a type of pet.",
        "a photo of a {}, an animal breed.",
        "a photo of a {} at home.",
        "a close-up photo of the face of a {}.",
        "a photo of my {}.",
    ),
    "car": (
        "a photo of a {}.",
        "a photo of a {}, a model of car.",
        "a photo of a {} on the road.",
        "a photo of a parked {}.",
        "a photo of my {}.",
        "a photo of a clean {}.",
    ),
    "plane": (
        "a photo of a {}, a type of aircraft.",
        "a photo of the {} airplane.",
        "a photo of a {} in flight.",
        "a photo of a {} on the runway.",
        "a side view of a {}, an aircraft.",
    ),
    "action": (
        "a photo of a person doing {}.",
        "a photo of a person during {}.",
        "a video frame of a person practicing {}.",
        "an example of {}.",
        "a demonstration of {}.",
        "people doing {}.",
    ),
    "medical": (
        "a medical image showing {}.",
        "a medical scan of {}.",
        "a clinical image with signs of {}.",
        "a microscope image of {}.",
        "findings of {}.",
    ),
}
"""Sentences by subject; each has {} for the class name."""


def of_subject(word: str) -> tuple[str, ...]:
    """The templates that a word such as "@satellite" stands for."""
    if word[1:] not in SUBJECTS:
        raise ValueError(f"there are no templates {word!r}: there are {', '.join(f'@{name}' for name in SUBJECTS)}.")
    return SUBJECTS[word[1:]]
