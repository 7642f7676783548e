"""Train the model of drawings and write it: `python -m tools.drawings.train -o FOLDER`.

Fixed seed; about 25 minutes of an idle core, 36 of a shared one. Contrastive learning on rendered scenes of the plain
domain only; the shifted domain is never rendered here.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from lpplusplus.images.drawings import Scene

from .data import MARGIN, augmented, build_tokenizer, rendered, sentences, tokenized
from .export import export
from .towers import MEAN, SIZE, STD, DualEncoder

SEED = 20240406
RATE, DECAY, BATCH = 2e-3, 0.05, 128


def standardised(values: NDArray[np.float32]) -> torch.Tensor:
    """Pixels in [0, 1] as the image tower takes them."""
    mean, std = (np.array(v, np.float32)[:, None, None] for v in (MEAN, STD))
    return torch.from_numpy((values - mean) / std).contiguous(memory_format=torch.channels_last)


def train(
    scenes: list[Scene], pixels: NDArray[np.uint8], tokenizer: Tokenizer, small: int, full: int
) -> Iterator[DualEncoder]:
    """The model after each epoch: `small` passes over the pictures at half their size and `full` ones at full size.

    Each pass has new captions and new crops.
    """
    torch.manual_seed(SEED)
    model = DualEncoder(tokenizer.get_vocab_size()).to(memory_format=torch.channels_last)
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.98), fused=True)
    epochs = small + full
    steps = epochs * (len(scenes) // BATCH)
    warmup = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warmup, 0.5 * (1 + math.cos(math.pi * min(1.0, s / steps))))
    )
    for epoch in range(epochs):
        rng, begin, total = np.random.default_rng((SEED, 2, epoch)), time.perf_counter(), 0.0
        tokens = tokenized(tokenizer, sentences(scenes, rng))
        order = rng.permutation(len(scenes))[: len(scenes) // BATCH * BATCH].reshape(-1, BATCH)
        for rows in order:
            text = tokens[rows]
            text = text[:, : int((text != 0).sum(axis=1).max())]
            images = standardised(augmented(pixels[rows], SIZE, rng))
            images = torch.nn.functional.avg_pool2d(images, 2) if epoch < small else images
            loss = model.loss(images, torch.from_numpy(text))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        seconds, scale = time.perf_counter() - begin, model.log_scale.exp().item()
        print(f"epoch {epoch + 1}/{epochs}: loss {total / len(order):.3f}, scale {scale:.1f}, {seconds:.0f} s")
        yield model


def main() -> None:
    """Render, train, export, and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder that receives the model's files")
    parser.add_argument("--images", type=int, default=40_000)
    parser.add_argument("--epochs", type=int, nargs=2, default=(5, 6), help="passes at half and at full size")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    begin = time.perf_counter()
    tokenizer = build_tokenizer(SEED)
    scenes, pixels = rendered(SEED, options.images, SIZE + MARGIN)
    print(f"{len(scenes)} pictures rendered in {time.perf_counter() - begin:.0f} s", flush=True)
    rng = np.random.default_rng((SEED, 3))
    images = standardised(augmented(pixels[:64], SIZE, rng)).contiguous()
    tokens = torch.from_numpy(tokenized(tokenizer, sentences(scenes[:64], rng)))
    for model in train(scenes, pixels, tokenizer, *options.epochs):
        # After every epoch, so that a long run can be measured on its way.
        worst = export(model, tokenizer, images, tokens, options.output)
        size = sum(file.stat().st_size for file in options.output.rglob("*") if file.is_file())
        print(
            f"  {size / 1e6:.2f} MB written; torch and onnxruntime agree to {worst:.1e}; "
            f"{time.perf_counter() - begin:.0f} s since the start",
            flush=True,
        )


if __name__ == "__main__":
    main()
