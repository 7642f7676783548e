"""The labelling configuration of a project: which tag shows the image, and which choices there are."""

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

LONGEST = 2**18
"""Most characters of a configuration."""


@dataclass(frozen=True)
class LabelConfig:
    """An image, and a single choice of its class."""

    choices: str
    """Name of the `Choices` tag."""
    image: str
    """Name of the `Image` tag that it is about."""
    field: str
    """The part of a task's data that says where the image is."""
    labels: tuple[str, ...]

    @classmethod
    def read(cls, text: Any) -> "LabelConfig":
        """From XML; ValueError if it is not about one image and one choice.

        >>> LabelConfig.read('<View><Image name="i" value="$photo"/><Choices name="c" toName="i"><Choice value="cat"/>'
        ...                  '<Choice value="dog"/></Choices></View>')
        LabelConfig(choices='c', image='i', field='photo', labels=('cat', 'dog'))
        """
        if not isinstance(text, str) or len(text) > LONGEST:
            raise ValueError("the labelling configuration is missing or too long.")
        if "<!" in text.replace("<!--", ""):  # Entities can fill the memory, and no configuration needs them.
            raise ValueError("the labelling configuration has a document type, which is not read.")
        try:
            tree = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise ValueError(f"the labelling configuration is not XML ({error}).") from None
        images = {tag.get("name", ""): tag.get("value", "") for tag in tree.iter("Image")}
        for tag in tree.iter("Choices"):
            about, many = tag.get("toName", ""), tag.get("choice", "single")
            if about not in images or many not in ("single", "single-radio"):
                continue
            labels = tuple(dict.fromkeys(one.get("value", "") for one in tag.iter("Choice")))
            if len(labels) > 1 and all(labels) and images[about].startswith("$"):
                return cls(tag.get("name", ""), about, images[about][1:], labels)
        raise ValueError(
            "the labelling configuration needs an Image and Choices for it, with two or more choices of which one is "
            'taken (choice="single").'
        )

    def label_of(self, result: Any) -> str | None:
        """The choice in an annotation's result; None if there is none that is known."""
        for part in result if isinstance(result, list) else ():
            if isinstance(part, dict) and part.get("from_name") == self.choices and part.get("type") == "choices":
                chosen = (part.get("value") or {}).get("choices") or []
                if len(chosen) == 1 and chosen[0] in self.labels:
                    return str(chosen[0])
        return None

    def result(self, label: str) -> list[dict[str, Any]]:
        """A choice, as Label Studio has it in predictions."""
        return [
            {"from_name": self.choices, "to_name": self.image, "type": "choices", "value": {"choices": [label]}}
        ]  # fmt: skip
