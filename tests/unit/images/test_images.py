"""ImageClassifier as a library: the same answers from every kind of input, and nothing half-done after an error."""

import csv
import json

import numpy as np
import pytest
import safetensors.numpy
from PIL import Image

from lpplusplus import LPPlusPlus, TipAdapter, ZeroShot
from lpplusplus._core.model_file import ModelFormatError
from lpplusplus.encoders import MODULES
from lpplusplus.encoders.class_text import SUBJECTS, class_texts
from lpplusplus.encoders.pixels.decoding import ImageError
from lpplusplus.images.classifier import ImageClassifier, SourceError
from lpplusplus.images.embedder import embed
from lpplusplus.images.sources import from_folder
from toy_encoder import ToyEncoder
from toy_images import make_folder, toy_image

COUNTS = {"great_tit": 5, "robin": 4, "wren": 6}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("images") / "photos", COUNTS)


@pytest.fixture(scope="module")
def new_photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("images") / "test", {"robin": 3, "wren": 2}, start=500)


@pytest.fixture(scope="module")
def trained(photos):
    return ImageClassifier(ToyEncoder()).fit(photos)


def listed(photos):
    paths = sorted(photos.glob("*/*.png"))
    return paths, [path.parent.name for path in paths]


def state(clf):
    return {name: value for name, value in vars(clf).items() if not name.startswith("_opened")}


def test_it_is_the_probe_on_the_encoder_s_embeddings(photos, trained):
    """Worked out by hand from the parts: embeddings, prompts, LPPlusPlus."""
    encoder = ToyEncoder()
    paths, labels = listed(photos)
    X = embed(from_folder(photos), encoder).X[:, 0]
    text = class_texts(encoder, ["great tit", "robin", "wren"], "a photo of a {}.")
    probe = LPPlusPlus().fit(X, labels, text=text, classes=["great_tit", "robin", "wren"])
    assert trained.classes_.tolist() == ["great_tit", "robin", "wren"]
    assert trained.names_ == ("great tit", "robin", "wren")
    np.testing.assert_allclose(trained.predict_proba(paths), probe.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(trained.predict(paths), probe.predict(X))


def test_all_kinds_of_input_give_the_same_classifier(photos, new_photos, trained, tmp_path):
    paths, labels = listed(photos)
    with open(tmp_path / "list.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["path", "label"], *([str(path), label] for path, label in zip(paths, labels, strict=True))]
        )
    (tmp_path / "list.jsonl").write_text(
        "".join(
            json.dumps({"path": str(path), "label": label}) + "\n" for path, label in zip(paths, labels, strict=True)
        )
    )
    encoder = ToyEncoder()
    found = embed(from_folder(photos), encoder, store=tmp_path / "features")
    text = class_texts(encoder, ["great tit", "robin", "wren"])
    np.savez(tmp_path / "arrays.npz", embeddings=found.X[:, 0], labels=np.array(labels), text=text)
    classes = sorted(COUNTS)
    safetensors.numpy.save_file(
        {
            "embeddings": found.X[:, 0].copy(),
            "labels": np.array([classes.index(label) for label in labels]),
            "text": text,
        },
        tmp_path / "arrays.safetensors",
        {"classes": json.dumps(classes)},
    )
    sources = {
        "list": (paths, labels),
        "strings": ([str(path) for path in paths], np.array(labels)),
        "Pillow": ([Image.open(path) for path in paths], labels),
        **{name: (tmp_path / name, None) for name in ("list.csv", "list.jsonl", "features")},
        **{name: (str(tmp_path / name), None) for name in ("arrays.npz", "arrays.safetensors")},
    }
    new = embed(from_folder(new_photos), encoder)
    np.savez(tmp_path / "new.npz", embeddings=new.X)
    expected = trained.predict_proba(new_photos)
    for name, (source, y) in sources.items():
        clf = ImageClassifier(encoder).fit(source, y)
        assert clf.classes_.tolist() == classes, name
        what = tmp_path / "new.npz" if name.startswith("arrays") else new_photos
        np.testing.assert_allclose(clf.predict_proba(what), expected, atol=1e-5, err_msg=name)


def test_one_image_by_itself(trained, photos):
    path = photos / "wren" / "000.png"
    for one in (path, str(path), [path], [Image.open(path)]):
        np.testing.assert_allclose(trained.predict_proba(one), trained.predict_proba([path]), atol=1e-6)
    with pytest.raises(SourceError, match=r"expected a list of paths or Pillow images, not a single Image"):
        trained.predict(toy_image())


def test_what_is_no_image_list(trained):
    with pytest.raises(SourceError, match="item 0 is a ndarray, expected a path or a Pillow image"):
        trained.predict(np.zeros((2, 8, 8, 3)))
    with pytest.raises(SourceError, match="does not exist"):
        trained.predict("nowhere")


@pytest.mark.parametrize("kind", [list, np.array, iter])
def test_whole_numbers_come_back_as_whole_numbers(photos, tmp_path, kind):
    paths, labels = listed(photos)
    numbers = {"great_tit": 10, "robin": 2, "wren": -1}
    y = [numbers[label] for label in labels]
    clf = ImageClassifier(ToyEncoder(), method=ZeroShot()).fit(paths, kind(y))
    assert clf.classes_.tolist() == [-1, 2, 10]
    assert clf.predict(paths).dtype.kind == "i"
    clf.save(tmp_path / "numbers.lpp")
    loaded = ImageClassifier.load(tmp_path / "numbers.lpp", encoder=ToyEncoder())
    np.testing.assert_array_equal(loaded.predict(paths), clf.predict(paths))
    assert loaded.classes_.tolist() == [-1, 2, 10]
    assert loaded.evaluate(paths, y).accuracy == (clf.predict(paths) == np.array(y)).mean()
    clf.look_into()


def test_labels_of_other_kinds_are_refused(photos):
    paths, labels = listed(photos)
    with pytest.raises(SourceError, match=r"labels must be all strings or all whole numbers, but one is 0\.5"):
        ImageClassifier(ToyEncoder()).fit(paths, [0.5] * len(paths))
    for mixed in ([0, *labels[1:]], [*labels[1:], 2.5], [None, *labels[1:]]):
        with pytest.raises(SourceError, match=r"but one is (0|2\.5|None)\."):
            ImageClassifier(ToyEncoder()).fit(paths, mixed)
    with pytest.raises(SourceError, match="15 images need as many labels"):
        ImageClassifier(ToyEncoder()).fit(paths, labels[:-1])
    with pytest.raises(SourceError, match="has no labels"):
        ImageClassifier(ToyEncoder()).fit(paths)
    with pytest.raises(SourceError, match="has its own"):
        ImageClassifier(ToyEncoder()).fit(photos, labels)


def test_evaluate(trained, new_photos, tmp_path):
    paths, labels = listed(new_photos)
    expected = (trained.predict(paths) == np.array(labels)).mean()
    for result in (
        trained.evaluate(new_photos),
        trained.evaluate(paths, labels),
        trained.evaluate(trained.embed(new_photos, labels=True)),
    ):
        assert result.images == 5
        assert result.accuracy == expected
        assert [score.label for score in result.classes] == trained.classes_.tolist()
    with pytest.raises(SourceError, match="no labels to compare with"):
        trained.evaluate(paths)
    with pytest.raises(
        SourceError,
        match=r"does not know 'owl' \(such as .*owl/000\.png\); it knows great_tit, robin, wren\. Leave",
    ):
        trained.evaluate(make_folder(tmp_path / "other", {"owl": 1, "wren": 1}))


def test_saved_and_loaded(photos, new_photos, tmp_path):
    clf = ImageClassifier(ToyEncoder(), template=["a {}.", "a small {}."], views=2).fit(photos)
    insight = clf.look_into()
    clf.save(tmp_path / "birds.lpp")
    loaded = ImageClassifier.load(tmp_path / "birds.lpp", encoder=ToyEncoder())
    np.testing.assert_array_equal(loaded.predict_proba(new_photos), clf.predict_proba(new_photos))
    assert loaded.names_ == clf.names_
    assert loaded.views == 2
    assert loaded.classifier_.metadata_["insight"]["accuracy"] == insight.accuracy
    assert loaded.classifier_.metadata_["images"]["templates"] == ["a {}.", "a small {}."]
    assert loaded.look_into() == insight
    loaded.save(tmp_path / "again.lpp", support=False)
    small = ImageClassifier.load(tmp_path / "again.lpp")
    assert small.names_ == clf.names_
    with pytest.raises(SourceError, match="no longer has its training images"):
        small.look_into()


def test_a_file_says_what_it_was_trained_with_not_what_was_set_later(photos, tmp_path):
    clf = ImageClassifier(ToyEncoder(), template="a {}.").fit(photos)
    clf.look_into()
    clf.template, clf.views = "nothing", 7
    clf.save(tmp_path / "birds.lpp")
    about = ImageClassifier.load(tmp_path / "birds.lpp").classifier_.metadata_
    assert about["images"]["templates"] == ["a {}."]
    assert about["images"]["views"] == 0
    clf.template, clf.views = "one {}.", 0
    clf.fit(photos)
    clf.save(tmp_path / "birds.lpp")
    assert ImageClassifier.load(tmp_path / "birds.lpp").classifier_.metadata_["insight"] is None  # Not the first one's.


def test_a_classifier_of_embeddings_is_no_image_classifier(tmp_path):
    F = np.random.default_rng(0).standard_normal((6, 4))
    LPPlusPlus().fit(F, [0, 1] * 3, text=F[:2]).save(tmp_path / "probe.lpp")
    with pytest.raises(ModelFormatError, match=r"without an image encoder: use lpplusplus\.load"):
        ImageClassifier.load(tmp_path / "probe.lpp")


def test_another_encoder_is_refused_naming_both(trained, photos, tmp_path):
    trained.save(tmp_path / "birds.lpp")
    other = ImageClassifier.load(tmp_path / "birds.lpp", encoder=ToyEncoder(seed=1))
    with pytest.raises(SourceError, match=r"toy:0 \(toy-0-24, 24 dimensions\).*toy:1 \(toy-1-24, 24 dimensions\)"):
        other.predict(photos)
    embed(from_folder(photos), ToyEncoder(seed=2), store=tmp_path / "features")
    with pytest.raises(SourceError, match=r"toy:0.*features.*toy:2"):
        trained.predict(tmp_path / "features")
    with pytest.raises(SourceError, match=r"toy:0.*toy:2"):
        ImageClassifier(ToyEncoder()).fit(photos, val=tmp_path / "features")


def test_trained_on_arrays_it_takes_no_images(photos, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", embeddings=rng.standard_normal((6, 4)), labels=[0, 1] * 3)
    clf = ImageClassifier().fit(tmp_path / "a.npz")
    clf.save(tmp_path / "a.lpp")
    for one in (clf, ImageClassifier.load(tmp_path / "a.lpp")):
        assert one.predict(tmp_path / "a.npz").shape == (6,)
        with pytest.raises(SourceError, match="was trained on a file of arrays"):
            one.predict(photos)


def test_a_feature_store_brings_its_encoder(photos, new_photos, tmp_path, monkeypatch):
    """Also for validation images; and the classifier's own setting stays what it was."""
    monkeypatch.setitem(MODULES, "toy", "toy_encoder")
    embed(from_folder(photos), ToyEncoder(), store=tmp_path / "features")
    clf = ImageClassifier().fit(tmp_path / "features", val=new_photos)
    assert clf.encoder is None
    assert clf.origin_.spec == "toy:0"
    assert clf.predict(new_photos).shape == (5,)


def test_an_encoder_that_is_named_is_meant(photos, tmp_path):
    """Even if it is the one that is used where none is named."""
    embed(from_folder(photos), ToyEncoder(), store=tmp_path / "features")
    with pytest.raises(SourceError, match=r"toy:0 .*the encoder given now to embedded"):
        ImageClassifier("embedded").fit(tmp_path / "features")


def test_views_and_stores_belong_to_images(photos, tmp_path):
    embed(from_folder(photos), ToyEncoder(), store=tmp_path / "features", views=2)
    assert ImageClassifier(ToyEncoder()).fit(tmp_path / "features").support_.X.shape == (15, 2, 24)
    assert ImageClassifier(ToyEncoder(), views=2).fit(tmp_path / "features").support_.views == 2
    with pytest.raises(SourceError, match=r"holds embeddings already, of 2 random crops.*views"):
        ImageClassifier(ToyEncoder(), views=3).fit(tmp_path / "features")
    with pytest.raises(SourceError, match=r"holds embeddings already.*a store"):
        ImageClassifier(ToyEncoder()).fit(tmp_path / "features", store=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_views_change_training_and_not_prediction(photos, new_photos):
    encoder = ToyEncoder()
    clf = ImageClassifier(encoder, views=3, method=TipAdapter()).fit(photos)
    assert clf.support_.X.shape == (15, 3, 24)
    assert clf.embed(new_photos).X.shape == (5, 1, 24)


def test_names_set_words_and_order(photos):
    names = {"wren": "tiny bird", "owl": "owl", "robin": "red bird", "great tit": "blue bird"}
    clf = ImageClassifier(ToyEncoder()).fit(photos, names=names)
    assert clf.classes_.tolist() == ["wren", "owl", "robin", "great_tit"]
    assert clf.names_ == ("tiny bird", "owl", "red bird", "blue bird")
    text = class_texts(ToyEncoder(), clf.names_)
    np.testing.assert_allclose(clf.class_text_, text, atol=1e-6)
    with pytest.raises(SourceError, match="which the list of class names does not have"):
        ImageClassifier(ToyEncoder()).fit(photos, names={"wren": "wren", "robin": "robin"})


def test_images_decide_what_templates_are_worth(photos, tmp_path):
    """LP++ is given every template, other methods their mean; a subject is saved as its sentences."""
    templates = ["a {}.", "the {}!", "no {}?"]
    clf = ImageClassifier(ToyEncoder(), template=templates).fit(photos)
    prompts = np.stack([ImageClassifier(ToyEncoder(), template=t).fit(photos).class_text_ for t in templates])
    expected = LPPlusPlus().fit(clf.support_.X, clf.support_.labels, text=prompts)
    np.testing.assert_allclose(clf.classifier_.text_, expected.text_, atol=1e-6)
    assert clf.look_into().measured  # Folds get every template, too.
    plain = ImageClassifier(ToyEncoder(), template=templates, method=ZeroShot()).fit(photos)
    np.testing.assert_allclose(plain.classifier_.text_, plain.class_text_, atol=1e-6)
    with pytest.raises(ValueError, match="exactly once"):
        ImageClassifier(ToyEncoder(), template="no place").fit(photos)
    ImageClassifier(ToyEncoder(), template="@pet").fit(photos).save(tmp_path / "pets.lpp")
    assert ImageClassifier.load(tmp_path / "pets.lpp", encoder=ToyEncoder()).template == list(SUBJECTS["pet"])


def test_validation_of_each_kind(photos, new_photos):
    paths, labels = listed(new_photos)
    a = ImageClassifier(ToyEncoder()).fit(photos, val=new_photos)
    b = ImageClassifier(ToyEncoder()).fit(photos, val=paths, y_val=labels)
    np.testing.assert_array_equal(a.classifier_.coef_, b.classifier_.coef_)
    assert a.look_into().measured == "validation"
    assert len(a.validation_) == 5
    with pytest.raises(ValueError, match="unknown label 'owl'"):
        ImageClassifier(ToyEncoder()).fit(photos, val=paths, y_val=["owl"] * 5)


def test_a_failed_fit_leaves_everything_as_it_was(photos, new_photos, tmp_path):
    clf = ImageClassifier(ToyEncoder()).fit(photos)
    clf.look_into()
    before, answers = state(clf), clf.predict_proba(new_photos)
    bad = make_folder(tmp_path / "bad", {"a": 2, "b": 2})
    (bad / "b" / "000.png").write_text("no image")
    embed(from_folder(photos), ToyEncoder(seed=5), store=tmp_path / "features")
    for source, options, error in (
        (bad, {}, ImageError),
        (tmp_path / "nowhere", {}, SourceError),
        (tmp_path / "features", {}, SourceError),
        (photos, {"shots": 99}, SourceError),
        (photos, {"val": bad}, ImageError),
        (photos, {"val": make_folder(tmp_path / "strange", {"x": 1, "y": 1})}, ValueError),
    ):
        with pytest.raises(error):
            clf.fit(source, **options)
        assert state(clf) == before
    np.testing.assert_array_equal(clf.predict_proba(new_photos), answers)


def test_interrupted_it_stays_as_it_was(photos):
    clf = ImageClassifier(ToyEncoder()).fit(photos)
    before = state(clf)

    def interrupt(done, total):
        raise KeyboardInterrupt

    clf.progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        clf.fit(photos, shots=2)
    clf.progress = None
    assert state(clf) == before


def test_bad_images_stop_or_are_skipped(photos, tmp_path):
    bad = make_folder(tmp_path / "photos", {"a": 3, "b": 3})
    whole = (bad / "a" / "000.png").read_bytes()
    (bad / "a" / "000.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ImageError, match=r"a/000\.png: is truncated or damaged"):
        ImageClassifier(ToyEncoder()).fit(bad)
    clf = ImageClassifier(ToyEncoder(), on_error="skip").fit(bad)
    assert len(clf.support_) == 5
    assert [problem.path for problem in clf.support_.skipped] == [str(bad / "a" / "000.png")]
    with pytest.warns(UserWarning, match=r"1 image\(s\) cannot be read and have no answer"):
        assert clf.predict([bad / "a" / "000.png", bad / "a" / "001.png"]).shape == (1,)
    Image.new("RGB", (1, 1500)).save(bad / "a" / "line.png")
    line = ImageClassifier("embedded", on_error="skip").fit(bad).support_.skipped[-1]
    assert "too elongated" in line.reason
    with pytest.raises(SourceError, match=r"no image of the list of images can be used.*000\.png"):
        clf.predict([bad / "a" / "000.png"])


def test_a_class_does_not_lose_all_its_images_unnoticed(tmp_path):
    photos = make_folder(tmp_path / "photos", {"a": 2, "b": 2, "c": 1})
    (photos / "c" / "000.png").write_text("no image")
    with pytest.raises(SourceError, match=r"no image of class 'c' can be used.*000\.png"):
        ImageClassifier(ToyEncoder(), on_error="skip").fit(photos)
    clf = ImageClassifier(ToyEncoder(), on_error="skip").fit(photos, allow_empty=True)
    assert clf.classes_.tolist() == ["a", "b", "c"]


def test_one_class_is_refused_before_anything_is_embedded(tmp_path):
    encoder = ToyEncoder()
    with pytest.raises(SourceError, match=r"has only one class \('a'\)"):
        ImageClassifier(encoder).fit(make_folder(tmp_path / "photos", {"a": 3}), store=tmp_path / "features")
    assert encoder.batches == []
    assert not (tmp_path / "features").exists()
    np.savez(tmp_path / "a.npz", embeddings=np.ones((2, 4)), labels=["a", "a"])
    with pytest.raises(SourceError, match=r"has only one class"):
        ImageClassifier().fit(tmp_path / "a.npz")


def test_not_fitted(photos, tmp_path):
    clf = ImageClassifier(ToyEncoder())
    for ask in (clf.predict, clf.predict_proba, clf.evaluate, clf.embed, clf.save):
        with pytest.raises(SourceError, match="is not trained yet: call fit first"):
            ask(photos)
    with pytest.raises(SourceError, match="is not trained yet"):
        clf.look_into()


def test_a_change_of_encoder_counts_at_the_next_fit(photos, new_photos):
    clf = ImageClassifier(ToyEncoder()).fit(photos)
    answers = clf.predict_proba(new_photos)
    clf.encoder = ToyEncoder(seed=1)
    np.testing.assert_array_equal(clf.predict_proba(new_photos), answers)
    assert clf.fit(photos).origin_.spec == "toy:1"


def test_the_method_given_is_not_touched(photos):
    method = TipAdapter()
    clf = ImageClassifier(ToyEncoder(), method=method).fit(photos)
    assert isinstance(clf.classifier_, TipAdapter)
    assert not hasattr(method, "classes_")


def test_the_embedded_encoder_tells_colours():
    """The real model from end to end, on squares of one colour."""
    shades = {
        "red": ["red", "darkred", "#e01010"],
        "blue": ["blue", "navy", "#1010e0"],
        "green": ["green", "lime", "#10a010"],
    }
    items = [Image.new("RGB", (40, 48), shade) for row in shades.values() for shade in row[:2]]
    labels = [name for name in shades for _ in range(2)]
    clf = ImageClassifier(template="a {} square").fit(items, labels)
    assert clf.origin_.spec == "embedded"
    assert clf.predict([Image.new("RGB", (64, 64), row[2]) for row in shades.values()]).tolist() == list(shades)


def test_arrays_of_another_width_are_refused_by_name(photos, tmp_path):
    """Photos and a file of arrays, which does not say what made them."""
    clf = ImageClassifier(ToyEncoder()).fit(photos)
    rows = np.random.default_rng(0).standard_normal((4, 7)).astype(np.float32)
    np.savez(tmp_path / "a.npz", embeddings=rows, labels=np.array(["a", "b_c"] * 2))
    for ask in (clf.add, clf.evaluate, clf.predict, lambda given: clf.fit(photos, val=given),
                lambda given: clf.fit(photos, unlabelled=given)):  # fmt: skip
        with pytest.raises(SourceError, match=r"encoder toy:0 .* but embeddings of .*a\.npz have 7 dimensions"):
            ask(tmp_path / "a.npz")
