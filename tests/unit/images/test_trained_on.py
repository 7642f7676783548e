"""A classifier knows the images that it was trained on, by their content, also after it was saved."""

import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from lpplusplus import load
from lpplusplus._core.model_file import ModelFormatError
from lpplusplus.images import ImageClassifier, embed, open_images
from toy_encoder import ToyEncoder
from toy_images import make_folder, toy_image


@pytest.fixture
def photos(tmp_path):
    return make_folder(tmp_path / "photos", {"a": 4, "b": 4})


@pytest.fixture
def saved(photos, tmp_path):
    ImageClassifier(ToyEncoder()).fit(photos).save(tmp_path / "m.lpp")
    return tmp_path / "m.lpp"


def opened(path):
    return ImageClassifier.load(path, encoder=ToyEncoder())


def again(path, change):
    """The same file with other metadata."""
    model = load(path)
    change(model.metadata_["images"])
    model.save(path, metadata=model.metadata_)
    return path


def test_by_content_not_by_name(photos, saved, tmp_path):
    new = make_folder(tmp_path / "new", {"a": 2, "b": 2}, start=100)
    assert opened(saved).evaluate(new).trained_on == 0
    shutil.copy(photos / "b" / "001.png", new / "a" / "other.png")
    for clf in (opened(saved), ImageClassifier(ToyEncoder()).fit(photos)):
        result = clf.evaluate(new)
        assert (result.trained_on, result.images) == (1, 5)
        assert result.as_dict()["trained_on"] == 1


def test_what_the_file_keeps(photos, saved):
    kept = load(saved).metadata_["images"]["trained_on"]
    digests = [hashlib.sha256(path.read_bytes()).digest()[:8] for path in sorted(photos.glob("*/*.png"))]
    assert kept == b"".join(digests).hex()  # In the order of the embeddings, which the file has as well.
    ImageClassifier(ToyEncoder()).fit(photos).save(saved, support=False)
    assert load(saved).metadata_["images"]["trained_on"] == b"".join(sorted(digests)).hex()


def test_images_in_memory_and_arrays(tmp_path):
    images, labels = [toy_image(i) for i in range(8)], list("abababab")
    assert ImageClassifier(ToyEncoder()).fit(images, labels).evaluate(images[:3], labels[:3]).trained_on == 3
    np.savez(tmp_path / "f.npz", embeddings=np.random.default_rng(0).standard_normal((8, 5)), labels=labels)
    clf = ImageClassifier().fit(tmp_path / "f.npz")
    assert clf.evaluate(tmp_path / "f.npz").trained_on == 8
    np.savez(tmp_path / "g.npz", embeddings=np.random.default_rng(1).standard_normal((8, 5)), labels=labels)
    assert clf.evaluate(tmp_path / "g.npz").trained_on == 0


def test_of_very_many_a_part_is_kept(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("lpplusplus.images.saving.MOST_DIGESTS", 3)
    ImageClassifier(ToyEncoder()).fit(photos).save(tmp_path / "m.lpp", support=False)
    assert opened(tmp_path / "m.lpp").evaluate(photos).trained_on == 3


def test_a_file_of_before_knows_nothing_and_is_read(photos, saved):
    ImageClassifier(ToyEncoder()).fit(photos).save(saved, support=False)
    clf = opened(again(saved, lambda about: about.pop("trained_on")))
    assert clf.evaluate(photos).trained_on == 0


@pytest.mark.parametrize("value", ["zz", "abc", 5, None, ["00"]])
def test_damaged(saved, value):
    path = again(saved, lambda about: about.update(trained_on=value))
    with pytest.raises(ModelFormatError):
        opened(path)


def test_validation_photos_that_were_trained_on_are_known_by_content(tmp_path):
    """Embeddings of one photo differ in the last bits if it shares its batch with others."""
    photos = make_folder(tmp_path / "photos", {"robin": 4, "wren": 4, "dunnock": 4})
    found = embed(open_images(photos), ToyEncoder())
    val = replace(found, X=np.nextafter(found.X, np.float32(np.inf)))
    clf = ImageClassifier(ToyEncoder()).fit(found, val=val)
    assert clf.look_into().as_dict()["copies"] == 12
    clf.save(tmp_path / "a.lpp")
    assert ImageClassifier.load(tmp_path / "a.lpp", encoder=ToyEncoder()).look_into().as_dict()["copies"] == 12
    only = replace(val, hashes=None)  # Of arrays: equal embeddings are all there is to see.
    assert ImageClassifier(ToyEncoder()).fit(found, val=only).look_into().as_dict()["copies"] == 0
    same = replace(found, hashes=None)
    assert ImageClassifier(ToyEncoder()).fit(found, val=same).look_into().as_dict()["copies"] == 12


def test_a_photo_of_two_classes_is_known_under_both(tmp_path):
    photos = make_folder(tmp_path / "photos", {"robin": 3, "wren": 3})
    shutil.copy(photos / "wren" / "000.png", photos / "robin" / "twin.png")
    clf = ImageClassifier(ToyEncoder()).fit(photos)
    assert len(clf.add(photos).support_) == 7
