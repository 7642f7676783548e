"""The one carrier of embeddings, and the one place where those of two encoders are refused."""

import numpy as np
import pytest

from lpplusplus.images.embedder import embed
from lpplusplus.images.embeddings import Embeddings, Origin
from lpplusplus.images.opening import class_text, embed_source, open_source
from lpplusplus.images.sources import SourceError, from_folder
from toy_encoder import ToyEncoder
from toy_images import make_folder

ORIGIN = Origin("toy", "f", "p", 5)


def test_a_key_depends_on_all_that_changes_an_embedding():
    others = [
        Origin("toy", "g", "p", 5),
        Origin("toy", "f", "q", 5),
        Origin("toy", "f", "p", 6),
        Origin("toy", "f", "p", 5, 2),
        Origin("toy", "f", "p", 5, 1, 1),
    ]
    assert len({other.key for other in [ORIGIN, *others]}) == 6
    assert Origin("other name", "f", "p", 5).key == ORIGIN.key


def test_one_encoder_under_two_names_or_with_other_views_is_one():
    assert ORIGIN.comparable(Origin("another name", "f", "p", 5, decoding=2, views=3))
    for other in (Origin("toy", "g", "p", 5), Origin("toy", "f", "q", 5), Origin("toy", "f", "p", 6)):
        assert not ORIGIN.comparable(other)


@pytest.mark.parametrize("rows", [[2, 0], np.array([True, False, True]), slice(0, 2)])
def test_a_subset_keeps_what_belongs_to_its_images(rows):
    rng = np.random.default_rng(0)
    whole = Embeddings(
        rng.standard_normal((3, 2, 5)).astype(np.float32),
        np.array(["a", "b", "c"]),
        ["0.jpg", "1.jpg", "2.jpg"],
        ("a", "b", "c", "d"),
        hashes=rng.integers(0, 255, (3, 32), np.uint8),
        positions=np.array([4, 5, 9]),
    )
    part, chosen = whole.subset(rows), np.arange(3)[rows]
    assert part.paths == [f"{row}.jpg" for row in chosen]
    assert part.classes == whole.classes
    for name in ("X", "labels", "hashes", "positions", "rows"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[chosen])


def test_only_what_is_known_is_needed():
    alone = Embeddings(np.ones((3, 1, 5), np.float32))
    part = alone.subset([1])
    assert (len(part), part.labels, list(part.paths), part.views) == (1, None, [], 0)


class TestTheDoor:
    @pytest.fixture
    def photos(self, tmp_path):
        return make_folder(tmp_path / "photos", {"a": 3, "b": 3})

    def test_a_store_of_another_encoder_is_refused(self, photos, tmp_path):
        made = embed(from_folder(photos), ToyEncoder(), store=tmp_path / "store", views=2)
        opened = open_source(tmp_path / "store")
        assert embed_source(opened, ToyEncoder, required_origin=Origin.of(ToyEncoder())).origin == made.origin
        with pytest.raises(SourceError, match=r"mine belongs to the encoder toy:3 \(toy-3-24, .*store to toy:0 \("):
            embed_source(opened, ToyEncoder, required_origin=Origin.of(ToyEncoder(seed=3)), owner="mine")

    def test_images_of_another_encoder_are_refused_before_any_is_read(self, photos, tmp_path):
        encoder = ToyEncoder()
        (photos / "a/000.png").write_text("no image")
        with pytest.raises(SourceError, match=r"toy:3 \(toy-3-24, .*the encoder given now to toy:0"):
            embed_source(
                open_source(photos), lambda: encoder, required_origin=Origin.of(ToyEncoder(seed=3)),
                store=tmp_path / "store",
            )  # fmt: skip
        assert not (tmp_path / "store").exists()

    def test_names_are_embedded_by_the_encoder_of_the_images(self, photos):
        support = embed(from_folder(photos), ToyEncoder())
        assert class_text(support, ToyEncoder, ["a {}."]).shape == (2, 24)
        with pytest.raises(SourceError, match=r"toy:0 .*toy:3"):
            class_text(support, lambda: ToyEncoder(seed=3), ["a {}."])


def test_the_old_name_of_drawings_still_opens_it(tmp_path):
    """Files of before say "embedded" and have the fingerprint of what is called drawings now."""
    from lpplusplus.encoders import open_encoder
    from lpplusplus.encoders.named_models import DRAWINGS_FINGERPRINT
    from lpplusplus.images import ImageClassifier

    drawings, photos = open_encoder("drawings"), make_folder(tmp_path / "photos", {"robin": 2, "wren": 2})
    assert drawings.fingerprint == DRAWINGS_FINGERPRINT
    drawings.spec = "embedded"  # As it called itself.
    clf = ImageClassifier(drawings).fit(photos, store=tmp_path / "store")
    clf.save(tmp_path / "old.lpp")
    loaded = ImageClassifier.load(tmp_path / "old.lpp")
    assert loaded.origin_.spec == "drawings"
    assert loaded.predict(photos).tolist() == clf.predict(photos).tolist()
    assert ImageClassifier().fit(tmp_path / "store").origin_.spec == "drawings"
