"""A small open_clip model that has learned something: contrastive training on rendered scenes, a minute.

Its captions tell the colour of a thing and that of the background. The task is to name the background, with nothing
but colours for class names: "a photo of a red." reads like a red thing, so that zero-shot is wrong more often than not,
while "a photo of a red background." would be right far more often. Which words stand around the name matters, and the
pictures of the task are from another camera than those of the training: blurred, noisy, pale.
"""

import json

import numpy as np

COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross")
SIDE = 32
ARCH = "lpp-learned-vit"
CONFIG = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": SIDE, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 48, "heads": 2, "layers": 2},
}
TEMPLATES = ("a photo of {}.", "a picture of {}.", "{}.", "{}", "this is {}.", "a drawing of {}.")


def scene(rng, background=None):
    """A thing on a background, of two colours."""
    from lpplusplus.scenes import Scene, Thing

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
    """Train, write the checkpoint, and return the encoder's spec.

    In double precision: rounding grows so much over the steps that in single precision each kind of processor, and each
    number of threads, would get a model of its own.
    """
    import open_clip
    import safetensors.torch
    import torch

    from lpplusplus.scenes import render

    (folder / f"{ARCH}.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(folder)
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model, tokenizer = open_clip.create_model(ARCH).double(), open_clip.get_tokenizer(ARCH)
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
    path = folder / f"{ARCH}.safetensors"
    safetensors.torch.save_file(model.float().state_dict(), path)
    return f"open_clip:{ARCH}/{path}"


def photograph(picture, rng):
    """The picture through a bad camera."""
    from PIL import Image, ImageFilter

    pixels = np.asarray(picture.filter(ImageFilter.GaussianBlur(0.8)), np.float32)
    pixels = 128 + 0.75 * (pixels - 128) + rng.normal(0, 8, 3) + rng.normal(0, 20, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def task(encoder, shots, rng):
    """Tokens (n, 1 + places, dim) and labels of pictures in the shifted domain, `shots` for each colour."""
    from lpplusplus.scenes import render

    y = np.repeat(np.array(COLOURS), shots)
    pictures = (photograph(render(scene(rng, str(name)), rng, "plain", SIDE), rng) for name in y)
    images = [encoder.prepare(picture) for picture in pictures]
    return np.concatenate([encoder.encode_tokens(images[a : a + 64]) for a in range(0, len(images), 64)]), y
