"""Keywords in sidecars: what was there stays, what is strange is refused, and other programs read it."""

import json
import shutil
import subprocess

import pytest

from lpplusplus.images.xmp import DC, EMPTY, LR, RDF, tag_photos, with_keywords
from toy_images import make_folder

HEAD = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{RDF}">'
TAIL = "</rdf:RDF></x:xmpmeta>"
DARKTABLE = f"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about=""
    xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:dc="{DC}"
    xmlns:darktable="http://darktable.sf.net/"
   xmp:Rating="4" darktable:odd="a&#10;b &gt; c">
   <!-- mine -->
   <dc:subject>
    <rdf:Seq>
     <rdf:li>holiday</rdf:li>
     <rdf:li>B&amp;B</rdf:li>
    </rdf:Seq>
   </dc:subject>
   <darktable:history><rdf:Seq><rdf:li darktable:num="0"/></rdf:Seq></darktable:history>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""


def words(text):
    return text.replace("</rdf:li>", "<rdf:li>").split("<rdf:li>")[1::2]


def test_all_that_was_there_stays_byte_for_byte():
    after = with_keywords(DARKTABLE.encode(), ["robin", "B&B"]).decode()
    assert after.replace("<rdf:li>robin</rdf:li>", "", 1) == DARKTABLE
    assert words(after) == ["holiday", "B&amp;B", "robin"]
    assert with_keywords(after.encode(), ["robin"]) == after.encode()


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ('<rdf:Description rdf:about=""/>', ["a<b"]),
        ("<rdf:Description rdf:about='/>'  />", ["a<b"]),
        ("", ["a<b"]),
        (f'<rdf:Description xmlns:dc="{DC}"><dc:subject/></rdf:Description>', ["a<b"]),
        (f'<rdf:Description xmlns:dc="{DC}"><dc:subject><rdf:Bag/></dc:subject></rdf:Description>', ["a<b"]),
        (f'<rdf:Description/><rdf:Description xmlns:q="{DC}"><q:subject><rdf:Bag><rdf:li>x</rdf:li></rdf:Bag>'
         "</q:subject></rdf:Description>", ["x", "a<b"]),
    ],
)  # fmt: skip
def test_wherever_the_list_is_or_is_not(inside, expected):
    after = with_keywords(f"{HEAD}{inside}{TAIL}".encode(), ["a<b"], ["z|a<b"]).decode()
    assert sorted(words(after)) == sorted([*(word.replace("<", "&lt;") for word in expected), "z|a&lt;b"])
    assert with_keywords(after.encode(), ["a<b"], ["z|a<b"]) == after.encode()
    assert LR in after


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (f'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>{HEAD}&b;{TAIL}', "document type"),
        (f"{HEAD}<rdf:Description>", "no XML"),
        ("<a/>", "no rdf:RDF"),
        (f'{HEAD}<rdf:Description xmlns:dc="{DC}" dc:subject="x"/>{TAIL}', "an attribute"),
        (f'{HEAD}<rdf:Description xmlns:dc="{DC}"><dc:subject>x</dc:subject></rdf:Description>{TAIL}', "not a list"),
        (HEAD + "<a>" * 200 + "</a>" * 200 + TAIL, "too deep"),
        ("", "no XML"),
    ],
)
def test_strange_ones_are_refused(content, why):
    with pytest.raises(ValueError, match=why):
        with_keywords(content.encode(), ["robin"])
    with pytest.raises(ValueError, match="UTF-8"):
        with_keywords(EMPTY.encode("utf-16"), ["robin"])


def test_sidecars_of_both_names(tmp_path):
    make_folder(tmp_path, {"a": 3}, suffix=".jpg")
    photos = sorted((tmp_path / "a").iterdir())
    (tmp_path / "a/000.xmp").write_text(DARKTABLE)
    (tmp_path / "a/001.jpg.xmp").write_text("not XML")
    before, wrong = [photo.read_bytes() for photo in photos], []
    asked = [(photo, ["robin", "bird", "animal"]) for photo in photos]
    dry = tag_photos(asked, wrong.append, only_look=True)
    assert len([*(tmp_path / "a").iterdir()]) == 5
    wrong.clear()
    assert tag_photos(asked, wrong.append) == dry
    assert [[path.name for path in sidecars] for _, sidecars, _ in dry] == [
        ["000.xmp"], ["001.jpg.xmp"], ["002.jpg.xmp"]]  # fmt: skip
    assert [changed for *_, changed in dry] == [True, False, True]
    assert [error.path for error in wrong] == [str(tmp_path / "a/001.jpg.xmp")]
    assert (tmp_path / "a/001.jpg.xmp").read_text() == "not XML"
    assert words((tmp_path / "a/002.jpg.xmp").read_text("utf-8")) == ["robin", "animal|bird|robin"]
    assert [photo.read_bytes() for photo in photos] == before
    assert [changed for *_, changed in tag_photos(asked, wrong.append)] == [False] * 3


@pytest.mark.parametrize("before", [None, DARKTABLE], ids=["new", "darktable"])
def test_exiftool_and_exiv2_read_it(before, tmp_path):
    path = tmp_path / "a.jpg.xmp"
    path.write_bytes(with_keywords(before and before.encode(), ["Blåmeis"], ["animal|bird|Blåmeis"]))
    expected = ["holiday", "B&B", "Blåmeis"] if before else ["Blåmeis"]
    if not (shutil.which("exiftool") and shutil.which("exiv2")):
        pytest.skip("needs exiftool and exiv2")
    told = subprocess.run(
        ["exiftool", "-j", "-validate", "-warning", "-XMP:all", path], capture_output=True, check=True
    )
    (found,) = json.loads(told.stdout)
    subject = found["Subject"]
    assert ([subject] if isinstance(subject, str) else subject) == expected
    assert found["HierarchicalSubject"] == "animal|bird|Blåmeis"
    assert "Warning" not in found
    if before:
        assert found["Rating"] == 4
    told = subprocess.run(["exiv2", "-PXkt", path], capture_output=True, check=True, text=True)
    assert told.stderr == ""
    lines = dict(line.split(None, 1) for line in told.stdout.splitlines())
    assert lines["Xmp.dc.subject"] == ", ".join(expected)
    assert lines["Xmp.lr.hierarchicalSubject"] == "animal|bird|Blåmeis"
