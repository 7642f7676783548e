"""The command `lpp`, run as a user runs it: real processes, real files, what they print and what they leave behind."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import typer
from PIL import Image

import lpplusplus
from commands import LPP, ask, complaint, environment, lpp, run, usage
from lpplusplus import LPPlusPlus
from lpplusplus.cli.lpp import app
from lpplusplus.cli.train import METHODS, SUBJECTS
from lpplusplus.encoders import class_text
from lpplusplus.encoders.named_models import FOLDERS
from lpplusplus.images import ImageClassifier
from lpplusplus.images.drawings import write_demo

CLASSES = ["blue_star", "fish", "red_star"]
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals, pipes or file names")


def manifest(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["path", "label"], *rows])
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Six images per class to learn from, two to test on."""
    root = tmp_path_factory.mktemp("cli")
    write_demo(root / "all", 8, size=96)
    for label in CLASSES:
        for path in sorted((root / "all" / label).iterdir()):
            target = root / ("photos" if path.stem < "0006" else "test") / label
            target.mkdir(parents=True, exist_ok=True)
            path.rename(target / path.name)
    shutil.rmtree(root / "all")
    return root


@pytest.fixture(scope="module")
def photos(work):
    return work / "photos"


@pytest.fixture(scope="module")
def trained(work):
    """A classifier, a feature store, and what training said."""
    told = ask("train", work / "photos", "-o", work / "model.lpp", "--store", work / "photos.features", fresh=True)
    return work / "model.lpp", work / "photos.features", told


@pytest.fixture(scope="module")
def tiny(work):
    """A manifest of 2000 tiny images, each a class of its own."""
    folder = work / "tiny"
    folder.mkdir()
    for i in range(2000):
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (2, 2, 3), np.uint8)).save(folder / f"{i}.bmp")
    return manifest(work / "tiny.csv", [[f"tiny/{i}.bmp", f"class_{i}"] for i in range(2000)])


@pytest.fixture(scope="module")
def other_encoder(work):
    """The model of drawings with another tokenizer file: the same size, another model."""
    folder = work / "other"
    shutil.copytree(FOLDERS["drawings"], folder)
    with open(folder / "textual" / "tokenizer.json", "a") as file:
        file.write("\n")
    return folder


def test_the_command_is_installed():
    (script,) = entry_points(group="console_scripts", name="lpp")
    assert script.value == "lpplusplus.cli:main"
    assert callable(script.load())


def test_version_and_help():
    assert lpp("--version") == f"lpp {lpplusplus.__version__}\n"
    helped = lpp("--help", fresh=True)
    assert "Usage: lpp [OPTIONS] COMMAND" in helped
    for command in ("demo", "train", "predict", "evaluate", "embed", "inspect", "encoders"):
        assert f" {command} " in helped
    documentation = "".join(helped.rpartition("Documentation: ")[2].split())  # A long path is folded.
    assert "# " in Path(documentation).read_text(encoding="utf-8")
    assert "--template" in lpp("train", "-h")
    assert ", ".join(f"@{name}" for name in class_text.SUBJECTS) == SUBJECTS


def commands(group, prefix=()):
    """Every command of a group and of the groups in it, with its name."""
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        yield from commands(command, (*prefix, name)) if inner else [((*prefix, name), command)]


def test_every_command_has_examples_that_parse():
    """Lines at the end of `--help`, each a command line that is accepted as it stands."""
    found = dict(commands(typer.main.get_command(app)))
    assert len(found) >= 16
    for name, command in found.items():
        head, *lines = command.epilog.split("\n\n")
        assert head == "Examples:"
        assert "lpp " in lines[0], name
        shown = lpp(*name, "--help")
        for line in lines:
            assert line in shown, f"{line} does not fit into 80 columns"
            before, lpp_itself, rest = line.partition(" > ")[0].partition("lpp ")
            if not lpp_itself:  # What asks a service, such as curl.
                continue
            assert not before or "=" in before, "nothing but variables comes before lpp"
            words = shlex.split(lpp_itself + rest)
            assert tuple(words[1 : len(name) + 1]) == name
            command.make_context(line, words[len(name) + 1 :])  # Raises for a word that is not understood.


def test_every_table_is_there_as_json():
    """All commands but the report, which has `--format json`."""
    for name, command in commands(typer.main.get_command(app)):
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("--json" in options) == (name != ("bench", "report"))


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("tr", "train"), ("train --method tip-adapter-f", "tip-adapter-f*"), ("bench run cy", "cycles"),
     ("embed photos -e emb", "embedded")],
)  # fmt: skip
def test_completion_in_the_shell(typed, offered):
    asked = {"_LPP_COMPLETE": "complete_bash", "COMP_WORDS": f"lpp {typed}", "COMP_CWORD": str(len(typed.split()))}
    done = run(fresh=True, **asked)
    assert offered in done.stdout.split()
    assert "--show-completion" in lpp("--help")


def test_train(trained, work):
    model, _, told = trained
    assert told["model"] == str(model)
    assert told["classes"] == CLASSES
    assert (told["images"], told["computed"], told["reused"]) == (18, 18, 0)
    assert (told["encoder"], told["method"]) == ("embedded", "lp++")
    assert told["measured"] == "4-fold cross-validation"
    assert 0 <= told["zero_shot_accuracy"] <= 1
    assert told["accuracy"] > 0.5
    assert (told["skipped"], told["ignored"], told["twins"]) == ([], 0, [])
    assert sorted(path.name for path in work.glob("model*")) == ["model.lpp"]


def test_train_again_from_the_store_of_a_folder_and_from_the_store_itself(trained, work):
    model, store, _ = trained
    again = ask("train", work / "photos", "-o", work / "again.lpp", "--store", store)
    assert (again["computed"], again["reused"]) == (0, 18)
    assert (work / "again.lpp").read_bytes() == model.read_bytes()
    fed = ask("train", store, "-o", work / "fed.lpp")
    assert (fed["computed"], fed["reused"], fed["encoder"]) == (0, 18, "embedded")
    assert (work / "fed.lpp").read_bytes() == model.read_bytes()


def test_train_for_people(work, tmp_path):
    (tmp_path / "p").mkdir()
    shutil.copytree(work / "photos" / "fish", tmp_path / "p" / "fish")
    shutil.copytree(work / "photos" / "red_star", tmp_path / "p" / "red_star")
    shutil.copy(tmp_path / "p" / "fish" / "0000.jpg", tmp_path / "p" / "red_star" / "twin.jpg")
    said = lpp("train", "p", "-o", "m.lpp", "-e", "drawings", cwd=tmp_path)
    assert "m.lpp: 2 classes from 13 images with drawings" in said
    assert "class names alone (zero-shot)" in said
    assert "Almost the same image in two classes: p/fish/0000.jpg (fish) and p/red_star/twin.jpg (red_star)" in said
    assert re.search("Weakest classes: (fish|red_star)", said)
    assert "demonstration model" in said
    assert "\x1b" not in said


def test_predict(trained, work):
    model, _, _ = trained
    images = sorted((work / "test").glob("*/*.jpg"))
    answers = ask("predict", model, *images, "--top", 2, fresh=True)
    clf = ImageClassifier.load(model)
    expected = clf.predict_proba(images)
    assert [answer["path"] for answer in answers["predictions"]] == [path.as_posix() for path in images]
    for answer, row in zip(answers["predictions"], expected, strict=True):
        assert [guess["label"] for guess in answer["top"]] == [CLASSES[k] for k in np.argsort(-row)[:2]]
        np.testing.assert_allclose([guess["probability"] for guess in answer["top"]], np.sort(row)[::-1][:2], atol=1e-6)
    assert answers["skipped"] == []

    table = list(csv.reader(io.StringIO(lpp("predict", model, work / "test", "--csv", "--top", 9))))
    assert table[0] == ["path", "rank", "label", "probability"]
    assert len(table) == 1 + 3 * len(images)
    for path, first in zip(images, table[1::3], strict=True):
        assert first[:2] == [path.as_posix(), "1"]
    assert sum(float(row[3]) for row in table[1:4]) == pytest.approx(1, abs=1e-5)

    said = lpp("predict", model, "test/fish/0006.jpg", cwd=work)
    assert "test/fish/0006.jpg" in said
    assert " %" in said


def test_predict_with_doubts(trained, work, tmp_path):
    model, store, _ = trained
    clf = ImageClassifier.load(model)
    options = ("--sets", 0.9, "--none", 0.1)
    answers = ask("predict", model, store, *options)["predictions"]
    found = clf.embed(store)
    sets, none = clf.predict_set(found, 0.9), clf.none_of_these(found, 0.1)
    assert [set(answer["set"]) for answer in answers] == [{CLASSES[k] for k in np.flatnonzero(row)} for row in sets]
    assert [answer["none_of_these"] for answer in answers] == none.tolist()
    assert all(answer["set"][:1] in ([], [answer["top"][0]["label"]]) for answer in answers)
    table = list(csv.DictReader(io.StringIO(lpp("predict", model, store, "--csv", *options))))
    assert [row["set"] for row in table] == ["|".join(answer["set"]) for answer in answers]
    assert [row["none_of_these"] for row in table] == [str(flag).lower() for flag in none.tolist()]
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (96, 96, 3), np.uint8)).save(tmp_path / "noise.png")
    said = lpp("predict", model, tmp_path / "noise.png", "--none", 0.2, "--sets", 0.8)
    assert "none of these" in said
    names = tmp_path / "names.txt"
    names.write_text("", "utf-8")
    assert "no names" in usage("predict", model, store, "--none", 0.1, "--other-names", names)
    assert "--none" in usage("predict", model, store, "--other-names", names)
    assert "between 0 and 1" in complaint("predict", model, store, "--sets", 1)


def test_predict_from_a_store_and_a_list(trained, work):
    model, store, _ = trained
    listed = manifest(work / "new.csv", [["test/fish/0006.jpg", ""], ["test/red_star/0006.jpg", ""]])
    assert [a["path"] for a in ask("predict", model, listed)["predictions"]] == [
        (work / name).as_posix() for name in ("test/fish/0006.jpg", "test/red_star/0006.jpg")
    ]
    stored = ask("predict", model, store)["predictions"]
    assert len(stored) == 18
    right = sum(a["top"][0]["label"] == Path(a["path"]).parent.name for a in stored)
    assert right >= 12


def test_evaluate(trained, work, tmp_path):
    model, _, _ = trained
    result = ask("evaluate", model, work / "test", "--plots", tmp_path / "plots", fresh=True)
    clf = ImageClassifier.load(model)
    paths = sorted((work / "test").glob("*/*.jpg"))
    assert result["accuracy"] == np.mean(clf.predict(paths) == [path.parent.name for path in paths])
    assert np.sum(result["confusion"]) == result["images"] == 6
    assert [score["label"] for score in result["classes"]] == CLASSES
    assert result["plots"] == [str(tmp_path / "plots" / name) for name in ("confusion.png", "reliability.png")]
    for name in result["plots"]:
        with Image.open(name) as image:
            image.verify()
    said = lpp("evaluate", model, work / "test")
    assert f"Accuracy {100 * result['accuracy']:.1f} % on 6 images" in said
    for title in ("By class, the weakest first", "Confusion matrix, rows the truth, columns the answer", "Reliability"):
        assert title in said
    assert "does not know 'cat'" in complaint(
        "evaluate", model, manifest(work / "x.csv", [["test/fish/0006.jpg", "cat"]])
    )


def test_embed_and_inspect(trained, work):
    model, store, _ = trained
    made = ask("embed", work / "test", "-o", work / "test.features", "--views", 2)
    assert (made["images"], made["views"], made["dim"], made["computed"]) == (6, 2, 1282, 6)
    assert (made["encoder"], made["classes"]) == ("embedded", CLASSES)
    again = lpp("embed", work / "test", "-o", work / "test.features", "--views", 2)
    assert "6 images of 3 classes, 1282 dimensions, 0 computed now, 6 reused, 0 skipped" in again
    about = ask("inspect", store)
    assert (about["kind"], about["images"], about["views"], about["damaged"]) == ("feature store", 18, 0, [])
    assert about["classes"] == CLASSES
    shown = ask("inspect", model)
    assert (shown["kind"], shown["method"], shown["dim"]) == ("classifier", "LPPlusPlus", 1282)
    assert (shown["classes"], shown["names"]) == (CLASSES, ["blue star", "fish", "red star"])
    assert (shown["encoder"], shown["templates"]) == ("embedded", ["a photo of a {}."])
    assert shown["encoder_fingerprint"] == about["encoder_fingerprint"]
    assert shown["bytes"] == model.stat().st_size
    assert "blue star, fish, red star" in lpp("inspect", model)


def test_inspect_shows_what_training_told(work, tmp_path):
    for name in ("fish", "red_star"):
        shutil.copytree(work / "photos" / name, tmp_path / "p" / name)
    shutil.copy(tmp_path / "p" / "fish" / "0000.jpg", tmp_path / "p" / "red_star" / "twin.jpg")
    told = ask("train", tmp_path / "p", "-o", tmp_path / "m.lpp", "--val", tmp_path / "p")
    about = ask("inspect", tmp_path / "m.lpp")
    for name in ("measured", "accuracy", "zero_shot_accuracy", "weakest", "doubtful_names", "twins", "copies"):
        assert about[name] == told[name]
    assert (len(about["twins"]), about["copies"]) == (1, 13)
    assert "twin.jpg" in lpp("inspect", tmp_path / "m.lpp")


def test_a_store_of_another_encoder_or_in_the_way_is_refused(trained, photos, other_encoder, work):
    _, store, _ = trained
    said = " ".join(
        usage("train", photos, "-o", work / "x.lpp", "--store", store, "-e", f"onnx:{other_encoder}").split()
    )
    assert "holds embeddings by --encoder embedded --views 0" in said
    assert "holds embeddings by --encoder" in " ".join(usage("embed", photos, "-o", store, "--views", 2).split())
    assert ask("embed", photos, "-o", store)["computed"] == 0
    assert "in the folder of the images" in " ".join(usage("embed", photos, "-o", photos / "f").split())


def test_validation_images_that_were_trained_on(photos, work, tmp_path):
    done = run("train", photos, "-o", tmp_path / "x.lpp", "--val", photos, "--json")
    assert "18 of 18 validation images are among the training images" in done.stderr
    assert run("train", photos, "-o", tmp_path / "x.lpp", "--val", work / "test", "--json").stderr == ""


def test_a_class_with_a_single_image_is_named(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "few")
    for name, said in (
        ("fish", "fish has a single image: it could not be held out."),
        ("red_star", "not measured: fish has a single image, as have 1 other classes, and"),
    ):
        for path in sorted((tmp_path / "few" / name).iterdir())[1:]:
            path.unlink()
        assert said in lpp("train", tmp_path / "few", "-o", tmp_path / "x.lpp")


def test_encoders():
    rows = ask("encoders")
    schemes = ["embedded", "clip", "clip-large", "drawings", "onnx", "open_clip", "https"]
    assert [row["scheme"].split(":")[0] for row in rows] == schemes
    assert rows[0]["usable"] is True
    assert "demonstration model" in lpp("encoders")


def test_demo(tmp_path):
    """The README's first command; all in one run, files kept."""
    before = sum(os.times()[2:4])
    result = ask("demo", "--keep", tmp_path / "demo", fresh=True)
    assert sum(os.times()[2:4]) - before < 60  # Seconds of processor time, which other work does not lengthen much.
    assert len(result["classes"]) == 24
    assert (result["train_images"], result["test_images"]) == (24 * 16, 24 * 20)
    both, names = result["by_shots"]["both (LP++)"], result["by_shots"]["class names alone (zero-shot)"]
    assert both["16"] == pytest.approx(result["accuracy"])
    assert names["1"] == pytest.approx(names["16"])  # More examples do not help names alone.
    assert 1 / 24 < names["1"] < 1
    assert both["16"] > names["16"]
    for name in ("photos", "test", "shapes.lpp", "confusion.png", "reliability.png", "photos.features"):
        assert (tmp_path / "demo" / name).exists()
    assert "name a new or empty folder" in usage("demo", "--keep", tmp_path / "demo")


def test_a_demo_that_is_stopped_leaves_nothing(tmp_path, monkeypatch):
    from lpplusplus.cli import demo

    def stopped(photos, test):
        write_demo(photos, 1, size=32)
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_draw", stopped)
    with pytest.raises(KeyboardInterrupt):
        demo.demo(keep=tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []


TRAINED = ("tip-adapter-f", "tip-adapter-f*", "clip-adapter")
OTHERS = [name for name in METHODS if name not in ("lp++", *TRAINED)]
WITH_TORCH = [pytest.param(name, marks=pytest.mark.with_torch) for name in TRAINED]


@pytest.mark.parametrize("method", [*OTHERS, *WITH_TORCH, "ZeroShot"])
def test_every_method(trained, work, method):
    _, store, _ = trained
    told = ask("train", store, "-o", work / "method.lpp", "--method", method, "--val", work / "test")
    assert (told["method"], told["measured"]) == (method, "validation")
    loaded = lpplusplus.load(work / "method.lpp")
    assert type(loaded).__name__ == METHODS.get(method, method)
    assert 0 <= told["accuracy"] <= 1


def test_options_of_training(photos, work):
    names = work / "names.txt"
    names.write_text("red_star\tstar of red colour\nfish\nblue star\ngreen heart\n")
    options = ["--shots", 2, "--views", 2, "--classes", names, "--val", work / "test"]
    options += ["-t", "a drawing of a {}.", "-t", "a {}."]
    runs = [ask("train", photos, "-o", work / f"{i}.lpp", *options, "--seed", seed) for i, seed in enumerate((3, 3, 4))]
    assert all(run["images"] == 6 and run["measured"] == "validation" for run in runs)
    assert runs[0]["classes"] == ["red_star", "fish", "blue_star", "green heart"]
    same, again, other = ((work / f"{i}.lpp").read_bytes() for i in range(3))
    assert same == again
    assert same != other
    model = ImageClassifier.load(work / "0.lpp")
    assert model.names_ == ("star of red colour", "fish", "blue star", "green heart")
    assert model.template == ["a drawing of a {}.", "a {}."]
    assert model.views == 2


@pytest.fixture(scope="module")
def bad(work):
    """Photos with a truncated JPEG and a text that calls itself a JPEG."""
    folder = work / "bad"
    shutil.copytree(work / "photos", folder)
    whole = (folder / "fish" / "0001.jpg").read_bytes()
    (folder / "fish" / "0001.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "red_star" / "0002.jpg").write_text("I am a picture.")
    (folder / "fish" / "notes.txt").write_text("passed over")
    return folder


def test_bad_images_stop(bad, trained, work):
    """By default; and a classifier that was there stays as it was."""
    output = work / "kept.lpp"
    shutil.copyfile(trained[0], output)
    said = complaint("train", bad, "-o", output)
    assert str(bad / "fish" / "0001.jpg") in said
    assert "truncated" in said
    assert "--on-error skip" in said
    assert output.read_bytes() == trained[0].read_bytes()
    assert sorted(path.name for path in work.glob("*kept.lpp*")) == ["kept.lpp"]
    assert "is not a JPEG" in complaint("embed", bad / "red_star", "-o", work / "f", "--no-labels")


def test_bad_images_are_skipped(bad, trained, work):
    broken = [str(bad / "fish" / "0001.jpg"), str(bad / "red_star" / "0002.jpg")]
    done = run("train", bad, "-o", work / "skip.lpp", "--on-error", "skip", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert [problem["path"] for problem in told["skipped"]] == broken
    assert (told["images"], told["ignored"]) == (16, 1)
    assert done.stderr.count("skipped: ") == done.stderr.count("\n") == 2
    for name in ("predict", "evaluate"):
        result = ask(name, trained[0], bad, "--on-error", "skip")
        assert [problem["path"] for problem in result["skipped"]] == broken
    said = run("predict", trained[0], *broken, "--on-error", "skip")
    assert said.returncode == 1
    assert said.stderr.splitlines()[-1].startswith("lpp: no image of the list of images can be used")


def test_wrong_command_lines(trained, photos, work):
    model, _, _ = trained
    assert "missing argument 'source'" in usage("train").lower()  # Typer before 0.16 writes SOURCE.
    assert "Missing option" in usage("train", photos)
    assert "No such command 'trian'" in usage("trian")
    assert "is not one of lp++, zero-shot" in usage("train", photos, "-o", work / "x.lpp", "--method", "lp")
    assert "'CoOp' needs the model itself" in usage("train", photos, "-o", work / "x.lpp", "--method", "CoOp")
    assert "is a folder: name a file" in usage("train", photos, "-o", work)
    assert "does not exist: make it first" in usage("train", photos, "-o", work / "no" / "x.lpp")
    assert "is also an input" in usage("train", work / "list.csv", "-o", manifest(work / "list.csv", []))
    assert "named like an image" in usage("train", photos, "-o", photos / "fish" / "0000.jpg")
    (work / "script.py").write_text("print(1)")
    assert "is not a classifier as lpp writes it: name another file" in usage("train", photos, "-o", work / "script.py")
    assert (work / "script.py").read_text() == "print(1)"
    assert "choose one of --json and --csv" in usage("predict", model, photos, "--json", "--csv")
    assert "name a single folder, or images" in usage("predict", model, photos, work / "test")
    wrong = usage("train", photos, "-o", work / "x.lpp", "--shots", "0")
    assert re.search(r"equal to 1|x>=1", wrong)  # As the version of click says it.


def test_things_that_are_not_there_or_of_another_kind(trained, photos, work, tmp_path):
    model, _, _ = trained
    assert "x.lpp: there is no such file." in complaint("predict", "x.lpp", photos, fresh=True)
    assert "is a folder, not a classifier" in complaint("evaluate", photos, model)  # The other way round.
    assert "nowhere does not exist" in complaint("train", "nowhere", "-o", work / "x.lpp")
    assert "new.heic: does not exist." in complaint("predict", model, "new.heic")
    assert "is not a JPEG, PNG" in complaint("predict", model, model)
    assert "is not a feature store" in complaint("inspect", photos)
    assert "expected <class>/*.jpg" in complaint("train", ".", "-o", "x.lpp", cwd=tmp_path)
    assert "there is no encoder 'resnet'" in complaint("train", photos, "-o", work / "x.lpp", "--encoder", "resnet")
    said = complaint("train", photos, "-o", work / "x.lpp", "--classes", "no.txt")
    assert "no.txt: class names cannot be read (No such file or directory)" in said
    np.savez(tmp_path / "a.npz", embeddings=np.eye(4), labels=[0, 1, 0, 1])
    said = run("train", tmp_path / "a.npz", "-o", tmp_path / "a.lpp", "-t", "a {}.", "--json")
    assert json.loads(said.stdout)["encoder"] is None
    assert ask("inspect", tmp_path / "a.lpp")["templates"] == []
    assert "--template has no use" in said.stderr
    assert not (work / "x.lpp").exists()
    np.save(tmp_path / "lone.npy", np.eye(4))
    assert "np.savez(" in complaint("train", tmp_path / "lone.npy", "-o", tmp_path / "x.lpp")
    np.savez(tmp_path / "object.npz", embeddings=np.eye(4), labels=np.array(list("abab"), dtype=object))
    assert "labels.astype(str)" in complaint("train", tmp_path / "object.npz", "-o", tmp_path / "x.lpp")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    shutil.copytree(photos / "fish", tmp_path / "empty" / "fish")
    assert "--allow-empty" in complaint("train", tmp_path / "empty", "-o", tmp_path / "x.lpp")


def test_broken_and_foreign_models(trained, photos, work):
    model, _, _ = trained
    broken = work / "broken.lpp"
    broken.write_bytes(model.read_bytes()[:-100])
    assert "truncated" in complaint("predict", broken, photos)
    safetensors.numpy.save_file({"a": np.ones(3)}, broken)
    assert "not a classifier saved by lpplusplus" in complaint("evaluate", broken, photos)
    F = np.random.default_rng(0).standard_normal((6, 4))
    LPPlusPlus().fit(F, [0, 1] * 3, text=F[:2]).save(broken)
    assert "without an image encoder" in complaint("predict", broken, photos)
    assert ask("inspect", broken)["encoder"] is None


def test_another_encoder_is_refused_and_a_moved_one_is_not(trained, work, other_encoder):
    model, _, _ = trained
    said = complaint("predict", model, work / "test", "--encoder", f"onnx:{other_encoder}")
    assert "the encoder embedded (onnx-" in said
    assert f"onnx:{other_encoder} (onnx-" in said
    made = ask("embed", work / "test", "-o", work / "other.features", "-e", f"onnx:{other_encoder}")
    assert made["encoder"] == f"onnx:{other_encoder}"
    assert "cannot be compared" in complaint("evaluate", model, work / "other.features")
    shutil.copytree(FOLDERS["embedded"], work / "moved")
    moved = ask("predict", model, work / "test", "--encoder", f"onnx:{work / 'moved'}")
    assert moved == ask("predict", model, work / "test")
    settings = work / "moved" / "visual" / "preprocess_cfg.json"
    settings.write_text(settings.read_text().replace("bilinear", "bicubic"))
    said = complaint("predict", model, work / "test", "--encoder", f"onnx:{work / 'moved'}")
    assert '"interpolation": "bilinear"' in said
    assert '"interpolation": "bicubic"' in said


def test_debug_shows_where(photos, work):
    done = run("train", "nowhere", "-o", work / "x.lpp", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("lpp: nowhere does not exist")


ODD = ["../x", ":fish:", "[/]", "[red]x", "naïve 鳥", "{0.__class__}"]


def test_odd_class_names_are_only_names(work, tmp_path):
    rows = [
        [(work / f"photos/{CLASSES[i % 3]}/000{j}.jpg"), ODD[i]]
        for i in range(6)
        for j in ((0, 1) if i < 3 else (2, 3))
    ]
    told = ask(
        "train", manifest(tmp_path / "odd.csv", rows), "-o", tmp_path / "[red]odd.lpp", "--store", tmp_path / "f"
    )
    assert told["classes"] == ODD
    said = {
        "train": lpp("train", tmp_path / "odd.csv", "-o", tmp_path / "[red]odd.lpp", "--store", tmp_path / "f"),
        "predict": lpp("predict", tmp_path / "[red]odd.lpp", work / "test" / "fish" / "0006.jpg", "--top", 6),
        "evaluate": lpp("evaluate", tmp_path / "[red]odd.lpp", tmp_path / "odd.csv", "--plots", tmp_path / "p"),
        "inspect": lpp("inspect", tmp_path / "[red]odd.lpp"),
    }
    for command in ("predict", "evaluate", "inspect"):
        for name in ODD:
            assert name in said[command], (command, name)
    assert "[red]odd.lpp: 6 classes" in said["train"]
    assert "[red]odd.lpp" in said["inspect"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["[red]odd.lpp", "f", "odd.csv", "p"]
    assert not (tmp_path.parent / "x").exists()


@POSIX
def test_odd_file_names(trained, work, tmp_path):
    """Brackets, blanks, line ends, terminal codes and bytes that are no text; with a strict terminal, too."""
    names = [b"[red] a.jpg", b"two\nlines :fish:.jpg", "é 鳥.jpg".encode(), b"\xff\x1b[31m.jpg"]
    folder = os.fsencode(tmp_path / "odd")
    os.mkdir(folder)
    for name in names:
        shutil.copy(work / "test" / "fish" / "0006.jpg", os.path.join(folder, name))
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    answers = ask("predict", trained[0], tmp_path / "odd")["predictions"]
    assert sorted(os.path.basename(os.fsencode(answer["path"])) for answer in answers) == sorted(names)
    said = lpp("predict", trained[0], tmp_path / "odd", **strict)
    for shown in ("[red] a.jpg", r"two\nlines :fish:.jpg", "é 鳥.jpg", r"\udcff\x1b[31m.jpg"):
        assert shown in said
    assert "\x1b" not in said
    assert len(list(csv.reader(io.StringIO(lpp("predict", trained[0], tmp_path / "odd", "--csv", **strict))))) == 5
    with open(os.path.join(folder, b"\xfe\n[red].jpg"), "w") as file:
        file.write("no picture")
    assert r"\udcfe [red].jpg: is not a JPEG" in complaint("predict", trained[0], tmp_path / "odd")
    made = ask("embed", tmp_path / "odd", "-o", tmp_path / "f", "--no-labels", "--on-error", "skip")
    assert (made["images"], len(made["skipped"])) == (4, 1)
    ascii_only = lpp("predict", trained[0], tmp_path / "f", "--top", 3, PYTHONIOENCODING="ascii")
    assert ascii_only.isascii()


@POSIX
@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder in which not even root can make a file")
def test_a_place_that_cannot_be_written_is_refused_before_the_work(trained, photos, work):
    """Not after minutes of embedding; and by an attempt, since root may do what the file's mode forbids."""
    said = usage("train", photos, "-o", "/proc/x.lpp")
    assert "nothing can be written to /proc" in said
    assert "nothing can be written to /proc" in usage("train", photos, "-o", work / "x.lpp", "--store", "/proc/x")
    assert "nothing can be written to /proc" in usage("embed", photos, "-o", "/proc/x")
    assert "nothing can be written to /proc" in usage("evaluate", trained[0], work / "test", "--plots", "/proc/x/y")
    assert not list(work.glob(".x.lpp*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["encoders"], ["encoders", "--json"], ["--version"], ["bench", "datasets"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output(command, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*LPP, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                              env=environment(PYTHONUNBUFFERED=unbuffered))  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "lpp: standard output: No space left on device.\n")


@POSIX
@pytest.mark.parametrize("kind", [[], ["--json"], ["--csv"]])
def test_nobody_reads_on(trained, work, kind):
    command = [*LPP, "predict", str(trained[0]), str(work / "test"), "--top", "3", *kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


@POSIX
def test_progress_on_a_terminal_stays_off_standard_output(trained, work):
    import pty

    ours, theirs = pty.openpty()
    command = [*LPP, "predict", str(trained[0]), str(work / "test"), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment(TERM="xterm"))
    os.close(theirs)
    assert len(json.load(process.stdout)["predictions"]) == 6
    process.stdout.close()
    assert process.wait() == 0
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed.
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert b"Classifying" in shown


def hears_ctrl_c():
    """In a child: it hears Ctrl-C even if the tests run in a shell's background, which would make it deaf."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


STUBBORN = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True:
        time.sleep(0.01)
except KeyboardInterrupt as error:
    raise RuntimeError("some packages turn Ctrl-C into another error while they are imported") from error
"""


@POSIX
def test_interrupted_while_importing(photos, tmp_path):
    """Ctrl-C before the work has begun: no traceback, whatever becomes of it in the import that it meets."""
    told = {}
    for package in ("lazy_loader", "typer", "onnxruntime"):
        (tmp_path / f"{package}.py").write_text(STUBBORN)
        done = subprocess.run(
            [*LPP, "train", photos, "-o", tmp_path / "x.lpp"], capture_output=True, text=True, check=False, timeout=600,
            env=environment(PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])), preexec_fn=hears_ctrl_c,
        )  # fmt: skip
        (tmp_path / f"{package}.py").unlink()
        told[package] = done.returncode, done.stdout, done.stderr
    assert told["typer"] == (130, "", "")
    assert told["lazy_loader"] == told["onnxruntime"] == (130, "", "lpp: interrupted; nothing half-written is left.\n")


@pytest.mark.parametrize("options", [{"store": "f"}, {}])
def test_an_interruption_speaks_of_a_store_only_if_there_is_one(options, capsys):
    from lpplusplus.cli.command import add_command

    def work(store: str | None = None) -> None:
        raise KeyboardInterrupt

    group = typer.Typer()
    add_command(group, work)
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    with pytest.raises(SystemExit) as leaving:
        group(arguments)
    assert leaving.value.code == 130
    assert ("embeddings" in capsys.readouterr().err) == bool(options)


@POSIX
def test_interrupted_with_two_thousand_classes(tiny, work):
    """Ctrl-C while embedding: exit 130, one line, nothing half-written; the next run goes on from there."""
    for attempt in range(4):  # On a busy machine it may be done before we get to press the keys.
        store, output = work / f"tiny{attempt}.features", work / f"tiny{attempt}.lpp"
        command = [*LPP, "train", str(tiny), "-o", str(output), "--store", str(store), "-e", "drawings", "--json"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
            preexec_fn=hears_ctrl_c,
        )  # fmt: skip
        deadline = time.monotonic() + 300
        while not (store / "next" / "shard-000000.safetensors").exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=300)
        if process.returncode:
            break
    assert process.returncode == 130
    assert said == ""
    assert complained.startswith("lpp: interrupted")
    assert complained.count("\n") == 1
    assert not output.exists()
    left = {path.relative_to(store).as_posix() for path in store.rglob("*")}
    assert "next/shard-000000.safetensors" in left
    assert "index.json" not in left
    assert not any(name.endswith(".tmp") for name in left)
    assert not list(work.glob(".tiny*.lpp*"))
    assert "is incomplete: embedding was interrupted" in complaint("train", store, "-o", output)

    told = ask("train", tiny, "-o", output, "--store", store, "-e", "drawings")
    assert told["computed"] + told["reused"] == 2000
    assert 512 <= told["reused"] < 2000
    assert len(told["classes"]) == 2000
    assert told["measured"] == "not measured"
    shown = ask("inspect", output)
    assert len(shown["classes"]) == 2000
    answer = ask("predict", output, tiny.parent / "tiny" / "7.bmp", "--top", 1)["predictions"][0]
    assert answer["top"][0]["label"] in shown["classes"]
