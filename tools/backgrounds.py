"""A task where the words are the problem, and a small open_clip model for it, trained in a minute.

    python -m tools.backgrounds backgrounds             # backgrounds/model and backgrounds/images
    lpp bench run docs/plans/backgrounds.toml --root backgrounds -o results/

The model's captions tell the colour of a thing and that of the background. The task is to name the background, with
nothing but colours for class names: "a photo of a red." reads like a red thing, so that zero-shot is wrong more often
than not, while "a photo of a red background." would be right far more often. Which words stand around the name matters.
The images of the task are from another camera than those of the training: blurred, noisy, pale.
"""

import json
import sys
from pathlib import Path

import numpy as np

COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross")
SIDE = 32
CONFIG = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": SIDE, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 48, "heads": 2, "layers": 2},
}
SPLITS = {"train": 40, "test": 40}
"""Images per class."""
TEMPLATES = ("a photo of {}.", "a picture of {}.", "{}.", "{}", "this is {}.", "a drawing of {}.")


def scene(rng, background=None):
    """A thing on a background, of two colours."""
    from lpplusplus.images.drawings import Scene, Thing

    background = background or str(rng.choice(COLOURS))
    colour = str(rng.choice([other for other in COLOURS if other != background]))
    thing = Thing(str(rng.choice(SHAPES)), colour)
    return Scene(thing, size=str(rng.choice(("medium", "large"))), background=background)


def caption(scene, rng):
    """Some of what there is to say of a scene."""
    colour, shape, background = scene.thing.colour, scene.thing.shape, scene.background
    said = (
        f"a {colour} {shape}",
        f"a {colour} {shape} on a {background} background",
        f"a {shape} on a {background} background",
        f"a {background} background",
        f"a {shape}",
    )
    return TEMPLATES[rng.integers(len(TEMPLATES))].format(said[rng.integers(len(said))])


def train(folder, images=3000, steps=500, batch=64):
    """Train, write the model into a folder of open_clip's form, and return the encoder's spec.

    In double precision: rounding grows so much over the steps that in single precision each kind of processor, and each
    number of threads, would get a model of its own.
    """
    import open_clip
    import safetensors.torch
    import torch

    from tools.drawings.plain import render

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG, "preprocess_cfg": {}}))
    name = f"local-dir:{folder}"
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = open_clip.create_model(name, load_weights=False).double()
    tokenizer = open_clip.get_tokenizer(name)
    model.token_embedding.requires_grad_(False)  # Of 49408 words some thirty occur.
    scenes = [scene(rng) for _ in range(images)]
    pixels = torch.from_numpy(np.stack([np.asarray(render(one, rng, "plain", SIDE)) for one in scenes]))
    mean, std = (torch.tensor(model.visual.preprocess_cfg[name]) for name in ("mean", "std"))
    pixels = ((pixels.double() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], weight_decay=0.02)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps, pct_start=0.15)
    for _ in range(steps):
        rows = rng.choice(images, batch, replace=False)
        tokens = tokenizer([caption(scenes[row], rng) for row in rows])
        F, T, scale = model(pixels[rows], tokens)[:3]
        z = scale * F @ T.T
        same = (tokens[:, None] == tokens[None]).all(-1).double()  # Equal captions are no mistakes.
        same /= same.sum(1, keepdim=True)
        loss = -sum((same * logits.log_softmax(1)).sum(1).mean() for logits in (z, z.T))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rates.step()
    safetensors.torch.save_file(model.float().state_dict(), folder / "open_clip_model.safetensors")
    return f"open_clip:{name}"


def photograph(picture, rng):
    """The picture through a bad camera."""
    from PIL import Image, ImageFilter

    pixels = np.asarray(picture.filter(ImageFilter.GaussianBlur(0.8)), np.float32)
    pixels = 128 + 0.75 * (pixels - 128) + rng.normal(0, 8, 3) + rng.normal(0, 20, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def photographs(count, rng):
    """Images of the task and their labels, `count` for each colour."""
    from tools.drawings.plain import render

    labels = np.repeat(np.array(COLOURS), count)
    return [photograph(render(scene(rng, str(name)), rng, "plain", SIDE), rng) for name in labels], labels


def write(folder):
    """The model, and a folder per class of images for each split."""
    train(folder / "model")
    for seed, (split, count) in enumerate(SPLITS.items()):
        for number, (image, label) in enumerate(zip(*photographs(count, np.random.default_rng(seed)), strict=True)):
            place = folder / "images" / split / str(label)
            place.mkdir(parents=True, exist_ok=True)
            image.save(place / f"{number:04d}.png")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
