"""Keywords in XMP sidecars, which Lightroom, digiKam, darktable, Immich and PhotoPrism read. Photos stay as they are.

What is in a sidecar already stays byte for byte: keywords are put in where the parser says that their list ends. A
sidecar may come from anybody: one with a document type, and so with entities, is refused, and nothing is fetched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import escape

from .._core.files import atomic_write, open_regular
from .errors import SourceError
from .photo_files import companions

if TYPE_CHECKING:
    from ..encoders.pixels.decoding import ImageError

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC, LR = "http://purl.org/dc/elements/1.1/", "http://ns.adobe.com/lightroom/1.0/"
LARGEST, DEEPEST = 16 * 2**20, 100
"""Bytes of a sidecar, and elements in each other."""
EMPTY = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about=""/>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""
_EMPTY_TAG = re.compile(rb"""<([^\s/>]+)(?:[^>"']|"[^"]*"|'[^']*')*?(/>)""")


@dataclass
class _Element:
    """An element that something may be put into."""

    prefix: str
    begin: int
    end: int = -1
    """Where its last tag begins."""
    text: str = ""
    inner: list[_Element] = field(default_factory=list)


class _Sidecar:
    """What the parser finds: where the keywords end, or where they could be."""

    def __init__(self, content: bytes, property_: str) -> None:
        self.property = property_
        self.rdf: _Element | None = None
        self.description: _Element | None = None
        self.subject: _Element | None = None
        self._path: list[tuple[str, _Element]] = []
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.namespace_prefixes = True
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._stop
        parser.CharacterDataHandler = self._text
        parser.Parse(content, True)

    def _refuse(self, *_: object) -> None:
        raise ValueError("it has a document type")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        uri, _, rest = name.rpartition(" ") if name.count(" ") == 1 else name.partition(" ")
        local, _, prefix = rest.partition(" ")
        element = _Element(prefix, self._parser.CurrentByteIndex)
        above = [one for one, _ in self._path]
        kind = f"{uri} {local}"
        if kind == f"{RDF} RDF" and self.rdf is None:
            self.rdf = element
        elif kind == f"{RDF} Description" and above[-1:] == [f"{RDF} RDF"]:
            self.description = self.description or element
            if any(attribute.startswith(self.property) for attribute in attributes):
                raise ValueError("its keywords are an attribute")
        elif kind == self.property and above[-2:] == [f"{RDF} RDF", f"{RDF} Description"]:
            self.subject = self.subject or element
        if self._path:
            self._path[-1][1].inner.append(element)
        self._path.append((kind, element))
        if len(self._path) > DEEPEST:
            raise ValueError("its elements are too deep in each other")

    def _stop(self, _: str) -> None:
        self._path.pop()[1].end = self._parser.CurrentByteIndex

    def _text(self, text: str) -> None:
        self._path[-1][1].text += text


def with_keywords(content: bytes | None, keywords: Sequence[str], hierarchical: Sequence[str] = ()) -> bytes:
    """A sidecar that has these keywords, too; the same bytes if it has them already.

    Parameters
    ----------
    content
        The sidecar; None if there is none.
    keywords
        For `dc:subject`.
    hierarchical
        For `lr:hierarchicalSubject`, such as "animal|bird|robin".

    Raises
    ------
    ValueError
        It is not a sidecar in UTF-8, or one that a program has written in an unusual way.
    """
    content = EMPTY.encode() if content is None else content
    for prefix, uri, name, words in (
        ("dc", DC, "subject", keywords),
        ("lr", LR, "hierarchicalSubject", hierarchical),
    ):
        content = _added(content, prefix, uri, name, words) if words else content
    return content


def _added(content: bytes, prefix: str, uri: str, name: str, words: Sequence[str]) -> bytes:
    """The sidecar with these words in the list of one property."""
    try:
        content.decode()
        found = _Sidecar(content, f"{uri} {name}")
    except (expat.ExpatError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no XML in UTF-8 ({error})") from error
    if found.rdf is None:
        raise ValueError("it has no rdf:RDF")
    rdf = f"{found.rdf.prefix}:" if found.rdf.prefix else ""
    subject = found.subject
    bag = None if subject is None else _only_list(subject)
    have = [] if bag is None else [one.text for one in bag.inner]
    new = "".join(f"<{rdf}li>{escape(word)}</{rdf}li>" for word in dict.fromkeys(words) if word not in have)
    if not new:
        return content
    if bag is not None:
        return _put(content, bag, new)
    new = f"<{rdf}Bag>{new}</{rdf}Bag>"
    if subject is not None:
        return _put(content, subject, new)
    new = f'<{prefix}:{name} xmlns:{prefix}="{uri}">{new}</{prefix}:{name}>'
    if found.description is not None:
        return _put(content, found.description, new)
    about = f'{rdf}about=""' if rdf else f'xmlns:rdf="{RDF}" rdf:about=""'
    return _put(content, found.rdf, f"<{rdf}Description {about}>{new}</{rdf}Description>")


def _only_list(subject: _Element) -> _Element | None:
    """The list in a property; None if that is empty."""
    if subject.text.strip() or len(subject.inner) > 1:
        raise ValueError("its keywords are not a list")
    return subject.inner[0] if subject.inner else None


def _put(content: bytes, element: _Element, new: str) -> bytes:
    """The sidecar with something more at the end of an element."""
    tag = _EMPTY_TAG.match(content, element.begin)
    if tag is None:
        return content[: element.end] + new.encode() + content[element.end :]
    return b"%s>%s</%s>%s" % (content[: tag.start(2)], new.encode(), tag[1], content[tag.end() :])


def tag_photos(
    photos: Sequence[tuple[Path, Sequence[str]]], wrong: Callable[[ImageError], None], *, only_look: bool = False
) -> list[tuple[Path, list[Path], bool]]:
    """Write each photo's keyword into its sidecars, or into a new one; gives these, and whether any was changed.

    Parameters
    ----------
    photos
        Photos with a keyword each, and with what that is a kind of, what this is a kind of, and so on.
    wrong
        Called with each sidecar that is left as it is, since it cannot be read or written.
    only_look
        Write nothing.
    """
    from ..encoders.pixels.decoding import ImageError

    also = companions(photo for photo, _ in photos)
    told = []
    for photo, (keyword, *above) in photos:
        sidecars = [path for path, _ in also.get(photo, []) if path.suffix.lower() == ".xmp"]
        sidecars = sidecars or [photo.with_name(f"{photo.name}.xmp")]
        changed = False
        for path in sidecars:
            try:
                before = _content(path)
                after = with_keywords(before, [keyword], ["|".join([*reversed(above), keyword])] if above else ())
                if after != before and not only_look:
                    with atomic_write(path) as file:
                        file.write(after)
                changed |= after != before
            except (ValueError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                wrong(ImageError(path, f"is left as it is: {reason}."))
        told.append((photo, sidecars, changed))
    return told


def _content(path: Path) -> bytes | None:
    """What is in a sidecar; None if there is none."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink():
        raise SourceError("it is a link")
    with open_regular(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise SourceError("it is too large")
    return content
