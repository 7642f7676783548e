"""From embeddings to answers, the one way: what may be asked of whom, and whose embeddings."""

import numpy as np
import pytest

from lpplusplus import LPPlusPlus, ZeroShot
from lpplusplus.images import ImageClassifier, SourceError, embed, open_images
from lpplusplus.images.answers import Question, answers
from toy_encoder import ToyEncoder
from toy_images import make_folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("answers") / "photos", {"robin": 4, "wren": 4, "dunnock": 4})


@pytest.fixture(scope="module")
def trained(photos):
    return ImageClassifier(ToyEncoder()).fit(photos)


@pytest.mark.parametrize(
    "ask",
    [
        lambda clf, images: clf.predict(images),
        lambda clf, images: clf.predict_proba(images),
        lambda clf, images: clf.predict_set(images),
        lambda clf, images: clf.none_of_these(images),
        lambda clf, images: clf.evaluate(images),
        lambda clf, images: clf.suggest(images),
        lambda clf, images: clf.report(None, images),
        lambda clf, images: answers(clf, images, Question(top=2, nearest=1)),
    ],
    ids=["predict", "proba", "set", "none", "evaluate", "suggest", "report", "answers"],
)
def test_embeddings_of_another_encoder_are_refused_by_all(trained, photos, ask):
    """As `embed` refuses them: numbers of another encoder mean something else, and the answers would be noise."""
    others = embed(open_images(photos), ToyEncoder(seed=1))
    with pytest.raises(SourceError, match="belongs to the encoder"):
        ask(trained, others)
    renamed = ToyEncoder()
    renamed.spec = "the same one under another name"
    ask(trained, embed(open_images(photos), renamed))


def test_everything_at_once(trained, photos):
    images = trained.embed(photos, labels=True)
    said = answers(trained, images, Question(top=2, sets=0.9, none=0.1, other_names=("cat",), nearest=3))
    np.testing.assert_array_equal(said.probabilities, trained.predict_proba(images))
    np.testing.assert_array_equal(said.sets, trained.predict_set(images, 0.9))
    np.testing.assert_array_equal(said.none, trained.none_of_these(images, 0.1, other_names=["cat"]))
    first = said.as_dicts(2)[0]
    assert list(first) == ["path", "top", "set", "none_of_these", "nearest"]
    assert first["nearest"][0] == first["path"]  # It was trained on it.
    assert [guess["label"] for guess in first["top"]] == [said.classes[k] for k in said.order[0, :2]]


def test_a_bare_method_answers_too(trained, photos):
    """The service and the page have some."""
    images = trained.embed(photos)
    said = answers(trained.classifier_, images, Question(sets=0.9))
    np.testing.assert_array_equal(said.probabilities, trained.predict_proba(images))
    assert said.classes == trained.classes_.tolist()
    with pytest.raises(SourceError, match="without the embeddings"):
        answers(trained.classifier_, images, Question(nearest=1))


def test_what_a_method_cannot_say(trained, photos):
    images, names = trained.embed(photos), trained.class_text_
    with pytest.raises(SourceError, match="predict_set is for LPPlusPlus"):
        answers(ZeroShot().fit(text=names, classes=trained.classes_), images, Question(sets=0.9))
    one_each = LPPlusPlus().fit(images.rows[::4], ["dunnock", "robin", "wren"])
    with pytest.raises(ValueError, match="held out"):
        answers(one_each, images, Question(none=0.1))
