"""CLIP in one word: OpenAI's models in ONNX from the hub, pinned to one commit and their weights to one SHA-256."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import onnx
from .base import EncoderError
from .kinds import Access, EncoderKind, NetworkNeededError


@dataclass(frozen=True)
class Pinned:
    """A model as it was at one commit."""

    source: str
    """Hub id and commit."""
    weights: dict[str, str]
    """SHA-256 of each large file."""

    def check(self, folder: Path) -> None:
        """Refuse other weights than the pinned ones: a hub or a mirror can be faulty or taken over by an attacker."""
        from .onnx_folder import file_digest

        for name, digest in self.weights.items():
            if not (folder / name).is_file() or file_digest(folder / name) != digest:
                raise EncoderError(
                    f"{folder / name} is not the file that {self.source} has. Remove {folder.parent.parent}, then it "
                    f"is downloaded again; if that does not help, ask whoever runs the hub that you use."
                )


MODELS = {
    "clip": Pinned(
        "Xenova/clip-vit-base-patch32@d15189d7028b43f1d3e65039190477f6af591c2a",
        {
            "onnx/vision_model.onnx": "fd6e1402a588279d1723c7534d4bcba5bc0b14b47dfab0e46f8c47b8270d7d40",
            "onnx/text_model.onnx": "3f6571f5bad13a97c469c1622e1cfc4d9aef78b79fdbfcff804ca357bfada8cc",
        },
    ),
    "clip-large": Pinned(
        "Xenova/clip-vit-large-patch14@c307790166907339eed5a9a53a249af534102536",
        {
            "onnx/vision_model.onnx": "ff49f8aa57c7abfd26e382eb083e4dbf988505223a9bd3767dbfd4e729206709",
            "onnx/text_model.onnx": "a86051a90491b97e2ea1d0351ef664926735bca7536034384f901915ee91fd69",
        },
    ),
}


def _kind(name: str, about: str, size: int) -> EncoderKind:
    def open_model(spec: str, access: Access) -> onnx.OnnxEncoder:
        from .onnx_hub import locate

        # Use files that are on this machine, without asking the hub.
        model = MODELS[name]
        folder, _ = locate(model.source, download=access is not Access.LOCAL and not here())
        model.check(folder)
        return onnx.OnnxEncoder(model.source, download=False)

    def here() -> bool:
        from .onnx_hub import locate

        try:
            locate(MODELS[name].source, download=False)
        except NetworkNeededError:
            return False
        return True

    return EncoderKind(
        scheme=name, about=about, needs=onnx.KIND.needs, packages=onnx.KIND.packages, open=open_model, size=size,
        here=here,
    )  # fmt: skip


KINDS = {
    "clip": _kind("clip", "CLIP ViT-B/32: anything that has a name; downloaded once", 608_000_000),
    "clip-large": _kind("clip-large", "CLIP ViT-L/14: better, ten times slower; downloaded once", 1_714_000_000),
}
