"""Training data: scenes of the plain domain, rendered once, with fresh captions every epoch."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from lpplusplus.images.drawings import Scene

from .captions import caption
from .plain import render
from .random_scenes import random_scene
from .towers import CONTEXT

MARGIN = 8
"""Pictures are rendered this much larger than the tower's input, for random crops."""


def rendered(seed: int, count: int, size: int) -> tuple[list[Scene], NDArray[np.uint8]]:
    """Scenes without held-out pairs, and their pictures, (count, size, size, 3); item i depends on (seed, i) alone."""
    scenes, pixels = [], np.empty((count, size, size, 3), np.uint8)
    for i in range(count):
        rng = np.random.default_rng((seed, i))
        scenes.append(random_scene(rng, held_out=False))
        pixels[i] = np.asarray(render(scenes[-1], rng, "plain", size))
    return scenes, pixels


def sentences(scenes: list[Scene], rng: np.random.Generator) -> list[str]:
    """A fresh caption a scene; one of ten with a meaningless word in it, so that unknown words do little harm."""
    return [_disturbed(caption(scene, rng), rng) for scene in scenes]


def _disturbed(text: str, rng: np.random.Generator) -> str:
    if rng.random() >= 0.1:
        return text
    letters = "".join(chr(97 + int(v)) for v in rng.integers(0, 26, int(rng.integers(2, 8))))
    words = text.split(" ")
    words.insert(int(rng.integers(len(words) + 1)), letters)
    return " ".join(words)


def build_tokenizer(seed: int, captions: int = 20_000) -> Tokenizer:
    """Lower-case byte-level BPE learned from captions: any text has tokens, and known words have one each."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rng = np.random.default_rng((seed, 1))
    corpus = [caption(random_scene(rng, held_out=False), rng) for _ in range(captions)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=["[PAD]", "[START]", "[END]"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[START] $A [END]", special_tokens=[("[START]", 1), ("[END]", 2)]
    )
    tokenizer.enable_truncation(CONTEXT)
    tokenizer.enable_padding(length=CONTEXT, pad_id=0, pad_token="[PAD]")
    return tokenizer


def tokenized(tokenizer: Tokenizer, texts: list[str]) -> NDArray[np.int32]:
    """(n, CONTEXT) token ids."""
    return np.array([encoding.ids for encoding in tokenizer.encode_batch(texts)], np.int32)


def augmented(pixels: NDArray[np.uint8], size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Random crops with random contrast, tint and some noise, (n, 3, size, size) in [0, 1]."""
    n, slack = len(pixels), pixels.shape[1] - size
    corner = rng.integers(0, slack + 1, (n, 2))
    batch = np.stack([p[y : y + size, x : x + size] for p, (y, x) in zip(pixels, corner, strict=True)])
    contrast = rng.uniform(0.8, 1.2, (n, 1, 1, 1)).astype(np.float32)
    tint = rng.uniform(-0.1, 0.1, (n, 1, 1, 1)) + rng.uniform(-0.04, 0.04, (n, 1, 1, 3))
    noise = rng.uniform(0, 0.07, (n, 1, 1, 1)).astype(np.float32) * rng.standard_normal(batch.shape, np.float32)
    values = (batch.astype(np.float32) / 255 - 0.5) * contrast + np.float32(0.5) + tint.astype(np.float32) + noise
    return np.ascontiguousarray(np.clip(values, 0, 1).transpose(0, 3, 1, 2))
