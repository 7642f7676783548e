"""Adding, removing, renaming, merging: each time the classifier that training on just these photos gives."""

import shutil

import numpy as np
import pytest

from helpers import resign
from lpplusplus import LPPlusPlus, ModelFormatError, TipAdapter
from lpplusplus.encoders.class_text import class_texts
from lpplusplus.images import ImageClassifier, SourceError, embed, open_images
from toy_encoder import ToyEncoder
from toy_images import make_folder

COUNTS = {"great_tit": 5, "robin": 6, "wren": 6, "dunnock": 4}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("growing") / "all", COUNTS)


def part(photos, folder, keep):
    """The photos of a folder for which `keep(label, number)`, in a folder of their own."""
    for file in sorted(photos.glob("*/*.png")):
        if keep(file.parent.name, int(file.stem)):
            (folder / file.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder / file.parent.name)
    return folder


def same(one, other, photos):
    assert one.classes_.tolist() == other.classes_.tolist()
    assert one.names_ == other.names_
    np.testing.assert_array_equal(one.classifier_.coef_, other.classifier_.coef_)
    np.testing.assert_array_equal(one.predict_proba(photos), other.predict_proba(photos))
    assert one.support_.digests() == other.support_.digests()


def toy(**options):
    """Its embeddings of an image do not depend on what else is in the batch, not even in the last bit."""
    return ToyEncoder(batch_size=1, **options)


def fitted(source, **options):
    return ImageClassifier(toy(), **options).fit(source)


def reloaded(clf, path, **options):
    clf.save(path)
    return ImageClassifier.load(path, encoder=toy(), **options)


@pytest.mark.parametrize("options", [{}, {"template": ["a {}.", "the {}."]}, {"views": 2}])
def test_adding_is_training_on_everything(photos, tmp_path, options):
    """New photos of old classes, some of whose names sort first, and a new class in the middle."""
    first = part(photos, tmp_path / "first", lambda label, number: label != "dunnock" and number % 2)
    second = part(photos, tmp_path / "second", lambda label, number: label == "dunnock" or number % 2 == 0)
    whole = fitted(photos, **options)
    same(fitted(first, **options).add(second), whole, photos)
    grown = reloaded(fitted(first, **options), tmp_path / "a.lpp").add(second)
    same(grown, whole, photos)
    assert grown.already_there_ == 0
    same(reloaded(grown, tmp_path / "b.lpp"), whole, photos)
    again = grown.add(photos)
    same(again, whole, photos)
    assert again.already_there_ == len(whole.support_)


def test_a_loaded_classifier_knows_what_it_was_trained_on(photos, tmp_path):
    clf = ImageClassifier(toy(), method=TipAdapter()).fit(photos, val=photos)
    again = reloaded(clf, tmp_path / "a.lpp")
    np.testing.assert_array_equal(again.support_.X, clf.support_.X)
    assert again.support_.X.dtype == np.float32
    assert again.support_.labels.tolist() == clf.support_.labels.tolist()
    assert again.support_.paths[0] == "dunnock/000.png"
    assert again.validation_.paths[-1] == "wren/005.png"
    np.testing.assert_array_equal(again.class_text_, clf.class_text_)
    assert again.look_into().as_dict().keys() == clf.look_into().as_dict().keys()
    assert again.insight_.accuracy == clf.insight_.accuracy
    assert again.trained_on(again.embed(photos)) == sum(COUNTS.values())
    again.save(tmp_path / "b.lpp", support=False)
    small = ImageClassifier.load(tmp_path / "b.lpp", encoder=toy())
    assert small.trained_on(small.embed(photos)) == sum(COUNTS.values())
    np.testing.assert_array_equal(small.predict_proba(photos), clf.predict_proba(photos))
    small.save(tmp_path / "c.lpp")
    assert not hasattr(ImageClassifier.load(tmp_path / "c.lpp"), "support_")
    for change in (
        lambda: small.add(photos),
        lambda: small.remove("wren"),
        lambda: small.rename("wren", "x"),
        lambda: small.merge(clf),
        lambda: clf.merge(small),
        small.look_into,
    ):
        with pytest.raises(SourceError, match=r"no longer has its training images.*--no-support.*train it again"):
            change()


def test_a_photo_under_another_label(photos, tmp_path):
    first = part(photos, tmp_path / "first", lambda label, number: number < 4)
    other = tmp_path / "other" / "robin"
    other.mkdir(parents=True)
    shutil.copy(photos / "wren" / "001.png", other / "new.png")
    clf = fitted(first)
    before = clf.classifier_
    with pytest.raises(
        SourceError, match=r"new\.png is in the classifier already, as 'wren' and not as 'robin': remove"
    ):
        clf.add(tmp_path / "other")
    assert clf.classifier_ is before
    clf.remove(photos=[other / "new.png"]).add(tmp_path / "other")
    assert clf.support_.labels.tolist().count("robin") == 5


def test_removing(photos, tmp_path):
    whole = fitted(photos)
    left = part(photos, tmp_path / "left", lambda label, number: label != "robin")
    same(fitted(photos).remove("robin"), fitted(left), left)
    fewer = part(photos, tmp_path / "fewer", lambda label, number: number)
    files = [photos / label / "000.png" for label in COUNTS]
    same(reloaded(whole, tmp_path / "a.lpp").remove(photos=files), fitted(fewer), fewer)
    names = [f"{label}/000.png" for label in COUNTS]
    same(reloaded(whole, tmp_path / "a.lpp").remove(photos=names), fitted(fewer), fewer)
    only = part(photos, tmp_path / "only", lambda label, number: number == 0)
    same(fitted(photos).remove(photos=only), fitted(fewer), fewer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda clf, photos: clf.remove("heron"), "there is no class 'heron'; there are dunnock"),
        (lambda clf, photos: clf.remove(["robin", "wren", "dunnock"]), "there are 1 class"),
        (lambda clf, photos: clf.remove(photos=photos / "wren"), "all photos of wren: remove the class"),
        (lambda clf, photos: clf.remove(photos="heron/1.jpg"), "heron/1.jpg: not among the 21 photos"),
        (lambda clf, photos: clf.rename("heron", "x"), "there is no class 'heron'"),
        (lambda clf, photos: clf.rename("wren", "robin"), "there is a class 'robin' already"),
        (lambda clf, photos: clf.rename("wren", "_"), "leaves no class name"),
        (lambda clf, photos: clf.rename("wren", "x", name="robin"), "both called 'robin'"),
        (lambda clf, photos: clf.add(photos.parent / "nowhere"), "does not exist"),
    ],
)
def test_what_cannot_be_changed_changes_nothing(photos, change, message):
    clf = fitted(photos)
    before = dict(vars(clf))
    with pytest.raises(SourceError, match=message):
        change(clf, photos)
    assert {name: id(value) for name, value in vars(clf).items()} == {name: id(value) for name, value in before.items()}


def test_renaming(photos, tmp_path):
    other = part(photos, tmp_path / "other", lambda label, number: True)
    (other / "dunnock").rename(other / "hedge_sparrow")
    same(reloaded(fitted(photos), tmp_path / "a.lpp").rename("dunnock", "hedge_sparrow"), fitted(other), photos)
    names = {"dunnock": "small brown bird", "great_tit": "great tit", "robin": "robin", "wren": "wren"}
    named = ImageClassifier(toy()).fit(photos, names=names)
    same(fitted(photos).rename("dunnock", "dunnock", name="small brown bird"), named, photos)


def test_merging(photos, tmp_path):
    first = fitted(part(photos, tmp_path / "a", lambda label, number: label != "wren" and number < 4))
    second = fitted(part(photos, tmp_path / "b", lambda label, number: label == "wren" or number > 1))
    second = reloaded(second, tmp_path / "b.lpp")
    whole = fitted(photos)
    same(first.merge(second), whole, photos)
    assert first.already_there_ == 3 * 2
    with pytest.raises(SourceError, match="cannot be compared"):
        first.merge(ImageClassifier(toy(seed=1)).fit(photos))


def test_arrays_with_their_own_text(photos, tmp_path):
    encoder = toy()
    found = embed(open_images(photos), encoder)
    classes = sorted(COUNTS)
    text = class_texts(encoder, classes)
    old = found.labels != "robin"

    def write(name, rows, labels):
        np.savez(tmp_path / name, embeddings=found.X[rows, 0], labels=found.labels[rows],
                 text=text[[classes.index(label) for label in labels]], classes=np.array(labels))  # fmt: skip
        return tmp_path / name

    first = write("first.npz", old, [label for label in classes if label != "robin"])
    second = write("second.npz", ~old, ["robin"])
    whole = ImageClassifier().fit(write("all.npz", slice(None), classes))
    grown = ImageClassifier().fit(first).add(second)
    assert grown.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(grown.predict_proba(found), whole.predict_proba(found), atol=0.1)
    with pytest.raises(SourceError, match="not known what made"):
        grown.rename("robin", "x")
    np.savez(tmp_path / "textless.npz", embeddings=1 + found.X[:2, 0], labels=np.array(["x", "y"]))
    with pytest.raises(SourceError, match=r"not known what made"):
        grown.add(tmp_path / "textless.npz")
    np.savez(tmp_path / "short.npz", embeddings=found.X[:2, 0, :3], labels=np.array(["robin", "wren"]))
    with pytest.raises(SourceError, match="embed both alike"):
        grown.add(tmp_path / "short.npz")


def test_numbers_stay_numbers(photos):
    found = open_images(photos)
    y = [sorted(COUNTS).index(label) for label in found.labels.tolist()]
    clf = ImageClassifier(toy(), method=LPPlusPlus(updates=5)).fit(found.items[4:], y[4:])
    assert clf.add(found.items[:4], y[:4]).classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda images: images.update(trained_on=images["trained_on"][16:]),
        lambda images: images.update(trained_on=images["trained_on"] + "00"),
        lambda images: images.update(photos=images["photos"][1:]),
        lambda images: images.update(photos=[1] * 21),
        lambda images: images.update(photos=None),
        lambda images: images.pop("photos"),
    ],
)
def test_what_a_file_says_of_its_photos_has_to_fit_together(photos, tmp_path, change):
    path = tmp_path / "a.lpp"
    fitted(photos).save(path)
    resign(path, lambda model: change(model["metadata"]["images"]))
    with pytest.raises(ModelFormatError):
        ImageClassifier.load(path)


def test_unlabelled_photos_stay_with_it(photos, tmp_path):
    """They are trained with, saved, and kept by all that changes the classifier."""
    some = part(photos, tmp_path / "some", lambda label, number: number < 4)
    other = part(photos, tmp_path / "other", lambda label, number: number == 4)
    free = tmp_path / "free"  # No folders per class, and one photo that is trained on.
    free.mkdir()
    for file in sorted(photos.glob("*/00[345].png")):
        shutil.copy(file, free / f"{file.parent.name}-{file.name}")
    clf = ImageClassifier(toy()).fit(some, unlabelled=free)
    given = clf.classifier_.task_.unlabelled
    known = {row.tobytes() for row in clf.support_.rows}
    assert 0 < len(given) < len(list(free.iterdir()))
    assert not known & {row.tobytes() for row in given}
    again = reloaded(clf, tmp_path / "a.lpp")
    both = part(photos, tmp_path / "both", lambda label, number: number < 5)
    whole = ImageClassifier(toy()).fit(both, unlabelled=embed(open_images(free, labels=False), toy()))
    assert len(whole.classifier_.task_.unlabelled) < len(given)
    again.add(other)
    np.testing.assert_array_equal(again.classifier_.task_.unlabelled, given)
    np.testing.assert_array_equal(again.remove("wren").rename("robin", "redbreast").training_data_.unlabelled, given)
    joint = reloaded(clf, tmp_path / "b.lpp").merge(clf)
    np.testing.assert_array_equal(joint.classifier_.task_.unlabelled, np.concatenate([given, given]))
    with pytest.raises(SourceError, match="TipAdapter learns from labelled images only"):
        ImageClassifier(toy(), method=TipAdapter()).fit(some, unlabelled=free)
    with pytest.raises(SourceError, match="encoder"):
        ImageClassifier(toy()).fit(some, unlabelled=embed(open_images(free, labels=False), ToyEncoder(seed=9)))
