"""open_clip models, real ones of small size, opened as a user would."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="open_clip models need torch")
open_clip = pytest.importorskip("open_clip", reason="tests real open_clip models")

import exports  # noqa: E402
from lpplusplus.encoders import EncoderError, open_encoder  # noqa: E402
from lpplusplus.encoders.open_clip import OpenClipEncoder  # noqa: E402


@pytest.fixture(scope="module", params=["lpp-tiny-vit", "lpp-tiny-rn50"])
def tiny(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    model, path = exports.write_checkpoint(request.param, folder)
    return request.param, model, path


def test_embeds_as_open_clip_does(tiny):
    arch, model, path = tiny
    encoder = open_encoder(f"open_clip:{arch}/{path}")
    config = open_clip.transform.PreprocessCfg(**model.visual.preprocess_cfg)
    transform = open_clip.transform.image_transform_v2(config, is_train=False)
    images = exports.images()
    with torch.no_grad():
        expected = model.encode_image(torch.stack([transform(image) for image in images])).numpy()
        texts = model.encode_text(open_clip.get_tokenizer(arch)(exports.TEXTS)).numpy()
    assert encoder.dim == 32
    assert np.abs(encoder.encode_images(images) - expected).max() < 1e-5
    assert np.abs(encoder.encode_texts(exports.TEXTS) - texts).max() < 1e-5
    assert encoder.encode_texts(exports.TEXTS).dtype == np.float32
    assert encoder.encode_texts([]).shape == encoder.encode_images([]).shape == (0, 32)
    many = encoder.encode_texts([f"text {i}" for i in range(75)])
    assert np.abs(many[70] - encoder.encode_texts(["text 70"])[0]).max() < 1e-5
    one, two = (encoder.prepare(images[0], np.random.default_rng(seed)) for seed in (0, 1))
    assert one.shape == (3, 64, 64)
    assert not np.array_equal(one, two)


def test_fingerprint_follows_the_weights(tmp_path):
    import safetensors.torch

    model, path = exports.write_checkpoint("lpp-tiny-vit", tmp_path)
    name = "open_clip:lpp-tiny-vit/"
    first = open_encoder(f"{name}{path}").fingerprint
    copy = tmp_path / "moved.safetensors"
    copy.write_bytes(path.read_bytes())
    assert open_encoder(f"{name}{copy}").fingerprint == first
    torch.save(model.state_dict(), tmp_path / "pickled.pt")
    assert open_encoder(f"{name}{tmp_path / 'pickled.pt'}").fingerprint == first
    weights = model.state_dict()
    weights["ln_final.bias"][3] += 1e-6
    safetensors.torch.save_file(weights, tmp_path / "changed.safetensors")
    assert open_encoder(f"{name}{tmp_path / 'changed.safetensors'}").fingerprint != first


def test_a_model_in_memory(tiny):
    arch, model, path = tiny
    named = open_encoder(f"open_clip:{arch}/{path}")
    model.train()
    encoder = OpenClipEncoder.of(model, open_clip.get_tokenizer(arch), "mine")
    assert (encoder.spec, encoder.fingerprint, encoder.dim) == ("open_clip:mine", named.fingerprint, 32)
    assert np.array_equal(encoder.encode_images(exports.images()), named.encode_images(exports.images()))
    with torch.no_grad():
        model.logit_scale += 1  # Training goes on; what is embedded stays as it was.
    assert model.training
    assert next(model.parameters()).requires_grad
    assert encoder.model.logit_scale.item() != model.logit_scale.item()
    model.eval()


def test_a_checkpoint_with_code_in_it_is_not_run(tmp_path):
    exports.write_checkpoint("lpp-tiny-vit", tmp_path)
    proof = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return open, (str(proof), "w")

    torch.save({"state_dict": {"a": Evil()}}, tmp_path / "evil.pt")
    with pytest.raises(EncoderError, match=r"evil\.pt cannot be loaded"):
        open_encoder(f"open_clip:lpp-tiny-vit/{tmp_path / 'evil.pt'}")
    assert not proof.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ViT-B32/openai", "no architecture 'ViT-B32'; perhaps .*ViT-B-32"),
        ("ViT-B/32/openai", "perhaps ViT-B-32"),
        ("RN50/opnai", "for RN50; perhaps openai"),
        ("RN50", "no weights named in the spec for RN50; perhaps openai"),
        ("RN50/missing/file.pt", "no file 'missing/file.pt'"),
    ],
)
def test_a_wrong_name_is_answered_with_near_ones(name, message):
    with pytest.raises(EncoderError, match=message):
        open_encoder(f"open_clip:{name}")


def test_tags_bring_their_activation():
    from lpplusplus.encoders.open_clip import _resolve

    assert _resolve("ViT-B-32/openai") == ("ViT-B-32", {"pretrained": "openai", "force_quick_gelu": True})
    assert _resolve("ViT-B-32/laion2b_s34b_b79k")[1]["force_quick_gelu"] is False
