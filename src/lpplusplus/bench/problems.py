"""A data set as one encoder sees it: embeddings of the images that a plan needs, class names embedded, draws."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..embedding import embed
from ..encoders import Encoder, open_encoder
from ..encoders.prompts import class_texts
from ..persistence import atomic_write
from ..scenes import write_demo
from ..sources import from_folder
from .cell import Examples, TaskData
from .datasets import (
    DataSet,
    DataSetError,
    FeatureSet,
    OverlapError,
    Part,
    Splits,
    catalog,
    check_rows,
    find,
    shared_part,
    with_parents,
)
from .plan import Plan
from .results import Cell
from .tasks import Draw, DrawError, draw_from, read_draws
from .tokens import TokenEncoder

DEMO = "demo"
DEMO_IMAGES = {"train": 40, "val": 24, "test": 30}
"""Pictures of each class in the demonstration's splits."""
DEMO_TEMPLATES = ("a picture of a {}.",)

Tell = Callable[[str], None]
OpenEncoder = Callable[[], Encoder]


@dataclass(frozen=True)
class EmbeddedPart:
    """Embeddings of some images of a split: (n, D), or (n, V, D) with views, with their positions in the split."""

    X: NDArray[np.float32]
    labels: NDArray[np.intp]
    positions: NDArray[np.intp]
    hashes: NDArray[np.uint8] | None = None
    """(n, 32) SHA-256 of the images' files, where there are any."""

    def __call__(self, positions: NDArray[np.intp]) -> Examples:
        rows = np.searchsorted(self.positions, positions)
        assert np.array_equal(self.positions[rows], positions)
        return Examples(self.X[rows], self.labels[rows])


@dataclass(frozen=True)
class Problem:
    """All tasks of one data set and encoder."""

    data: Splits | FeatureSet
    parts: Mapping[str, EmbeddedPart]
    text: NDArray[np.float32]
    encode_seconds: float | None = None
    shift: EmbeddedPart | None = None
    """Test images of another data set, such as ImageNet-A's, instead of the own ones."""
    columns: NDArray[np.intp] | None = None
    """Which of the classes they have; None for all."""
    imported: Mapping[tuple[int, int], Draw] = field(default_factory=dict)
    """Draws from a file, by shots and seed, instead of the generator's."""

    def draw(self, cell: Cell) -> Draw:
        """The images of a cell's task; the same for every method."""
        if self.imported:
            if (cell.shots, cell.seed) not in self.imported:
                raise DrawError(
                    f"{self.data.name}: the file of draws has none of {cell.shots} shots, seed {cell.seed}."
                )
            return self.imported[cell.shots, cell.seed]
        return _draw(self.data, cell.protocol, cell.shots, cell.seed)

    def task(self, draw: Draw) -> TaskData:
        """The embeddings of a draw."""
        places = {"pool": "train"} | {name: name for name in ("train", "val", "test")}
        found = {
            purpose: self.parts[places[source]](getattr(draw, purpose))
            for purpose, source in draw.sources.items()
            if source != "none" and not (purpose == "test" and self.shift)
        }
        if self.shift is not None:
            found["test"] = Examples(self.shift.X, self.shift.labels)
        return TaskData(
            found["support"],
            found.get("validation"),
            found["test"],
            self.text,
            self.data.classes,
            self.data.classnames,
            self.encode_seconds,
            draw.sha256,
            self.columns,
        )


@dataclass
class Sources:
    """Where data sets come from, and where their embeddings are kept.

    Attributes
    ----------
    root
        Folder with the data sets, one folder each; None if none is needed.
    cache
        Folder for feature stores.
    files
        Further catalogues.
    """

    root: Path | None
    cache: Path
    files: tuple[Path, ...] = ()
    _encoders: dict[str, Encoder] = field(default_factory=dict)

    def problem(
        self, plan: Plan, name: str, backbone: str, tell: Tell = lambda what: None, *, tokens: bool = False
    ) -> Problem:
        """Read, embed and check one data set for all of a plan's tasks; with `tokens`, the places of each image too."""
        encoder = self._open(backbone, tokens)
        sets = with_parents(catalog(*self.files) | dict(plan.declared))
        if name == DEMO and name not in sets:
            return _distinct(plan, self._embedded(plan, self._demo(tell), encoder, tell))
        entry = find(name, sets)
        if self.root is None:
            raise DataSetError(f"{entry.title} is looked for below --root, which is not given. {entry.advice}")
        if not entry.has_images:
            if tokens:
                raise DataSetError(f"{entry.title} has embeddings without the places of images, which PLOT needs.")
            found = entry.features(self.root, backbone=backbone, allow_duplicates=True)
            return _distinct(plan, _published(found, plan))
        if entry.parent:
            return self._shifted(plan, entry, find(entry.parent, sets), encoder, tell)
        return _distinct(plan, self._embedded(plan, entry.splits(self.root), encoder, tell))

    def _shifted(self, plan: Plan, entry: DataSet, parent: DataSet, encoder: OpenEncoder, tell: Tell) -> Problem:
        """Learn from the parent's images, with the parent's draws, and test on this data set's."""
        assert self.root is not None
        shifted = entry.splits(self.root)
        home = self._embedded(plan, parent.splits(self.root), encoder, tell, test=False)
        away = self._embedded(plan, shifted, encoder, tell, needed={"test": np.arange(len(shifted.part("test")))})
        assert isinstance(home.data, Splits)
        _distinct(plan, home, away)
        return replace(home, shift=away.parts["test"], columns=shifted.columns_of(home.data))

    def _embedded(
        self,
        plan: Plan,
        data: Splits,
        open_it: OpenEncoder,
        tell: Tell,
        *,
        needed: dict[str, NDArray[np.intp]] | None = None,
        test: bool = True,
    ) -> Problem:
        encoder = open_it()
        imported = _imported(plan, data)
        if needed is None:
            needed = _needed(data, plan, imported)
        if not test:
            needed.pop("test", None)
        folder = self.cache / data.name / encoder.fingerprint[-16:]
        parts, computed, start = {}, 0, time.perf_counter()
        for part, rows in needed.items():
            views = plan.views if part == "train" else 0
            store = folder / (f"{part}-{views}-views" if views else part)

            def told(done: int, total: int, part: str = part) -> None:
                tell(f"{data.name}, {encoder.spec}: embedding {part}, {done} of {total}")

            store.parent.mkdir(parents=True, exist_ok=True)
            found = embed(data.images(part, rows), encoder, store=store, views=views, progress=told)  # type: ignore[arg-type]
            X = found.X if views else found.X[:, 0]
            if isinstance(encoder, TokenEncoder):
                X = X.reshape(*X.shape[:-1], *encoder.shape)
            parts[part] = EmbeddedPart(X, data.part(part).labels[rows], rows, found.hashes)  # type: ignore[arg-type]
            computed += found.computed
        seconds = _encode_seconds(folder, time.perf_counter() - start if computed else None)
        names = encoder.encoder if isinstance(encoder, TokenEncoder) else encoder
        text = class_texts(names, data.classnames, data.templates)
        return Problem(data, parts, text, seconds, imported=imported)

    def _open(self, backbone: str, tokens: bool) -> OpenEncoder:
        """Opens the encoder when it is needed: published features need none."""

        def opened() -> Encoder:
            if backbone not in self._encoders:
                self._encoders[backbone] = open_encoder(backbone)
            return TokenEncoder(self._encoders[backbone]) if tokens else self._encoders[backbone]

        return opened

    def _demo(self, tell: Tell) -> Splits:
        """The package's own pictures, drawn once."""
        parts: dict[str, Part] = {}
        classes: tuple[str, ...] = ()
        names: tuple[str, ...] = ()
        for seed, (part, count) in enumerate(DEMO_IMAGES.items(), 11):
            folder = self.cache / "demo-pictures" / part
            complete = folder.with_suffix(".complete")
            if not complete.exists():
                tell(f"{DEMO}: drawing {count} pictures a class for {part}")
                write_demo(folder, count, seed=seed)
                complete.touch()
            images = from_folder(folder)
            assert images.labels is not None
            classes, names = images.classes, images.names
            position = {label: k for k, label in enumerate(classes)}
            files = tuple(Path(path).relative_to(folder).as_posix() for path in images.paths())
            parts[part] = Part(folder, files, np.array([position[label] for label in images.labels], np.intp))
        return Splits(DEMO, classes, names, DEMO_TEMPLATES, **parts)


def _distinct(plan: Plan, problem: Problem, shifted: Problem | None = None) -> Problem:
    """The problem, unless the plan refuses copies and a split has an image of another; `shifted` has the test images.

    Images are the same if their files' bytes are, whatever their names, or their embeddings. Bytes alone would miss an
    image that was saved again; embeddings alone, whose last bits may depend on the batch, a copy here and there.
    """
    if plan.duplicates == "allow":
        return problem
    homes = dict.fromkeys(problem.parts, problem) | ({"test": shifted} if shifted else {})
    parts = {name: home.parts[name] for name, home in homes.items()}
    shown = {name: _shown(home.data, name, parts[name].positions) for name, home in homes.items()}
    hashes = {name: part.hashes for name, part in parts.items() if part.hashes is not None}
    try:
        for rows in (hashes, {name: part.X for name, part in parts.items()}):
            check_rows(rows, problem.data.name, shared=shared_part(problem.data), shown=shown)
    except OverlapError as error:
        raise OverlapError(f'{error} Or set duplicates = "allow" in the plan.') from error
    return problem


def _shown(data: Splits | FeatureSet, part: str, positions: NDArray[np.intp]) -> list[str]:
    """What messages call images: their files, or their rows in a file of features."""
    if isinstance(data, FeatureSet):
        return [f"row {position}" for position in positions]
    found: Part = getattr(data, part)
    return [f"{found.root}/{found.files[position]}" for position in positions]


def _published(data: FeatureSet, plan: Plan) -> Problem:
    parts = {}
    for name in ("train", "val", "test"):
        part = getattr(data, name)
        if part is not None:
            parts[name] = EmbeddedPart(part.X, part.labels, np.arange(len(part)))
    return Problem(data, parts, data.text, imported=_imported(plan, data))


def _imported(plan: Plan, data: Splits | FeatureSet) -> dict[tuple[int, int], Draw]:
    """Draws that the plan's file has for a data set, after checking that they are of these images."""
    if not plan.draws:
        return {}
    found = {}
    for draw in read_draws(plan.draws):
        if draw.dataset == data.name:
            draw.check(data)
            if (draw.shots, draw.seed) in found:
                raise DrawError(
                    f"{plan.draws} has two draws of {data.name} with {draw.shots} shots and seed {draw.seed}: export "
                    f"them from the results of one protocol."
                )
            found[draw.shots, draw.seed] = draw
    if not found and data.train is not None:
        raise DrawError(f"{plan.draws} has no draws of {data.name}.")
    return found


def _needed(data: Splits, plan: Plan, imported: Mapping[tuple[int, int], Draw]) -> dict[str, NDArray[np.intp]]:
    """Positions of the images that any task of the plan uses, by split; of 1.3 million, perhaps a tenth."""
    used: dict[str, list[NDArray[np.intp]]] = {}
    tasks = ((shots, seed) for shots in plan.shots for seed in range(1, plan.tasks + 1))
    drawn = imported.values() if imported else (_draw(data, plan.protocol, *task) for task in tasks)
    for draw in drawn:
        for purpose, source in draw.sources.items():
            if source != "none":
                used.setdefault("train" if source == "pool" else source, []).append(getattr(draw, purpose))
    return {part: np.unique(np.concatenate(rows)) for part, rows in used.items()}


def _draw(data: Splits | FeatureSet, protocol: Mapping[str, Any], shots: int, seed: int) -> Draw:
    return draw_from(
        data,
        shots=shots,
        seed=seed,
        validation=protocol["validation"],
        shortage=protocol["shortage"],
        generator=protocol["generator"],
    )


def _encode_seconds(folder: Path, measured: float | None) -> float | None:
    """Time spent embedding, kept beside the embeddings, so that it is known when they are used again."""
    note = folder / "encoding.json"
    before = json.loads(note.read_text())["seconds"] if note.exists() else 0.0
    if measured is None:
        return before or None
    with atomic_write(note) as file:
        file.write(json.dumps({"seconds": before + measured}).encode())
    return float(before + measured)
