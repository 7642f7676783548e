"""Which part of a photo speaks for an answer."""

import numpy as np
import pytest
from PIL import Image

from lpplusplus.encoders import open_encoder
from lpplusplus.encoders.pixels.preprocessing import Preprocessing
from lpplusplus.images import ImageClassifier
from lpplusplus.images.explaining import Explainer, shaded
from lpplusplus.images.report import why_page
from lpplusplus.methods.tip_adapter import TipAdapter

RNG = np.random.default_rng(5)


def photo(where=None, colour=(220, 30, 30), size=(240, 180)):
    """Grey noise; with a striped patch at `where`, in parts of the sides."""
    pixels = RNG.integers(110, 140, (size[1], size[0], 3)).astype(np.uint8)
    if where is not None:
        left, top = int(where[0] * size[0]), int(where[1] * size[1])
        pixels[top : top + 60, left : left + 60] = colour
        pixels[top : top + 60 : 8, left : left + 60] = 255
    return Image.fromarray(pixels)


PLACES = [(0.2, 0.1), (0.5, 0.5), (0.3, 0.6), (0.55, 0.1)]


def two_classes(**options):
    red = [photo(where) for where in PLACES]
    blue = [photo(where, (30, 30, 220)) for where in PLACES]
    return ImageClassifier(**options).fit([*red, *blue], ["red"] * 4 + ["blue"] * 4)


def test_cells_sum_up_to_the_embedding():
    encoder, image = open_encoder("embedded"), photo((0.5, 0.5))
    parts, box = encoder.cells(image)
    np.testing.assert_allclose(parts.sum(axis=(0, 1)), encoder.encode_images([image])[0], atol=1e-6)
    assert box == (30, 0, 210, 180)


@pytest.mark.parametrize("normalize", [True, False])
def test_the_evidence_of_all_cells_is_the_logit(normalize):
    from lpplusplus import LPPlusPlus

    red, blue, green = ([photo(where, c) for where in PLACES] for c in ((220, 30, 30), (30, 30, 220), (30, 200, 30)))
    clf = ImageClassifier(method=LPPlusPlus(normalize=normalize))
    clf.fit([*red, *blue, *green], ["red"] * 4 + ["blue"] * 4 + ["green"] * 4)
    image = photo((0.4, 0.4))
    told = clf.explain(image)
    logits = clf.classifier_.decision_function(clf.embed([image]).rows)[0]
    assert told.exact
    np.testing.assert_allclose(told.by_class.sum(axis=(0, 1)), logits, atol=1e-4)
    assert told.answer == clf.predict([image])[0]
    assert [told.answer, told.runner_up] == [told.classes[k] for k in np.argsort(-logits)[:2]]


@pytest.mark.parametrize("options", [{}, {"encoder": "drawings"}, {"method": TipAdapter()}])
def test_the_evidence_lies_where_the_thing_is(options):
    clf = two_classes(**options)
    left, right = (clf.explain(photo(where), ["red", "blue"]) for where in ((0.15, 0.35), (0.6, 0.35)))
    assert left.exact == (not options)
    strongest = [np.unravel_index(told.lead.argmax(), told.lead.shape)[1] for told in (left, right)]
    assert strongest[0] < 3 < strongest[1]


def test_a_class_that_is_told_by_its_border_is_named():
    def framed(colour, width=50):
        image = photo((0.4, 0.35), (60, 160, 60))
        frame = photo(size=image.size)
        for i in range(0, 240, 40):
            frame.paste(colour, (i, 0, i + 20, 180))
        frame.paste(image.crop((width, width, image.width - width, image.height - width)), (width, width))
        return frame

    clf = ImageClassifier()
    frames = [framed((200, 160, 20)) for _ in range(4)] + [framed((20, 60, 200)) for _ in range(4)]
    labels = ["sand"] * 4 + ["sea"] * 4
    clf.fit(frames, labels)
    assert Explainer(clf).by_background(zip(labels, frames, strict=True)) == ["sand", "sea"]
    assert Explainer(clf).by_background(list(zip(labels, frames, strict=True))[:3]) == []  # Too few photos to say.


def test_labels_that_it_does_not_know_are_refused():
    clf = two_classes()
    for classes in (["red", "green"], ["red"]):
        with pytest.raises(ValueError, match="two labels"):
            clf.explain(photo(), classes)


def test_the_seen_part_of_a_photo():
    assert Preprocessing().seen(100, 300) == (0, 100, 100, 200)
    assert Preprocessing(resize="squash").seen(100, 300) == (0, 0, 100, 300)


def test_a_shaded_picture_is_lightest_where_the_evidence_is():
    where = np.zeros((7, 7))
    where[1, 5] = 1
    white = Image.new("RGB", (700, 700), "white")
    light = np.asarray(shaded(white, where, (0, 0, 700, 700), 140)).sum(axis=2)
    assert light.shape == (140, 140)
    assert np.unravel_index(light.argmax(), light.shape) == pytest.approx((30, 110), abs=10)


def test_the_page(tmp_path):
    clf = two_classes()
    for i, where in enumerate(PLACES):
        photo(where).save(tmp_path / f"{i}.png")
    said = clf._asked(tmp_path)
    page = why_page(clf, said, None)
    assert page.count('class="why"') == 4
    assert page.count("data:image/jpeg") == 12
    assert "The evidence was computed" in page
