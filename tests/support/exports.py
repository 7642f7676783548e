"""Small real open_clip models, their ONNX exports in both layouts, and CLIP's tokenizer as a tokenizer.json."""

import gzip
import json
import warnings
from pathlib import Path

import numpy as np

TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
CONFIGS = {
    "lpp-tiny-vit": {
        "embed_dim": 32,
        "vision_cfg": {"image_size": 64, "layers": 2, "width": 64, "patch_size": 16, "head_width": 32},
        "text_cfg": TEXT,
    },
    "lpp-tiny-rn50": {
        "embed_dim": 32,
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
        "text_cfg": TEXT,
    },
}


def write_checkpoint(arch, folder, seed=0):
    """Random weights of a small model; returns the model and its file."""
    import open_clip
    import safetensors.torch
    import torch

    configs = folder / "configs"
    configs.mkdir(exist_ok=True)
    (configs / f"{arch}.json").write_text(json.dumps(CONFIGS[arch]))
    if arch not in open_clip.list_models():
        open_clip.add_model_config(configs)
    torch.manual_seed(seed)
    model = open_clip.create_model(arch).eval()
    path = folder / f"{arch}-{seed}.safetensors"
    safetensors.torch.save_file(model.state_dict(), path)
    return model, path


def export(model, method, example, path, names, dynamic=True):
    import torch

    class Tower(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return getattr(self.model, method)(x)

    path.parent.mkdir(parents=True, exist_ok=True)
    axes = {name: {0: "batch"} for name in names} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The exporter's own deprecations.
        torch.onnx.export(
            Tower(), (example,), path, input_names=[names[0]], output_names=[names[1]], dynamic_axes=axes, dynamo=False
        )


def write_open_clip_layout(model, folder, dynamic=True):
    import torch
    from open_clip.transform import PreprocessCfg

    rows = 2 if dynamic else 1
    export(
        model,
        "encode_image",
        torch.zeros(rows, 3, 64, 64),
        folder / "visual/model.onnx",
        ("image", "embedding"),
        dynamic,
    )
    tokens = torch.zeros(rows, 77, dtype=torch.int32)
    export(model, "encode_text", tokens, folder / "textual/model.onnx", ("text", "embedding"), dynamic)
    settings = vars(PreprocessCfg(**model.visual.preprocess_cfg))
    (folder / "visual/preprocess_cfg.json").write_text(json.dumps(settings))
    write_tokenizer(folder / "textual/tokenizer.json")
    (folder / "textual/tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 77, "pad_token": "<|endoftext|>"})
    )
    return folder


def write_transformers_layout(model, folder):
    import torch

    names = ("pixel_values", "image_embeds")
    export(model, "encode_image", torch.zeros(2, 3, 64, 64), folder / "onnx/vision_model.onnx", names)
    tokens = torch.zeros(2, 77, dtype=torch.int64)
    export(model, "encode_text", tokens, folder / "onnx/text_model.onnx", ("input_ids", "text_embeds"))
    config = model.visual.preprocess_cfg
    side = {"height": 64, "width": 64}
    settings = {"crop_size": side, "do_center_crop": True, "size": {"shortest_edge": 64}, "resample": 3}
    settings |= {"image_mean": list(config["mean"]), "image_std": list(config["std"]), "rescale_factor": 1 / 255}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(
        json.dumps({"model_type": "clip", "text_config": {"max_position_embeddings": 77}})
    )
    write_tokenizer(folder / "tokenizer.json")
    return folder


def write_tokenizer(path):
    """CLIP's byte-pair encoding from open_clip's own vocabulary."""
    from open_clip.tokenizer import bytes_to_unicode, default_bpe
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    lines = gzip.decompress(Path(default_bpe()).read_bytes()).decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    merges = [tuple(line.split()) for line in lines]
    letters = list(bytes_to_unicode().values())
    entries = [*letters, *(letter + "</w>" for letter in letters), *map("".join, merges)]
    entries += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {entry: index for index, entry in enumerate(entries)}
    end = "<|endoftext|>"
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix="</w>", unk_token=end))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "removed", invert=True), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    start = "<|startoftext|>"
    tokenizer.post_processor = processors.TemplateProcessing(
        f"{start} $A {end}", special_tokens=[(start, vocabulary[start]), (end, vocabulary[end])]
    )
    tokenizer.save(str(path))


def images():
    from PIL import Image

    rng = np.random.default_rng(0)
    sizes = [(640, 427), (300, 401), (64, 64), (50, 20), (97, 97)]
    small = [rng.integers(0, 256, (9, 9, 3), dtype=np.uint8) for _ in sizes]
    return [Image.fromarray(one).resize(size, Image.Resampling.BICUBIC) for one, size in zip(small, sizes, strict=True)]


TEXTS = [
    "a photo of a cat.",
    "",
    "Great White_Shark's 1234 & more!?",
    "Ünïcode 雪 naïve café",
    "{0.__class__}",
    "a very long text " * 60,
]
