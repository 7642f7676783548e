"""Any open_clip model, through torch."""

from __future__ import annotations

import copy
import difflib
import hashlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._packages import require
from .base import Encoder, EncoderError

if TYPE_CHECKING:
    from PIL import Image

PACKAGES = ("torch", "open_clip", "PIL")
EXTRA = "torch"
PROBE = ("a photo of a cat.", "Ünïcode, 1234 & punctuation?!", "word " * 200)


class OpenClipEncoder(Encoder):
    """An open_clip model in single precision on the fastest device there is.

    Parameters
    ----------
    name
        "ARCH/PRETRAINED" where PRETRAINED is one of open_clip's tags or a checkpoint file, such as "RN50/openai" or
        "ViT-B-32/weights/mine.safetensors"; or "hf-hub:owner/model" or "local-dir:folder". Checkpoints are read as
        weights only: a file cannot bring code of its own.
    device
        A torch device; by default cuda, mps or cpu, whichever exists first.
    """

    def __init__(self, name: str, *, device: str | None = None) -> None:
        require("an open_clip encoder", PACKAGES, EXTRA)
        import open_clip

        arch, options = _resolve(name)
        device = device or _device()
        try:
            model, _ = open_clip.create_model_from_pretrained(
                arch, precision="fp32", device=device, **options, **_weights_only()
            )
            tokenizer = open_clip.get_tokenizer(arch)
        except Exception as error:  # Downloads, torch and open_clip raise every kind of exception here.
            raise EncoderError(f"open_clip:{name} cannot be loaded: {error}") from error
        self._adopt(name, model, tokenizer, device)

    @classmethod
    def of(cls, model: Any, tokenizer: Any, name: str) -> OpenClipEncoder:
        """An encoder of a copy of a model in memory, such as one that you have just fine-tuned.

        Parameters
        ----------
        model
            From `open_clip.create_model`, or built like one: `encode_image`, `encode_text`, `visual.preprocess_cfg`.
        tokenizer
            From `open_clip.get_tokenizer`.
        name
            What messages and saved classifiers call it.
        """
        require("an open_clip encoder", PACKAGES, EXTRA)
        encoder = cls.__new__(cls)
        encoder._adopt(name, copy.deepcopy(model).float(), tokenizer, str(next(model.parameters()).device))
        return encoder

    def _adopt(self, name: str, model: Any, tokenizer: Any, device: str) -> None:
        import torch

        from ..pixels.configs import from_open_clip

        self.spec, self._device, self._tokenizer = f"open_clip:{name}", device, tokenizer
        self._model: Any = model.eval().requires_grad_(False)
        try:
            self._prepare = from_open_clip(self._model.visual.preprocess_cfg)
        except ValueError as error:
            raise EncoderError(f"{self.spec}: {error}") from error
        self.preprocessing = self._prepare.describe()
        self._no_gradients = torch.inference_mode
        self.fingerprint = self._fingerprint()
        self.dim = 0
        self.dim = int(self.encode_texts(PROBE[:1]).shape[1])

    def prepare(self, image: Image.Image, rng: np.random.Generator | None = None) -> NDArray[np.float32]:
        return self._prepare.centre(image) if rng is None else self._prepare.random_view(image, rng)

    def encode_prepared(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        if not len(batch):
            return np.empty((0, self.dim), np.float32)
        import torch

        with self._no_gradients():
            return _numpy(self._model.encode_image(torch.from_numpy(np.stack(batch)).to(self._device)))

    def encode_tokens(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """What the image tower says of each image as a whole and of each place in it, (n, 1 + places, dim).

        Token 0 is what `encode_prepared` gives; the others are local: the attention pool's outputs of a ResNet, the
        projected patches of a vision transformer. Not normalised.

        Raises
        ------
        EncoderError
            For an image tower that is neither of open_clip's own.
        """
        import torch

        batch = [torch.as_tensor(image) for image in batch]
        if not batch:
            raise ValueError("encode_tokens has no images: how many places they would have is not known.")
        with self._no_gradients():
            return _numpy(_image_tokens(self._model.visual, torch.stack(batch).to(self._device), self.spec))

    @property
    def model(self) -> Any:
        """The open_clip model, for methods that need its text tower's gradient."""
        return self._model

    @property
    def tokenizer(self) -> Any:
        """The model's own tokenizer."""
        return self._tokenizer

    @property
    def device(self) -> Any:
        """The torch device that the model is on."""
        import torch

        return torch.device(self._device)

    def __sklearn_clone__(self) -> OpenClipEncoder:
        """Itself: nothing changes an encoder, and copies of a classifier should not copy hundreds of megabytes."""
        return self

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        size, parts = self.batch_size, []
        for first in range(0, len(texts), size):
            with self._no_gradients():
                tokens = self._tokenizer(list(texts[first : first + size])).to(self._device)
                parts.append(_numpy(self._model.encode_text(tokens)))
        return np.concatenate(parts) if parts else np.empty((0, self.dim), np.float32)

    def _fingerprint(self) -> str:
        """Weights in the order of their names, the one choice that weights do not show, and the tokenizer at work."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            values = tensor.detach().cpu().contiguous().numpy()
            digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(values.tobytes())
        quick = any(type(module).__name__ == "QuickGELU" for module in self._model.modules())
        tokens = self._tokenizer(list(PROBE)).numpy()
        digest.update(f"quick_gelu {quick} tokens {tokens.shape}\n".encode())
        digest.update(tokens.astype("<i8").tobytes())
        return f"open_clip-{digest.hexdigest()}"


def _image_tokens(visual: Any, images: Any, spec: str) -> Any:
    """The whole image's feature and those of its places, (n, 1 + places, dim), by the tower's own modules."""
    kind = type(visual).__name__
    pooled = getattr(visual, "attn_pool", None) is not None
    convolutional = kind == "ModifiedResNet"
    if not convolutional and (kind != "VisionTransformer" or pooled):
        raise EncoderError(
            f"{spec}: no local tokens can be read from its image tower, a {kind}{' with a pooler' if pooled else ''}. "
            f"Use a ResNet or vision transformer of open_clip's own, such as RN50 or ViT-B-32."
        )
    inside = visual.layer4 if convolutional else visual.transformer
    seen: list[Any] = []
    handle = inside.register_forward_hook(lambda module, inputs, output: seen.append(output))
    try:
        whole = visual(images)
    finally:
        handle.remove()
    import torch

    tokens = _pooled_tokens(visual.attnpool, seen[-1]) if convolutional else visual.ln_post(seen[-1]) @ visual.proj
    return torch.cat([whole[:, None], tokens[:, 1:]], dim=1)


def _pooled_tokens(pool: Any, x: Any) -> Any:
    """All outputs of CLIP's attention pool, the mean's and those of each place; the model itself returns the first."""
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


def _list(names: Sequence[str]) -> str:
    return f"; perhaps {', '.join(names)}" if names else ""


def _weights_only() -> dict[str, bool]:
    import open_clip

    accepted = inspect.signature(open_clip.create_model).parameters
    for option in ("weights_only", "load_weights_only"):
        if option in accepted:
            return {option: True}
    raise EncoderError("this open_clip cannot load checkpoints safely: pip install -U open_clip_torch")


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _numpy(tensor: Any) -> NDArray[np.float32]:
    return np.asarray(tensor.float().cpu().numpy(), np.float32)
