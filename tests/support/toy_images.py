"""Images for tests, drawn from a seed and written by Pillow."""

import io

import numpy as np
from PIL import Image


def toy_image(seed=0, width=40, height=30):
    """Coloured blocks: no two seeds alike, no symmetry, and hardly changed by JPEG."""
    blocks = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.BILINEAR)


def encoded(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def make_folder(root, counts, *, suffix=".png", start=0):
    """A folder per class with that many different images."""
    seed = start
    for name, count in counts.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            toy_image(seed).save(root / name / f"{index:03}{suffix}")
            seed += 1
    return root


def contents(folder):
    """Bytes of every file below, by relative path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
