"""`lpp export`: one ONNX file answers as the classifier does, in onnxruntime and in a browser."""

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import lpplusplus
from browsing import browser, web_files
from commands import ask, complaint, lpp, usage
from helpers import shared_data
from lpplusplus.deploy.export import export_onnx, is_export
from lpplusplus.deploy.export.head import ExportError, head_model
from lpplusplus.deploy.export.pixels import pixels_model
from lpplusplus.encoders.pixels.preprocessing import Preprocessing
from lpplusplus.images import ImageClassifier


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else Path(model).read_bytes()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def made_up(rng, width, height, tint=(1, 1, 1)):
    """A smooth image with some noise: smooth ones round differently from noise alone."""
    colours = (rng.integers(0, 256, (5, 7, 3)) * tint).astype(np.uint8)
    smooth = Image.fromarray(colours).resize((width, height))
    return np.clip(np.asarray(smooth) + rng.integers(-9, 9, (height, width, 3)), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A classifier of made-up images by the encoder of photos, and its export, in one folder."""
    folder, rng = tmp_path_factory.mktemp("export"), np.random.default_rng(0)
    tints = {"red <b>": (1, 0.2, 0.2), "green": (0.2, 1, 0.2), "blue": (0.2, 0.2, 1)}
    images = [Image.fromarray(made_up(rng, 90, 60, tint)) for tint in [*tints.values()] * 4]
    clf = ImageClassifier().fit(images, [*tints] * 4)
    clf.save(folder / "birds.lpp")
    export_onnx(clf, folder / "birds.onnx")
    return clf, folder


class TestPixels:
    @pytest.mark.parametrize(
        "how",
        [
            Preprocessing(),
            Preprocessing(size=64, interpolation="bilinear"),
            Preprocessing(size=60, resize="squash"),
            Preprocessing(size=37, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)),
        ],
        ids=["clip", "bilinear", "squash", "prime"],
    )
    def test_the_graph_gives_the_bits_of_pillow(self, how):
        rng = np.random.default_rng(0)
        graph = session(pixels_model(how, "pixels", np.float32, 17, 8))
        sizes = [(1, 1), (3, 900), (900, 3), (how.size, 300), (how.size + 1, 480), (100, 600), (600, 100), (224, 224)]
        for width, height in [*sizes, *rng.integers(2, 600, (12, 2))]:
            for pixels in (made_up(rng, width, height), rng.integers(0, 256, (height, width, 3), dtype=np.uint8)):
                (ours,) = graph.run(None, {"image": pixels})
                np.testing.assert_array_equal(ours[0], how.centre(Image.fromarray(pixels)), str((width, height)))

    def test_a_large_photo_takes_little_memory(self):
        """Twelve million pixels are 36 MB. A child measures, since a peak cannot be taken back."""
        child = """
import resource, numpy as np, onnxruntime
from lpplusplus.deploy.export.pixels import pixels_model
from lpplusplus.encoders.pixels.preprocessing import Preprocessing
model = pixels_model(Preprocessing(), "pixels", np.float32, 17, 8).SerializeToString()
graph, photo = onnxruntime.InferenceSession(model), np.ones((3000, 4000, 3), np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph.run(None, {"image": photo})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
        if sys.platform != "linux":
            pytest.skip("ru_maxrss has other units elsewhere")
        done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
        assert float(done.stdout) < 300


class TestHead:
    METHODS = [
        lpplusplus.LPPlusPlus(),
        lpplusplus.LPPlusPlus(normalize=False, recipe="released"),
        lpplusplus.LinearProbe(),
        lpplusplus.ZeroShot(),
        lpplusplus.GDA(),
        lpplusplus.TIMO(),
        lpplusplus.SSText(),
        lpplusplus.ProKeR(),
        lpplusplus.TipAdapter(),
        lpplusplus.TipAdapterF(epochs=1),
        lpplusplus.TipAdapterFStar(epochs=1),
        lpplusplus.ClipAdapter(epochs=1),
        lpplusplus.ClipAdapter(epochs=1, flavour="lpp"),
        lpplusplus.LinearAdapter(epochs=1),
        lpplusplus.CLAP(epochs=1),
        lpplusplus.CrossModalProbe(),
    ]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
    def test_every_method_on_embeddings(self, method, dtype):
        rng = np.random.default_rng(1)
        text = rng.standard_normal((4, 12)).astype(dtype)
        y = np.repeat(np.arange(4), 3)
        X = (text[y] + rng.standard_normal((12, 12))).astype(dtype)
        method.fit(X, y, text=text)
        new = np.concatenate([rng.standard_normal((20, 12)), (1e25 if method.normalize else 1) * X[:1]]).astype(
            np.float32
        )
        (ours,) = session(head_model(method, 17, 8)).run(["probabilities"], {"embedding": new})
        assert ours.dtype == np.float32
        # TIMO's logits are beyond 2000. No two sums agree on the last bit of such numbers; a probability changes by
        # up to a quarter of it: with the oldest numpy by 3.4e-6.
        last_bit = float(np.finfo(dtype).eps * np.abs(method.decision_function(new)).max())
        np.testing.assert_allclose(ours, method.predict_proba(new), atol=max(3e-6, last_bit / 4))

    @pytest.mark.parametrize("named", [True, False])
    @pytest.mark.parametrize("opset", [17, 20])
    def test_none_of_these(self, named, opset):
        rng = np.random.default_rng(2)
        text = rng.standard_normal((4, 12)).astype(np.float32)
        y = np.repeat(np.arange(4), 6)
        X = (2 * text[y] + rng.standard_normal((24, 12))).astype(np.float32)
        probe = lpplusplus.LPPlusPlus().fit(X, y, text=text if named else None)
        new = np.concatenate([X, rng.standard_normal((40, 12))]).astype(np.float32)
        graph = session(head_model(probe, opset, 8))
        scores, none = graph.run(["familiarity", "none_of_these"], {"embedding": new})
        np.testing.assert_allclose(scores, probe.familiarity(new), atol=1e-3)
        assert none.tolist() == probe.none_of_these(new, 0.05).tolist()
        assert 0 < none.sum() < len(new)

    def test_none_of_these_where_all_photos_are_one(self):
        X, y = np.tile(np.eye(1, 12, dtype=np.float32), (6, 1)), np.repeat(np.arange(2), 3)
        probe = lpplusplus.LPPlusPlus().fit(X, y)
        (scores,) = session(head_model(probe, 17, 8)).run(["familiarity"], {"embedding": X[:1]})
        np.testing.assert_allclose(scores, probe.familiarity(X[:1]), atol=1e-6)

    def test_a_method_of_patches_is_refused(self):
        method = lpplusplus.PLOT(encoder="open_clip:any/any")
        method.coef_, method.classes_, method.n_features_in_ = np.zeros((2, 3)), np.arange(2), 3
        with pytest.raises(ExportError, match="PLOT cannot be exported"):
            head_model(method, 17, 8)


class TestFile:
    def test_five_hundred_real_photos(self, tmp_path):
        """The issue's promise is 1e-4. What is left are sums that onnxruntime takes in another order."""
        root = shared_data("photos")
        folders = sorted(path for path in root.glob("*/*") if path.is_dir())[::7][:20]
        photos = [(file, folder.name) for folder in folders for file in sorted(folder.iterdir())[:29]]
        support, rest = photos[::7], [file for n, (file, _) in enumerate(photos) if n % 7][:496]
        clf = ImageClassifier().fit([str(file) for file, _ in support], [name for _, name in support])
        export_onnx(clf, tmp_path / "photos.onnx")
        graph = session(tmp_path / "photos.onnx")
        tall = [Image.open(file).convert("RGB").resize(size) for file, size in zip(rest[:4], SHAPES, strict=True)]
        files = [*(str(file) for file in rest), *tall]
        ours = clf.predict_proba(files)
        opened = [Image.open(one).convert("RGB") if isinstance(one, str) else one for one in files]
        theirs = np.concatenate([graph.run(None, {"image": np.asarray(one)})[0] for one in opened])
        assert len(files) == 500
        assert np.abs(ours - theirs).max() < 1e-5

    def test_what_the_file_says_of_itself(self, trained):
        clf, folder = trained
        model = onnx.load(folder / "birds.onnx")
        onnx.checker.check_model(model, full_check=True)
        about = {one.key: one.value for one in model.metadata_props}
        assert json.loads(about["classes"]) == ["blue", "green", "red <b>"]
        assert json.loads(about["templates"]) == ["a photo of a {}."]
        assert json.loads(about["encoder"])["fingerprint"] == clf.origin_.fingerprint
        assert [(one.domain, one.version) for one in model.opset_import] == [("", 17)]
        assert model.ir_version <= 9  # The newest that onnxruntime 1.17 reads.
        graph = session(folder / "birds.onnx")
        image, probabilities = graph.get_inputs()[0], graph.get_outputs()[0]
        assert (image.name, image.type, image.shape) == ("image", "tensor(uint8)", ["height", "width", 3])
        assert (probabilities.name, probabilities.shape[-1]) == ("probabilities", 3)

    def test_eight_bits_halve_the_file_and_hardly_change_answers(self, trained, tmp_path):
        clf, folder = trained
        made = export_onnx(clf, tmp_path / "birds.onnx", int8=True)
        assert made.bytes < 0.6 * (folder / "birds.onnx").stat().st_size
        rng = np.random.default_rng(3)
        photos = [made_up(rng, 120, 90) for _ in range(5)]
        eight = np.concatenate([session(tmp_path / "birds.onnx").run(None, {"image": one})[0] for one in photos])
        assert np.abs(eight - clf.predict_proba([Image.fromarray(one) for one in photos])).max() < 0.1

    def test_eight_bits_are_widened_once(self, trained, tmp_path):
        """By onnxruntime when it opens the file: what it then runs for each photo has no weights in bytes left."""
        export_onnx(trained[0], tmp_path / "birds.onnx", int8=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.optimized_model_filepath = 3, str(tmp_path / "opened.onnx")
        onnxruntime.InferenceSession(tmp_path / "birds.onnx", options, providers=["CPUExecutionProvider"])

        def in_bytes(name):
            return sum(one.data_type == onnx.TensorProto.INT8 for one in onnx.load(tmp_path / name).graph.initializer)

        assert in_bytes("birds.onnx") > 0
        assert in_bytes("opened.onnx") == 0

    @pytest.mark.parametrize("arch", ["lpp-tiny-vit", "lpp-tiny-rn50"])
    @pytest.mark.parametrize("int8", [False, True])
    def test_a_model_of_open_clip(self, arch, int8, tmp_path, open_clip):
        """Through torch's exporter, and as an ONNX folder with weights of any kind."""
        from exports import write_checkpoint

        _, path = write_checkpoint(arch, tmp_path)
        rng = np.random.default_rng(0)
        images = [Image.fromarray(made_up(rng, 90, 60)) for _ in range(6)]
        clf = ImageClassifier(f"open_clip:{arch}/{path}").fit(images, ["a", "b"] * 3)
        made = export_onnx(clf, tmp_path / "model.onnx", int8=int8)
        assert made.takes == "image"
        assert made.difference < (0.05 if int8 else 1e-5)

    def test_an_encoder_that_no_file_can_hold(self, tmp_path):
        from embedding_service import embedding_service

        with embedding_service() as service:
            rng = np.random.default_rng(0)
            images = [Image.fromarray(made_up(rng, 30, 20)) for _ in range(6)]
            clf = ImageClassifier(service.address).fit(images, ["a", "b"] * 3)
            clf.save(tmp_path / "served.lpp")
        done = lpp("export", "served.lpp", "-o", "served.onnx", cwd=tmp_path)
        assert "takes embeddings" in done
        assert sorted(path.name for path in tmp_path.iterdir()) == ["served.lpp", "served.onnx"]
        assert session(tmp_path / "served.onnx").get_inputs()[0].name == "embedding"


SHAPES = ((231, 480), (90, 700), (700, 90), (1500, 2000))
"""Sizes that Pillow resizes rows first, that are enlarged, and that are larger than the other photos."""


class TestCommand:
    def test_files_and_what_is_said(self, trained, tmp_path):
        shutil.copy(trained[1] / "birds.lpp", tmp_path)
        said = lpp("export", "birds.lpp", "-o", "birds.onnx", cwd=tmp_path)
        assert "takes a photo of any size, gives 3 probabilities" in said
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "birds.lpp", "birds.onnx", "birds.onnx.html", "birds.py"]  # fmt: skip
        again = ask("export", "birds.lpp", "-o", "birds.onnx", "--no-programs", cwd=tmp_path)
        assert again["files"] == ["birds.onnx"]
        assert again["difference"] < 1e-5
        head = ask("export", "birds.lpp", "-o", "head.onnx", "--head-only", cwd=tmp_path)
        assert (head["input"], head["files"]) == ("embedding", ["head.onnx"])

    def test_a_classifier_of_arrays_takes_embeddings(self, tmp_path):
        X, y = np.eye(6, dtype=np.float32), [0, 0, 1, 1, 2, 2]
        probe = lpplusplus.LPPlusPlus().fit(X, y)
        probe.save(tmp_path / "arrays.lpp")
        lpp("export", "arrays.lpp", "-o", "arrays.onnx", cwd=tmp_path)
        (ours,) = session(tmp_path / "arrays.onnx").run(["probabilities"], {"embedding": X})
        np.testing.assert_allclose(ours, probe.predict_proba(X), atol=1e-6)
        assert "--int8 is for the weights of an encoder" in complaint(
            "export", "arrays.lpp", "-o", "arrays.onnx", "--int8", cwd=tmp_path
        )

    def test_our_files_are_told_from_all_others(self, trained, tmp_path):
        """Also from those that mention us, from a report, and from a program of ours that somebody changed."""
        names = ["birds.onnx.html", "birds.onnx", "birds.py"]
        shutil.copy(trained[1] / "birds.lpp", tmp_path)
        lpp("export", "birds.lpp", "-o", "birds.onnx", cwd=tmp_path)
        assert [is_export(tmp_path / name) for name in names] == [True] * 3
        for name in ("birds.onnx.html", "birds.py"):
            changed = (tmp_path / name).read_bytes() + b"\n"
            (tmp_path / name).write_bytes(changed)
            assert not is_export(tmp_path / name)
        (tmp_path / "birds.onnx.html").write_text('<!doctype html>\n<meta name="generator" content="lpplusplus">')
        (tmp_path / "birds.py").write_text("from lpplusplus import LPPlusPlus\n# lpplusplus export\n")
        (tmp_path / "birds.onnx").write_bytes(b"\x08\x08\x12\x07pytorch" + b"lpplusplus")
        assert [is_export(tmp_path / name) for name in [*names, "none.onnx", "."]] == [False] * 5

    def test_nothing_of_yours_is_overwritten(self, trained, tmp_path):
        shutil.copy(trained[1] / "birds.lpp", tmp_path)
        (tmp_path / "birds.py").write_text("print('mine')")
        said = usage("export", tmp_path / "birds.lpp", "-o", tmp_path / "birds.onnx")
        assert "is there already and is not an export" in said
        assert not (tmp_path / "birds.onnx").exists()
        assert "does not end in .onnx" in usage("export", tmp_path / "birds.lpp", "-o", tmp_path / "birds.lpp")
        assert "does not exist" in usage("export", tmp_path / "birds.lpp", "-o", tmp_path / "no" / "birds.onnx")


@pytest.fixture(scope="module")
def photos(trained):
    """Pictures whose reading differs: upright by EXIF, transparent, 16 bits of grey, a palette, and plain ones."""
    folder, rng = trained[1], np.random.default_rng(5)
    plain = Image.fromarray(made_up(rng, 320, 200, (0.3, 0.9, 0.4)))
    exif = Image.Exif()
    exif[0x0112] = 6
    plain.save(folder / "turned.jpg", exif=exif, quality=95)
    plain.save(folder / "plain.jpg", quality=95)
    plain.save(folder / "plain.png")
    clear = plain.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(plain.size))
    clear.save(folder / "clear.png")
    plain.quantize(16).save(folder / "palette.png")
    Image.fromarray(np.asarray(plain.convert("L"), np.uint16) * 257).save(folder / "grey16.png")
    return [
        folder / name for name in ("plain.jpg", "plain.png", "turned.jpg", "clear.png", "palette.png", "grey16.png")
    ]


def test_the_small_program(trained, photos):
    """It runs without this package, and reads photos as the package does."""
    clf, folder = trained
    lpp("export", "birds.lpp", "-o", "birds.onnx", cwd=folder)
    program = (folder / "birds.py").read_text()
    assert "import lpplusplus" not in program
    assert len(program.splitlines()) < 50
    # -I: no PYTHONPATH and not the folder of the program, so that nothing but installed packages is found.
    done = subprocess.run(
        [sys.executable, "-I", folder / "birds.py", *photos], capture_output=True, text=True, check=True
    )
    truth = clf.predict_proba([str(path) for path in photos])
    for line, path, row in zip(done.stdout.splitlines(), photos, truth, strict=True):
        name, *answers = line.split("\t")
        assert name == str(path)
        answers = [text for text in answers if text != "(none of these?)"]
        told = {text.rpartition(" ")[0]: float(text.rpartition(" ")[2]) for text in answers}
        assert told == pytest.approx(dict(zip(clf.classes_, row, strict=True)), abs=1e-4)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory):
    """The exported page in a real browser, served from its folder with onnxruntime-web beside it."""
    names = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
    runtime = web_files("LPP_ORT_WEB", "onnxruntime-web/dist", *names)
    web, folder = tmp_path_factory.mktemp("web"), trained[1]
    lpp("export", "birds.lpp", "-o", "birds.onnx", cwd=folder)
    for file in (*runtime, folder / "birds.onnx", folder / "birds.onnx.html"):
        shutil.copy(file, web)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=web))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with browser() as chromium:
        tab = chromium.new_page(viewport={"width": 390, "height": 844})
        tab.asked = []
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.goto(f"http://127.0.0.1:{server.server_port}/birds.onnx.html")
        yield tab
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("kind", ["plain.png", "plain.jpg", "turned.jpg", "clear.png"])
def test_the_page_in_a_browser(page, trained, photos, kind):
    """The same photo, the same answer. A browser decodes JPEG, and lays on white, with a rounding of its own."""
    clf, folder = trained
    page.locator("#said", has_text="Ready").or_(page.locator("li").first).wait_for(timeout=300_000)
    page.set_input_files("input", folder / kind)
    page.locator("#said", has_text=f"{kind}, ").wait_for(timeout=300_000)
    lines = page.locator("li").all()
    told = {line.get_attribute("data-name"): float(line.get_attribute("data-probability")) for line in lines}
    (row,) = clf.predict_proba([str(folder / kind)])
    tolerance = {"plain.png": 1e-4}.get(kind, 2e-2)
    assert told == pytest.approx(dict(zip(clf.classes_, row, strict=True)), abs=tolerance)
    shown = page.locator("li").first.inner_text()
    assert shown.startswith(str(clf.classes_[row.argmax()]))
    assert all(url.startswith(("http://127.0.0.1", "blob:")) for url in page.asked)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if "LPP_SCREENSHOTS" in os.environ:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=Path(os.environ["LPP_SCREENSHOTS"], f"export-{kind}-{scheme}.png"))


def test_an_export_names_no_folder_of_this_machine(tmp_path):
    """The file is made to be given away."""
    clf = ImageClassifier("drawings").fit(
        [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")], ["a", "b"]
    )
    clf.origin_ = replace(clf.origin_, spec=f"onnx:{tmp_path}/clip")
    made = export_onnx(clf, tmp_path / "head.onnx", head_only=True)
    assert json.loads(made.metadata["encoder"])["spec"] == "onnx:clip"
    assert str(tmp_path).encode() not in (tmp_path / "head.onnx").read_bytes()
