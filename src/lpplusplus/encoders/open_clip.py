"""Any open_clip model, through torch."""

from __future__ import annotations

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
        import torch

        from ..pixels.configs import from_open_clip

        self.spec = f"open_clip:{name}"
        arch, options = _resolve(name)
        self._device = device or _device()
        try:
            model, _ = open_clip.create_model_from_pretrained(
                arch, precision="fp32", device=self._device, **options, **_weights_only()
            )
            self._tokenizer = open_clip.get_tokenizer(arch)
        except Exception as error:  # Downloads, torch and open_clip raise every kind of exception here.
            raise EncoderError(f"{self.spec} cannot be loaded: {error}") from error
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
