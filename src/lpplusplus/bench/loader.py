"""Loading a data set for a plan: read its lists, draw all supports, embed the images that they use, refuse leaks."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core.files import atomic_write
from ..encoders import Encoder, EncoderError, open_encoder
from ..encoders.class_text import class_texts
from ..images.embedder import embed
from ..images.embeddings import Embeddings
from .cell import EmbeddedDataset
from .datasets import DatasetError, Entry, ImageSplits, OverlapError, Splits, catalog, find
from .datasets.catalog import DEMO, demo_splits, with_parents
from .datasets.features import FeatureSplits
from .datasets.readers import feature_path
from .datasets.splits import check_contents, check_rows
from .draw_task import draw_from
from .draws import TWO_STAGE, Draw, DrawError, public_draw, read_draws
from .plan import Plan

Tell: TypeAlias = Callable[[str], None]
Draws: TypeAlias = dict[tuple[int, int], Draw]
"""The draws of a data set by shots and seed."""


@dataclass
class DatasetLoader:
    """Where data sets come from, and where their embeddings are kept.

    Attributes
    ----------
    root
        Folder of all data sets; None if none is needed.
    cache
        Folder for feature stores.
    encoders
        Encoders of your own, by their names in the plan. With several workers they must be picklable. Other encoders
        are opened by name.
    """

    root: Path | None
    cache: Path
    encoders: Mapping[str, Encoder] = field(default_factory=dict)
    _opened: dict[str, Encoder] = field(default_factory=dict, init=False)

    def load(
        self, plan: Plan, name: str, encoder: str, tell: Tell = lambda what: None, *, places: bool = False
    ) -> tuple[EmbeddedDataset, Draws]:
        """A data set with all draws of a plan, embedded and checked.

        Parameters
        ----------
        plan
            Which draws.
        name
            Name of the data set.
        encoder
            Its name in the plan.
        tell
            Called with a message now and then.
        places
            Whether to embed the places of each image, too, which PLOT needs.
        """
        data, shift, folder = self._read(plan, name, encoder, tell)
        draws = _draws(plan, data, self.root, folder)
        seconds = columns = None
        if isinstance(data, FeatureSplits):
            if places:
                raise DatasetError(f"{name} has embeddings without the places of images, which PLOT needs.")
            parts = {split: replace(part, text=data.text) for split, part in data.parts.items()}
        else:
            assert isinstance(data, ImageSplits)
            opened = self._open(encoder, places)
            used = _used(draws)
            if shift is not None:
                columns = shift.columns_of(data)
                used.pop("test", None)
            if not plan.allows_copies(name):
                # Embeddings alone would miss some copies: their last bits may depend on the batch.
                with _copies_told():
                    check_contents(data, used, shift)
            parts, seconds = self._embed(data, used, opened, plan.views, tell)
            if shift is not None:
                parts |= self._embed(shift, {"test": np.arange(len(shift.part("test")))}, opened, 0, tell)[0]
        if not plan.allows_copies(name):
            shown = {split: part.paths for split, part in parts.items()}
            with _copies_told():  # Bytes alone would miss an image that was saved again.
                check_rows({split: part.X for split, part in parts.items()}, data.name, shared=data.shared, shown=shown)
        # Paths and hashes are no longer needed; everything else goes to every worker.
        parts = {split: replace(part, paths=(), hashes=None) for split, part in parts.items()}
        return EmbeddedDataset(parts, seconds, columns, self.encoders.get(encoder)), draws

    def fingerprint(self, plan: Plan, name: str, encoder: str) -> str:
        """Of the encoder's weights, or of the file of embeddings; "" if it cannot be told: then `load` says why."""
        try:
            entries = self._entries(plan)
            if name in entries and not entries[name].has_images and self.root is not None:
                return content_digest(feature_path(entries[name], self.root, encoder))
            return self._open(encoder, False).fingerprint
        except Exception:
            return ""

    def _entries(self, plan: Plan) -> dict[str, Entry]:
        return with_parents(catalog() | dict(plan.declared))

    def _read(self, plan: Plan, name: str, encoder: str, tell: Tell) -> tuple[Splits[Any], ImageSplits | None, str]:
        """A data set and its folder. For a shift: its parent, and the shift itself for the test images."""
        entries = self._entries(plan)
        if name == DEMO.name and name not in entries:
            return demo_splits(self.cache, tell), None, ""
        entry = find(name, entries)
        if self.root is None:
            raise DatasetError(f"{entry.title} is looked for below --root, which is not given. {entry.advice}")
        if not entry.has_images:
            return entry.features(self.root, encoder=encoder, allow_duplicates=True), None, entry.folder
        if entry.parent:
            parent = find(entry.parent, entries)
            return parent.splits(self.root), entry.splits(self.root), parent.folder
        return entry.splits(self.root), None, entry.folder

    def _open(self, encoder: str, places: bool) -> Encoder:
        if encoder not in self._opened:
            self._opened[encoder] = self.encoders.get(encoder) or open_encoder(encoder)
        return PlacesEncoder(self._opened[encoder]) if places else self._opened[encoder]

    def _embed(
        self, data: ImageSplits, used: Mapping[str, NDArray[np.intp]], encoder: Encoder, views: int, tell: Tell
    ) -> tuple[dict[str, Embeddings], float | None]:
        """Embeddings of the used images of each split, if possible from the feature store; and the time it took."""
        folder = self.cache / data.name / encoder.fingerprint[-16:]
        folder.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        parts = {}
        for split, positions in used.items():

            def told(done: int, total: int, split: str = split) -> None:
                tell(f"{data.name}, {encoder.spec}: embedding {split}, {done} of {total}")

            crops = views if split == "train" else 0
            store = folder / (f"{split}-{crops}-views" if crops else split)
            embeddings = embed(data.images(split, positions), encoder, store=store, views=crops, progress=told)
            parts[split] = replace(embeddings, labels=data.part(split).labels[positions], positions=positions)
        computed = any(part.computed for part in parts.values())
        seconds = _encode_seconds(folder, time.perf_counter() - start if computed else None)
        names = encoder
        if isinstance(encoder, PlacesEncoder):
            names = encoder.encoder
            parts = {split: replace(p, X=p.X.reshape(*p.X.shape[:-1], *encoder.shape)) for split, p in parts.items()}
        text = class_texts(names, data.classnames, data.templates)
        return {split: replace(part, text=text) for split, part in parts.items()}, seconds


def _draws(plan: Plan, data: Splits[Any], root: Path | None, folder: str) -> Draws:
    """All draws of a plan: drawn, or from a file, which is checked against these images."""
    wanted = [(shots, seed) for shots in plan.shots for seed in range(1, plan.draws + 1)]
    if plan.generator == TWO_STAGE:
        if not isinstance(data, ImageSplits) or root is None or not folder:
            raise DrawError(f"{data.name}: the splits of {TWO_STAGE} name files of images, which it does not have.")
        chosen: Any = plan.validation
        return {(n, seed): public_draw(data, root, folder, shots=n, seed=seed, validation=chosen) for n, seed in wanted}
    if not plan.draws_file:
        policies: Any = {"validation": plan.validation, "shortage": plan.shortage, "generator": plan.generator}
        return {(shots, seed): draw_from(data, shots=shots, seed=seed, **policies) for shots, seed in wanted}
    return _from_file(plan.draws_file, data, wanted)


def _from_file(file: str, data: Splits[Any], wanted: list[tuple[int, int]]) -> Draws:
    """The wanted draws of a file, checked against these images."""
    draws: Draws = {}
    for draw in read_draws(file):
        if draw.dataset == data.name:
            draw.check(data)
            if draws.setdefault((draw.shots, draw.seed), draw) is not draw:
                raise DrawError(
                    f"{file} has two draws of {data.name} with {draw.shots} shots and seed {draw.seed}: "
                    f"export them from the results of one protocol."
                )
    for shots, seed in wanted:
        if (shots, seed) not in draws:
            raise DrawError(f"{data.name}: the file of draws has none of {shots} shots, seed {seed}.")
    return {draw: draws[draw] for draw in wanted}


def _used(draws: Draws) -> dict[str, NDArray[np.intp]]:
    """Positions of the images that any of the draws uses, by split; of 1.3 million this may be a tenth."""
    used: dict[str, list[NDArray[np.intp]]] = {}
    for draw in draws.values():
        for purpose, source in draw.sources.items():
            if source != "none":
                used.setdefault("train" if source == "pool" else source, []).append(getattr(draw, purpose))
    return {split: np.unique(np.concatenate(rows)) for split, rows in used.items()}


@contextmanager
def _copies_told() -> Iterator[None]:
    """Say in the error of a copy how to use the data anyway."""
    try:
        yield
    except OverlapError as error:
        raise OverlapError(f'{error} Or set duplicates = "allow" in the plan, or a list of data sets.') from error


def content_digest(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder with their names."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.relative_to(path.parent).as_posix().encode() + b"\0")
            with open(file, "rb") as content:
                while block := content.read(2**20):
                    digest.update(block)
    return digest.hexdigest()


def _encode_seconds(folder: Path, measured: float | None) -> float | None:
    """Time spent embedding, kept beside the embeddings, so that it is known when they are used again."""
    note = folder / "encoding.json"
    before = json.loads(note.read_text())["seconds"] if note.exists() else 0.0
    if measured is None:
        return before or None
    with atomic_write(note) as file:
        file.write(json.dumps({"seconds": before + measured}).encode())
    return float(before + measured)


if TYPE_CHECKING:
    from PIL import Image


class PlacesEncoder(Encoder):
    """An open_clip encoder that gives an image and its places in one row, as a feature store can hold them."""

    def __init__(self, encoder: Encoder) -> None:
        from PIL import Image

        if not hasattr(encoder, "encode_places"):
            raise EncoderError(
                f"PLOT needs the places of an image, which {encoder.spec} does not give: use open_clip:…."
            )
        self.encoder = encoder
        self.spec, self.preprocessing, self.batch_size = encoder.spec, encoder.preprocessing, encoder.batch_size
        self.fingerprint = f"{encoder.fingerprint}-tokens"
        blank = self.prepare(Image.new("RGB", (64, 64)))
        self.shape: tuple[int, int] = encoder.encode_places([blank]).shape[1:]
        self.dim = self.shape[0] * self.shape[1]

    def prepare(self, image: "Image.Image", rng: np.random.Generator | None = None) -> Any:
        return self.encoder.prepare(image, rng)

    def encode_prepared(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        places: NDArray[np.float32] = self.encoder.encode_places(batch)
        return places.reshape(len(batch), self.dim)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encoder.encode_texts(texts)
