"""Any open_clip model, through torch."""

import copy
import difflib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .base import FROM_HUB, Access, Encoder, EncoderError, EncoderKind, NetworkNeededError, check_local

if TYPE_CHECKING:
    from PIL import Image

    from .pixels.preprocessing import Preprocessing

PROBE = ("a photo of a cat.", "Ünïcode, 1234 & punctuation?!", "word " * 200)
"""Texts that show which tokenizer is at work."""


class OpenClipEncoder(Encoder):
    """An open_clip model in single precision on the fastest device there is.

    Parameters
    ----------
    name
        "ARCH/PRETRAINED", where PRETRAINED is one of open_clip's tags or a checkpoint file, such as "RN50/openai" or
        "ViT-B-32/weights/mine.safetensors"; or "hf-hub:owner/model" or "local-dir:folder". Checkpoints are read as
        weights only: a file cannot bring code of its own.
    device
        A torch device; by default cuda, mps or cpu, whichever exists first.
    download
        Whether a model that is not on this machine may be fetched.

    Attributes
    ----------
    model, tokenizer, device
        open_clip's own, for methods that need the text tower's gradient, and the torch device that the model is on.
    preprocess : Preprocessing
        How an image becomes the model's input.
    """

    model: Any
    tokenizer: Any
    device: Any
    preprocess: "Preprocessing"

    def __init__(self, name: str, *, device: str | None = None, download: bool = True) -> None:
        KIND.require()
        import open_clip

        arch, options = _resolve(name) if download else _resolve_here(name)
        device = device or _device()
        try:
            options |= {"precision": "fp32", "device": device, "weights_only": True}
            model, _ = open_clip.create_model_from_pretrained(arch, **options)
            tokenizer = open_clip.get_tokenizer(arch)
        except Exception as error:  # Downloads, torch and open_clip raise every kind of exception here.
            raise EncoderError(f"open_clip:{name} cannot be loaded: {error}") from error
        self._adopt(name, model, tokenizer, device)

    @classmethod
    def of(cls, model: Any, tokenizer: Any, name: str) -> "OpenClipEncoder":
        """An encoder from a copy of a model in memory, such as one that you have just fine-tuned.

        Parameters
        ----------
        model
            From `open_clip.create_model`, or built like one: `encode_image`, `encode_text`, `visual.preprocess_cfg`.
        tokenizer
            From `open_clip.get_tokenizer`.
        name
            What messages and saved classifiers call it.
        """
        KIND.require()
        encoder = cls.__new__(cls)
        encoder._adopt(name, copy.deepcopy(model).float(), tokenizer, str(next(model.parameters()).device))
        return encoder

    def _adopt(self, name: str, model: Any, tokenizer: Any, device: str) -> None:
        import torch

        from .pixels.preprocessing import from_open_clip

        self.spec, self.device, self.tokenizer = f"open_clip:{name}", torch.device(device), tokenizer
        self.model = model.eval().requires_grad_(False)
        try:
            self.preprocess = from_open_clip(self.model.visual.preprocess_cfg)
        except ValueError as error:
            raise EncoderError(f"{self.spec}: {error}") from error
        self.preprocessing = self.preprocess.describe()
        self._no_gradients = torch.inference_mode
        self.fingerprint = self._fingerprint()
        self.dim = self._encode_texts(PROBE[:1]).shape[1]

    def prepare(self, image: "Image.Image", rng: np.random.Generator | None = None) -> NDArray[np.float32]:
        return self.preprocess.centre(image) if rng is None else self.preprocess.random_view(image, rng)

    def encode_prepared(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        if not len(batch):
            return np.empty((0, self.dim), np.float32)
        import torch

        with self._no_gradients():
            return _numpy(self.model.encode_image(torch.from_numpy(np.stack(batch)).to(self.device)))

    def encode_places(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Embeddings of each image as a whole and of each place in it, not normalised; (n, 1 + places, dim).

        Row 0 of an image is what `encode_prepared` gives. The others are local: the outputs of a ResNet's attention
        pool, or the projected patches of a vision transformer.

        Raises
        ------
        EncoderError
            For an image tower that is neither of open_clip's own.
        """
        import torch

        batch = [torch.as_tensor(image) for image in batch]
        if not batch:
            raise ValueError("encode_places has no images: how many places they would have is not known.")
        with self._no_gradients():
            return _numpy(image_and_places(self.model.visual, torch.stack(batch).to(self.device), self.spec))

    def __sklearn_clone__(self) -> "OpenClipEncoder":
        """Itself: nothing changes an encoder, and a copy would take hundreds of megabytes."""
        return self

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._in_batches(texts, self._encode_texts)

    def _encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._no_gradients():
            return _numpy(self.model.encode_text(self.tokenizer(list(texts)).to(self.device)))

    def _fingerprint(self) -> str:
        """SHA-256 of the weights, the activation function (not visible in the weights) and the tokens of some texts."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            values = tensor.detach().cpu().contiguous().numpy()
            digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(values.tobytes())
        quick = any(type(module).__name__ == "QuickGELU" for module in self.model.modules())
        tokens = self.tokenizer(list(PROBE)).numpy()
        digest.update(f"quick_gelu {quick} tokens {tokens.shape}\n".encode())
        digest.update(tokens.astype("<i8").tobytes())
        return f"open_clip-{digest.hexdigest()}"


def image_and_places(visual: Any, images: Any, spec: str) -> Any:
    """Embeddings of whole images, then of their places, by the tower's own modules; (n, 1 + places, dim)."""
    import torch

    kind = type(visual).__name__
    pooled = getattr(visual, "attn_pool", None) is not None
    convolutional = kind == "ModifiedResNet"
    if not convolutional and (kind != "VisionTransformer" or pooled):
        raise EncoderError(
            f"{spec}: no places can be read from its image tower, a {kind}{' with a pooler' if pooled else ''}. "
            f"Use a ResNet or vision transformer of open_clip's own, such as RN50 or ViT-B-32."
        )
    inside = visual.layer4 if convolutional else visual.transformer
    seen: list[Any] = []
    handle = inside.register_forward_hook(lambda module, inputs, output: seen.append(output))
    try:
        whole = visual(images)
    finally:
        handle.remove()
    places = pooled_places(visual.attnpool, seen[-1]) if convolutional else visual.ln_post(seen[-1]) @ visual.proj
    return torch.cat([whole[:, None], places[:, 1:]], dim=1)


def pooled_places(pool: Any, x: Any) -> Any:
    """All outputs of CLIP's attention pool: first the one of the mean, which the model returns, then one per place."""
    import torch

    x = x.flatten(2).mT
    x = torch.cat([x.mean(dim=1, keepdim=True), x], dim=1) + pool.positional_embedding
    n, length, width = x.shape
    q, k, v = (
        layer(x).reshape(n, length, pool.num_heads, width // pool.num_heads).transpose(1, 2)
        for layer in (pool.q_proj, pool.k_proj, pool.v_proj)
    )
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
    return pool.c_proj(mixed)


def _resolve(name: str) -> tuple[str, dict[str, Any]]:
    """open_clip's model name and how to load it, or an error that names what is close."""
    import open_clip

    if name.startswith(("hf-hub:", "local-dir:")):
        return name, {}
    arch, _, pretrained = name.partition("/")
    known = open_clip.list_models()
    if arch not in known:
        whole = [model for model in known if name.replace("/", "-").startswith(model)]
        close = _list(sorted(whole, key=len, reverse=True)[:1] or difflib.get_close_matches(arch, known, 5, 0.4))
        raise EncoderError(
            f"open_clip has no architecture {arch!r}{close}. Write open_clip:ARCH/PRETRAINED; "
            f"open_clip.list_pretrained() lists all."
        )
    tags = open_clip.list_pretrained_tags_by_model(arch)
    if pretrained in tags:
        # Some tags were trained with another activation than the architecture's default; open_clip only warns.
        config = open_clip.get_pretrained_cfg(arch, pretrained)
        return arch, {"pretrained": pretrained, "force_quick_gelu": bool(config.get("quick_gelu", False))}
    if pretrained and Path(pretrained).expanduser().is_file():
        return arch, {"pretrained": str(Path(pretrained).expanduser())}
    close = _list(difflib.get_close_matches(pretrained, tags, 5, 0.3) or tags)
    problem = f"no pretrained weights and no file {pretrained!r}" if pretrained else "no weights named in the spec"
    raise EncoderError(f"open_clip:{name}: {problem} for {arch}{close}.")


def _resolve_here(name: str) -> tuple[str, dict[str, Any]]:
    """As `_resolve`; refused if open_clip would need the network to load the model."""
    import open_clip

    check_local(name.partition("/")[2])
    arch, options = _resolve(name)
    if not options:
        raise NetworkNeededError("open_clip may fetch parts of it from the Hugging Face hub")
    text = open_clip.get_model_config(arch)["text_cfg"]
    if text.get("hf_model_name") or text.get("hf_tokenizer_name") or "siglip" in arch.lower():
        raise NetworkNeededError("open_clip fetches its tokenizer from the Hugging Face hub")
    tag = open_clip.get_pretrained_cfg(arch, options["pretrained"])
    if tag:
        options["pretrained"] = _downloaded(tag)
        options |= {f"image_{key}": tag.get(key) for key in ("mean", "std", "interpolation", "resize_mode")}
    return arch, options


def _downloaded(tag: Mapping[str, Any]) -> str:
    """The weights of one of open_clip's tags, if they are in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    repository, _, file = tag.get("hf_hub", "").rpartition("/")
    file = file or "open_clip_pytorch_model.bin"
    safe = "open_clip_model" if file == "open_clip_pytorch_model.bin" else file[:-4]
    for name in (f"{safe}.safetensors", file):  # As open_clip prefers them.
        path = try_to_load_from_cache(repository, name) if repository else None
        if isinstance(path, str):
            return path
    raise NetworkNeededError(FROM_HUB)


def _list(names: Sequence[str]) -> str:
    return f"; perhaps {', '.join(names)}" if names else ""


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _numpy(tensor: Any) -> NDArray[np.float32]:
    return np.asarray(tensor.float().cpu().numpy(), np.float32)


KIND = EncoderKind(
    scheme="open_clip:ARCH/PRETRAINED",
    about="any open_clip model, through torch",
    needs="torch",
    packages=("torch", "open_clip", "PIL"),
    open=lambda spec, access: OpenClipEncoder(spec.removeprefix("open_clip:"), download=access is not Access.LOCAL),
)
