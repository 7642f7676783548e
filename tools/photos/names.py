"""Names to rows of ImageNet's classifier: a table of one vector per token that imitates MiniLM, made to run without it.

1. MiniLM embeds all names of the 21 844 synsets of ImageNet (40 744 names) and every token of its vocabulary alone.
2. A table of one vector per token, in MiniLM's leading `WIDTH` directions, is trained so that the sum over a name's
   tokens points where MiniLM does, and is as near to the 1000 classes as MiniLM is.
3. A name becomes the mean of the classifier's rows, weighted by how near the class is: ConSE (Norouzi et al. 2014).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import timm.data
import torch
from numpy.typing import NDArray
from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import log_softmax, normalize, softmax

from .minilm import MiniLM

SEED, EPOCHS, BATCH, RATE = 0, 10, 1024, 6e-3
WIDTH = 128
TEMPERATURE = 0.07
"""Of the softmax over ImageNet's classes: between 0.05 and 0.1 all are about as good."""
LONGEST = 12
"""Tokens of a name that training looks at."""
FILLERS = """
a an the of this that these those one some many my your his her its our their in on at with and or is are there it to
for by from as photo photos photograph picture pictures image images snapshot shot view close up cropped blurry bright
dark good bad nice clean dirty weird cool large small low high resolution jpeg corrupted type kind sort example it ##ap
see hard . , : ; ! ? - ' " ( ) { }
"""
"""Words of templates, such as "a blurry photo of a": they hardly move a name."""
HUSH = 1e-3
"""Weight of a filler beside another word. Not zero, for names that consist of fillers."""

Floats = NDArray[np.float32]


def imagenet() -> tuple[list[str], list[str], list[str]]:
    """Names of ImageNet's 1000 classes, each with all its synonyms, their definitions, and the names of all synsets."""
    info = Path(timm.data.__file__).parent / "_info"
    read = {
        part: dict(line.split("\t") for line in (info / f"imagenet_synset_to_{part}.txt").read_text().splitlines())
        for part in ("lemma", "definition")
    }
    synsets = (info / "imagenet_synsets.txt").read_text().split()
    names = [name.strip().lower() for names in read["lemma"].values() for name in names.split(",") if name.strip()]
    return [read["lemma"][s] for s in synsets], [read["definition"][s] for s in synsets], names


def distil(minilm: MiniLM, cache: Path) -> tuple[Floats, Floats]:
    """Token table (V, WIDTH), and unit vectors of ImageNet's classes (1000, WIDTH)."""
    names, definitions, everything = imagenet()
    vocabulary = sorted(minilm.tokenizer.get_vocab().items(), key=lambda item: item[1])
    whole = _kept(minilm, everything, cache / "names.npy")
    single = _kept(minilm, [token.removeprefix("##") for token, _ in vocabulary], cache / "tokens.npy")
    explained = [f"{name}: {meaning}" for name, meaning in zip(names, definitions, strict=True)]
    parts = [
        _kept(minilm, texts, cache / f"{file}.npy")
        for texts, file in ((names, "classes"), (list(IMAGENET_CLASSNAMES), "curated"), (explained, "explained"))
    ]
    classes = normalize(parts[0] + parts[1] + parts[2] / 2, dim=1)
    everywhere = torch.cat([whole, classes, single]).double()
    basis = torch.linalg.eigh(everywhere.T @ everywhere)[1].flip(1)[:, :WIDTH].float()
    whole, classes, single = (normalize(vectors @ basis, dim=1) for vectors in (whole, classes, single))
    ids, mask = _padded(minilm.tokenizer, everything)
    return _train(single, _weights(minilm.tokenizer), whole, classes, ids, mask).numpy(), classes.numpy()


def _train(start: Tensor, weights: Tensor, targets: Tensor, classes: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    """The table; tokens whose weight is not 1 keep their start."""
    torch.manual_seed(SEED)
    table = torch.nn.Parameter(start * weights)
    optimiser = torch.optim.Adam([table], lr=RATE)
    steps = EPOCHS * -(-len(ids) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps, pct_start=0.1)
    for epoch in range(EPOCHS):
        losses = []
        for part in torch.randperm(len(ids)).split(BATCH):
            near = softmax(targets[part] @ classes.T / TEMPERATURE, dim=1)
            found = normalize((table[ids[part]] * mask[part]).sum(1), dim=1)
            loss = -(near * log_softmax(found @ classes.T / TEMPERATURE, dim=1)).sum(1).mean()
            loss = loss + 5 * (1 - (found * targets[part]).sum(1)).mean()
            optimiser.zero_grad()
            loss.backward()
            assert table.grad is not None
            table.grad *= weights == 1
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1} of {EPOCHS}: loss {np.mean(losses):.3f}", flush=True)
    return table.detach()


def _weights(tokenizer: Tokenizer) -> Tensor:
    """(V, 1): 1 for words, `HUSH` for fillers, 0 for special tokens such as [PAD]."""
    weights = torch.ones(tokenizer.get_vocab_size(), 1)
    for token, index in tokenizer.get_vocab().items():
        if token.startswith("[") and token.endswith("]") and len(token) > 2:
            weights[index] = 0
        elif token in FILLERS.split():
            weights[index] = HUSH
    return weights


def _padded(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    ids = torch.tensor([(one.ids + [0] * LONGEST)[:LONGEST] for one in encoded])
    mask = torch.tensor([(one.attention_mask + [0] * LONGEST)[:LONGEST] for one in encoded])
    return ids, mask[:, :, None].float()


def _kept(minilm: MiniLM, texts: Sequence[str], file: Path) -> Tensor:
    """MiniLM's embeddings, computed once."""
    if not file.exists():
        print(f"embedding {len(texts)} texts for {file.name}", flush=True)
        part = file.with_suffix(".part.npy")
        np.save(part, minilm(texts).numpy())
        os.replace(part, file)
    return torch.from_numpy(np.load(file))
