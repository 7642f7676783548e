"""The page about a classifier: complete, self-contained, and only words whatever files and classes are called."""

import base64
import io
import re
import shutil
import zipfile
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from lpplusplus import LinearProbe, LPPlusPlus, TipAdapter
from lpplusplus._core.base import FewShotClassifier
from lpplusplus.images import ImageClassifier, embed, open_images
from lpplusplus.images import report as pages
from lpplusplus.images.report import SIDE, thumbnail
from lpplusplus.images.words import compared, how_good
from toy_encoder import ToyEncoder
from toy_images import contents, encoded, make_folder, toy_image

HOSTILE = ["<script>alert(1)<", "'\" onload='x", "</title><b>", "{{ 7*7 }}", "&lt;", "javascript:x", "a\u202eb"]


class Reader(HTMLParser):
    """Elements, attributes and text of a page, as a browser would see them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag in self.open[-1:]:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def values(self, name, of=None):
        return [value for tag, key, value in self.attributes if key == name and of in (None, tag)]


def pictures(page):
    """Every picture of a page, decoded."""
    found = []
    for address in Reader(page).values("src", "img"):
        head, _, content = address.partition(",")
        assert head == "data:image/jpeg;base64"
        found.append(Image.open(io.BytesIO(base64.b64decode(content, validate=True))))
    return found


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Images of noise, so that there are mistakes; one of them in two classes."""
    root = make_folder(tmp_path_factory.mktemp("report") / "photos", {"wren": 6, "robin": 6, "great_tit": 6})
    toy_image(0).save(root / "robin" / "twin.png")
    return root


@pytest.fixture(scope="module")
def trained(photos):
    return ImageClassifier(ToyEncoder()).fit(photos)


@pytest.fixture(scope="module")
def page(trained):
    return trained.report()


def test_it_needs_nothing_else(page):
    """No script, no style, font or picture from elsewhere, and a policy that forbids them."""
    read = Reader(page)
    assert read.open == []
    assert not {"script", "link", "iframe", "object", "embed", "form", "base"} & set(read.tags)
    assert not [name for _, name, _ in read.attributes if name.startswith("on")]
    assert all(address.startswith("data:image/jpeg;base64,") for address in read.values("src"))
    assert read.values("href") == []
    assert not re.search(r"url\(|@import|https?:", page)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in read.values("content", "meta")
    assert "width=device-width, initial-scale=1" in read.values("content", "meta")
    assert "prefers-color-scheme: dark" in page


def test_what_it_shows(trained, page, photos):
    insight, answers = trained.insight_, trained.held_out_
    text = Reader(page).text.replace("\xa0", " ")
    assert f"{100 * insight.accuracy:.1f} % right" in text
    assert how_good(insight.accuracy, insight.interval) in text
    sections = re.findall(r"<h2>(.*?)</h2>", page)
    assert sections == ["What would help most", "Would more photos help?", "Doubtful photos", "What is taken for what",
                        "Mistakes", "Class by class, the weakest first"]  # fmt: skip
    wrong = np.flatnonzero(~answers.right)
    assert f"{len(wrong)} in all" in text
    for row in wrong:
        assert "/".join(answers.images.paths[row].split("/")[-2:]) in text
    assert str(photos) not in page  # Where they are is nobody's business.
    assert len(pictures(page)) == len(wrong) + len(insight.mislabelled) + 2 * len(insight.duplicates_of_two_classes)
    assert len(insight.duplicates_of_two_classes) == 1
    (matrix,) = re.findall(r'<table class="matrix">.*?</table>', page, re.DOTALL)
    counts = [int(cell or 0) for cell in re.findall(r"<td[^>]*>(\d*)</td>", matrix.partition("<tbody>")[2])]
    np.testing.assert_array_equal(np.reshape(counts, (3, 3)), answers.scores().confusion)


def test_the_curve_ends_at_the_accuracy_that_was_measured(trained, page):
    """Its last points come from the same folds, of all the images that they leave."""
    text = Reader(page).text.replace("\xa0", " ")
    (both,) = re.findall(r"this classifier \([\d.]+ % → ([\d.]+) %\)", text)
    (names,) = set(re.findall(r"class names alone \(([\d.]+) %\)", text))
    assert float(both) == pytest.approx(100 * trained.insight_.accuracy, abs=0.06)
    assert float(names) == pytest.approx(100 * trained.insight_.zero_shot_accuracy, abs=0.06)


def test_of_an_evaluation(trained, tmp_path, photos):
    new = make_folder(tmp_path / "new", {"wren": 3, "robin": 3}, start=500)
    path = tmp_path / "page.html"
    page = trained.report(path, new)
    assert path.read_text(encoding="utf-8") == page
    scores = trained.evaluate(new)
    text = Reader(page).text.replace("\xa0", " ")
    assert f"{100 * scores.accuracy:.1f} % right" in text
    assert "Careful" not in text
    assert "19 of 19 images were trained on" in Reader(trained.report(source=photos)).text
    trained.save(tmp_path / "m.lpp")
    loaded = ImageClassifier.load(tmp_path / "m.lpp", encoder=ToyEncoder())
    assert Reader(loaded.report(source=new)).values("src") == Reader(page).values("src")
    assert "What was learned" in loaded.report()
    trained.save(tmp_path / "m.lpp", support=False)
    with pytest.raises(ValueError, match="no longer has its training images"):
        ImageClassifier.load(tmp_path / "m.lpp", encoder=ToyEncoder()).report()


@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_hostile_names_are_only_text(tmp_path, kind):
    """Class and file names that are HTML, attributes, templates or that turn the line around."""
    members = {}
    for number, name in enumerate(HOSTILE):
        name = name.replace("/", "∕")
        for i in range(3):
            members[f"{name}/{i}{name[:9]}.png"] = encoded(toy_image(10 * number + i), "PNG")
    source = tmp_path / "odd"
    if kind == "zip":
        source = tmp_path / "odd.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        for name, content in members.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(content)
    clf = ImageClassifier(ToyEncoder(), template="<i>{}").fit(source)
    for page in (clf.report(), clf.report(source=source)):
        read = Reader(page)
        assert read.open == []
        assert not {"script", "b", "i"} & set(read.tags)
        assert not [name for _, name, _ in read.attributes if name.startswith("on")]
        assert "<script>alert(1)<" in read.text
        assert "{{ 7*7 }}" in read.text
        assert "\u202e" not in page
        assert r"a\u202eb" in read.text
        assert not re.search(r'style="(?!background: rgb\(var\(--(right|wrong)\) / [\d.]+%\)")', page)


def test_nothing_of_a_file_but_its_pixels(tmp_path):
    """Where a photo was taken stays out of the page, and pictures are small."""
    root, exif = tmp_path / "photos", Image.Exif()
    exif[0x010E] = "secret place"
    for number in range(8):
        place = root / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        toy_image(number, 900, 600).save(place / f"{number}.jpg", exif=exif, comment=b"secret comment")
    clf = ImageClassifier(ToyEncoder()).fit(root)
    shown = pictures(clf.report(source=root)) + pictures(clf.report())
    assert shown
    for picture in shown:
        assert max(picture.size) == SIDE
        assert not picture.getexif()
        assert "comment" not in picture.info


def test_a_store_cannot_make_it_show_another_file(photos, tmp_path):
    """A feature store names files; only one with the content that was embedded is shown."""
    found = embed(open_images(photos), ToyEncoder())
    stored = replace(found, items=())  # As it is read from a feature store.
    assert thumbnail(stored, 0) == thumbnail(found, 0) is not None
    private = tmp_path / "private.png"
    toy_image(99).save(private)
    assert thumbnail(replace(stored, paths=[str(private)] * len(found)), 0) is None
    assert thumbnail(replace(stored, paths=["gone.png"] * len(found)), 0) is None
    assert thumbnail(replace(stored, hashes=None), 0) is None
    clf = ImageClassifier(ToyEncoder()).fit(replace(stored, paths=[str(private)] * len(found)))
    page = clf.report()
    assert pictures(page) == []
    assert "photo not found" in Reader(page).text


def test_pillow_images_arrays_and_one_class_with_a_single_image(tmp_path):
    drawn = [toy_image(i, 600, 400) for i in range(12)]
    clf = ImageClassifier(ToyEncoder()).fit(drawn, ["a", "b"] * 6)
    assert len(pictures(clf.report())) >= (~clf.held_out_.right).sum()
    assert {image.size for image in drawn} == {(600, 400)}  # They are the user's.
    np.savez(tmp_path / "a.npz", embeddings=np.random.default_rng(0).standard_normal((12, 5)), labels=list("ab") * 6)
    arrays = ImageClassifier().fit(tmp_path / "a.npz")
    text = Reader(arrays.report()).text
    assert "a.npz[" in text
    assert "names alone" not in text
    one = ImageClassifier(ToyEncoder()).fit(drawn[:3], ["a", "a", "b"])
    assert "Measured by 4-fold cross-validation" in Reader(one.report()).text
    assert one.held_out_.images.paths == one.support_.paths[:2]
    few = ImageClassifier(ToyEncoder()).fit(drawn[:4], ["a", "a", "b", "c"])
    text = Reader(few.report()).text
    assert "Accuracy was not measured" in text
    assert "Mistakes" not in text


def test_a_thousand_classes_stay_readable(monkeypatch):
    """Only the classes with the most mistakes are in the matrix, and only the surest mistakes have a photo."""
    monkeypatch.setattr(pages, "LARGEST_MATRIX", 4)
    monkeypatch.setattr(pages, "MOST_MISTAKES", 5)
    monkeypatch.setattr(pages, "MOST_CLASSES", 6)
    clf = ImageClassifier(ToyEncoder()).fit([toy_image(i) for i in range(40)], [f"c{i % 10}" for i in range(40)])
    page = clf.report()
    text = Reader(page).text
    assert "Shown are the 4 classes with the most mistakes; 6 others are left out" in text
    assert "of which the 5 that it was surest of are shown" in text
    assert "4 better ones are left out" in text
    assert page.count("taken for") <= 3 + 5 + 1  # Of the summary, the gallery, a heading.


def test_a_page_that_cannot_be_written_leaves_nothing(trained, tmp_path):
    with pytest.raises(FileNotFoundError):
        trained.report(tmp_path / "no" / "page.html")
    assert contents(tmp_path) == {}


def test_differences_within_noise_are_no_lead():
    assert compared((0.03, 0.02), 0.5, "x").startswith("No clear difference")
    assert compared((0.05, 0.02), 0.5, "x") == "That is 5.0 points better than x (50.0 %)."
    assert compared((-0.05, 0.02), 0.5, "x") == "That is 5.0 points worse than x (50.0 %)."
    assert compared((0.0, 0.0), 0.5, "x").startswith("No clear difference")


def test_of_a_loaded_classifier_and_of_one_that_grew(photos, tmp_path, monkeypatch):
    """A file has the last two parts of paths and a part of each digest: enough to find the photos again, from here."""
    monkeypatch.chdir(photos.parent)
    shutil.copytree(photos, tmp_path / "more" / "more")
    toy_image(700).save(tmp_path / "more" / "more" / "wren" / "another.png")
    clf = ImageClassifier(ToyEncoder()).fit("photos")
    shown = Reader(clf.report()).values("src")
    assert shown
    clf.save(tmp_path / "m.lpp")
    again = ImageClassifier.load(tmp_path / "m.lpp", encoder=ToyEncoder())
    assert Reader(again.report()).values("src") == shown
    monkeypatch.chdir(photos)
    assert Reader(again.report()).values("src") == shown
    monkeypatch.chdir(tmp_path / "more")
    grown = again.add("more")
    assert len(grown.support_) == 1 + len(clf.support_)
    page = grown.report()
    assert "photo not found" not in page
    assert pictures(page)


def test_rows_that_share_a_path_are_not_mixed_up():
    """A light photo among the dark ones looks like light ones; a dark photo of the next list has the same path."""
    rng = np.random.default_rng(0)

    def drawn(level):
        return Image.fromarray((rng.integers(0, 40, (32, 32, 3)) + level).astype(np.uint8))

    clf = ImageClassifier(ToyEncoder()).fit(
        [drawn(level) for level in [200] + [0] * 6 + [200] * 6], [*"d" * 7, *"l" * 6]
    )
    clf.add([drawn(0), drawn(0), drawn(200), drawn(200)], ["d", "d", "l", "l"])
    assert len(set(clf.support_.paths)) < len(clf.support_)
    (section,) = re.findall(r'<div class="pairs">.*?</section>', clf.report(), re.DOTALL)
    light = [np.asarray(picture).mean() > 150 for picture in pictures(section.removesuffix("</div>\n</section>"))]
    assert light
    assert all(light)


@pytest.mark.parametrize("method", [LinearProbe(), TipAdapter()])
def test_the_curve_is_of_the_method_that_was_trained(photos, method):
    clf = ImageClassifier(ToyEncoder(), method=method, template=["a {}.", "the {}!"], views=2).fit(photos)
    fits, named = [], []
    real, real_lpp = type(method).fit, LPPlusPlus.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(method), "fit", lambda self, X, *a, **k: fits.append((X.shape, k)) or real(self, X, *a, **k))
        patch.setattr(LPPlusPlus, "fit", lambda self, *a, **k: named.append(k.get("text")) or real_lpp(self, *a, **k))
        text = Reader(clf.report()).text.replace("\xa0", " ")
    assert named == [None] * 4  # Images alone. LP++ with names was not asked for.
    assert len(fits) == 4 + 2 + 2
    assert all(shape[1:] == clf.support_.X.shape[1:] == (2, 24) for shape, _ in fits)
    assert all(k["text"].ndim == 3 for _, k in fits)
    (last,) = re.findall(r"this classifier \((?:[\d.]+ % → )?([\d.]+) %\)", text)
    assert float(last) == pytest.approx(100 * clf.insight_.accuracy, abs=0.06)


def test_fits_of_a_report(photos):
    """One with all photos, four folds with and without names, and two each with a half and a quarter; names once."""
    fits = []
    real = FewShotClassifier._fit_checked
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FewShotClassifier, "_fit_checked",
                      lambda self, *a, **k: fits.append(type(self).__name__) or real(self, *a, **k))  # fmt: skip
        clf = ImageClassifier(ToyEncoder()).fit(photos)
        clf.report()
        clf.check()
    assert fits.count("LPPlusPlus") == 1 + 2 * 4 + 2 + 2
    assert fits.count("ZeroShot") == 1


def test_a_page_names_no_folder_of_this_machine(tmp_path):
    """People send it to others; so do they an ONNX file and what `lpp push` uploads, which say no more either."""
    make_folder(tmp_path / "photos", {"robin": 3, "wren": 3})
    encoder = ToyEncoder()
    encoder.spec = f"onnx:{tmp_path}/models/mine"
    ImageClassifier(encoder=encoder).fit(tmp_path / "photos").report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "onnx:mine" in page
    assert str(tmp_path) not in page
