"""Readers of what other tools write, and of folders that somebody may send: more targets of the fuzzer.

Parquet and clip-retrieval, zip files, the splits of CoOp and of 2SFS, CLIP_benchmark's cache, results of a benchmark, a
project of the page.
"""

import io
import json
import shutil
import sqlite3
import warnings
import zipfile
from contextlib import closing, suppress

import numpy as np

from lpplusplus.app.project import FolderError, Project
from lpplusplus.bench import report
from lpplusplus.bench.cell import Cell, Row
from lpplusplus.bench.datasets import DatasetError, OverlapError
from lpplusplus.bench.datasets.description import Description
from lpplusplus.bench.datasets.features import read_feature_file
from lpplusplus.bench.datasets.readers import READERS
from lpplusplus.bench.draws import DrawError, public_draw
from lpplusplus.bench.results import Results, ResultsError
from lpplusplus.encoders.pixels.decoding import DEFAULT_LIMITS, ImageError
from lpplusplus.images.embeddings import Embeddings, Origin
from lpplusplus.images.errors import SourceError, StoreError
from lpplusplus.images.parquet import read_parquet, write_parquet
from lpplusplus.images.sources.folders import from_zip

from . import mutations
from .target import Target


def _rows(n, dim=4):
    return np.random.default_rng(0).standard_normal((n, dim)).astype(np.float32)


# Parquet.


def _table(columns, metadata=None):
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    table = pa.table(columns) if isinstance(columns, dict) else columns
    table = table if metadata is None else table.replace_schema_metadata(metadata)
    pq.write_table(table, file, compression="none", store_schema=True, write_statistics=False)
    return file.getvalue()


def _data_set(folder):
    origin = Origin("embedded", "f" * 64, "{}", 4, 1, 0)
    X, hashes = _rows(3), np.ones((3, 32), np.uint8)
    names, labels = [f"{i}.png" for i in range(3)], np.array(["ant", "bee", "ant"])
    found = Embeddings(X[:, None], labels, names, ("ant", "bee"), ("ant", "bee"), origin, hashes=hashes)
    write_parquet(found, folder / "set")
    return folder / "set"


def _parquet(folder):
    import pyarrow as pa

    X = _rows(3)
    ours = (_data_set(folder) / "part-000000.parquet").read_bytes()
    lists = pa.array(X.tolist(), pa.list_(pa.float32()))
    large = pa.array(X.tolist(), pa.large_list(pa.float64()))
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.astype(np.float16).reshape(-1)), 4)
    words = pa.array(["ant", "bee", "ant"])
    return [
        ours,
        _table({"embedding": lists, "label": words, "url": words}),
        _table({"embedding": large, "label": words.dictionary_encode(), "image_path": words}),
        _table({"embedding": fixed, "label": pa.array([2, 10, 2])}),
    ]


def _change_parquet(content, rng):
    """Another table in the same file: columns of another type, other numbers, or other words about itself."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    about = {key: value for key, value in (table.schema.metadata or {}).items() if key == b"lpplusplus"}
    columns = {name: table.column(name) for name in table.column_names}
    name = rng.choice(list(columns))
    action = rng.randrange(7)
    if action == 0:
        del columns[name]
    elif action == 1:
        columns[rng.choice(("embedding", "label", "path", "hash", "x\ud7ff"))] = columns[name]
    elif action == 2:
        kinds = (pa.float16(), pa.float64(), pa.int8(), pa.string(), pa.list_(pa.float64()), pa.list_(pa.int8(), 4),
                 pa.list_(pa.float32(), 4), pa.list_(pa.float32(), 2), pa.binary(), pa.large_string())  # fmt: skip
        columns[name] = columns[name].cast(rng.choice(kinds), safe=False)
    elif action in (3, 4) and about:
        about = {b"lpplusplus": json.dumps(mutations.change_json(json.loads(about[b"lpplusplus"]), rng)).encode()}
    else:
        values = columns[name].to_pylist()
        odd = rng.choice(([float("nan")] * 4, [1e38] * 4, [], None, "x" * 600, b"", [None] * 4, 7, [[1.0]]))
        values[rng.randrange(len(values))] = odd
        columns[name] = pa.array(values)
    return _table(columns, about)


def _beside(file):
    """Put the data set's parts into the folder, without `file`."""

    def prepare(folder):
        made = _data_set(folder)
        for path in made.iterdir():
            path.rename(folder / path.name)
        made.rmdir()
        (folder / file).unlink()

    return prepare


def _index(folder):
    return [(_data_set(folder) / "_index.json").read_bytes()]


def change_json(content, rng):
    """Some places of a JSON file changed."""
    return json.dumps(mutations.change_json(json.loads(content), rng)).encode()


def _array(folder):
    found = []
    for dtype in (np.float32, np.float16):
        file = io.BytesIO()
        np.save(file, _rows(3).astype(dtype))
        found.append(file.getvalue())
    return found


def _metadata(folder=None):
    import pyarrow as pa

    words = pa.array(["ant", "bee", "ant"])
    return [_table({"label": words, "image_path": words}), _table({"label": pa.array([1, 2, 3]), "url": words})]


def _in_folder(path):
    return read_parquet(path.parent)


# Zip files.


def _zip(folder):
    found = []
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", kind) as archive:
            for name in ("birds/ant/1.png", "birds/ant/2.jpg", "birds/bee/1.png", "__MACOSX/birds/._1.png"):
                archive.writestr(name, b"not a photo" * 3)
        found.append(file.getvalue())
    return found


def _change_zip(content, rng):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(members))
    name, data = members[at]
    action = rng.randrange(5)
    if action == 0:
        del members[at]
    elif action == 1:
        members.append((name, data))
    elif action == 2:
        members[at] = (name, rng.choice((b"", bytes(9999), mutations.change_bytes(data, rng))))
    else:
        parts = name.split("/")
        odd = rng.choice(
            ("..", "", ".", "C:", "\\", "a" * 300, "\ud7ff", "train", "test", ".x", "é", "/".join("a" * 40))
        )
        parts[rng.randrange(len(parts))] = odd
        members[at] = ("/".join(parts), data)
    file = io.BytesIO()
    kinds = (zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,) * 9 + (zipfile.ZIP_LZMA,)  # The last is slow to start.
    with zipfile.ZipFile(file, "w", rng.choice(kinds)) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def _read_zip(path):
    for item in from_zip(path).items:
        with suppress(ImageError):
            item.read_bytes(DEFAULT_LIMITS)


# Lists of a benchmark.

SPLITS = {part: [[f"ant/{part}.jpg", 0, "ant"], [f"bee/{part}.jpg", 1, "bee"]] for part in ("train", "val", "test")}
_ENTRY = Description("dtd", "DTD", ".", "split-json", ("{}",), options={"split": "a.json", "images": "images"})


def _read_splits(path):
    return READERS["split-json"].read(_ENTRY, path.parent)


def _splits(folder):
    (folder / "a.json").write_text(json.dumps(SPLITS))


def _two_stage(folder):
    one = [
        {"_impath": f"images/{file}", "_label": k, "_domain": 0, "_classname": name}
        for file, k, name in SPLITS["train"]
    ]
    return ["\n".join(map(json.dumps, one)).encode()]


def _read_two_stage(path):
    root = path.parents[1]
    return public_draw(READERS["split-json"].read(_ENTRY, root), root, ".", shots=1, seed=1, validation="none")


def change_lines(content, rng):
    """One line of JSON changed, repeated or left out."""
    lines = content.decode().split("\n")
    at = rng.randrange(len(lines))
    action = rng.randrange(8)
    if action == 0:
        lines.insert(rng.randrange(len(lines)), lines[at])
    elif action == 1:
        del lines[at]
    else:
        lines[at] = json.dumps(mutations.change_json(json.loads(lines[at]), rng))
    return "\n".join(lines).encode()


def _tensors(folder):
    import torch

    found = []
    for value in (torch.tensor([0, 1, 1]), torch.tensor([0, 1], dtype=torch.int8)):
        file = io.BytesIO()
        torch.save(value, file)
        found.append(file.getvalue())
    return found


def _change_tensor(content, rng):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice([name for name in members if name.endswith("data.pkl")] * 3 + list(members))
    members[name] = mutations.change_bytes(members[name], rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def _cache(folder):
    import torch

    for part in ("train", "test"):
        torch.save(torch.tensor(_rows(3)), folder / f"features_{part}.pt")
        torch.save(torch.tensor([0, 1, 1]), folder / f"targets_{part}.pt")


def _read_cache(path):
    return read_feature_file(path.parent)


# Results of a benchmark.


def _results(folder):
    made = Results(folder / "made")
    for shots, accuracy in ((1, 0.5), (4, 0.75)):
        cell = Cell("birds", "rn50", "LP++", shots, 1, "LPPlusPlus", {"updates": 3})
        made.add(
            Row(cell, "ok", accuracy, 0.1, 1.0, 0.1, None, 3.0, "update", 3.0, 12, draw="d", curve={"loss": [1.0]})
        )
    made.add(Row(Cell("birds", "rn50", "x", 1, 1, "ZeroShot"), "failed", traceback="ValueError: no"))
    made.keep_draw("d", {"support": [1]})
    with closing(sqlite3.connect(made.path)) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("VACUUM")
    return [made.path.read_bytes()]


def _change_results(content, rng):
    """A row with other content, or a table that is not as it was."""
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(content)
        action = rng.randrange(8)
        if action == 0:
            table = rng.choice(("about", "results", "plans", "draws"))
            database.execute(rng.choice((f"DROP TABLE {table}", f"DELETE FROM {table}", f"ALTER TABLE {table} ADD x")))
        elif action == 1:
            database.execute("UPDATE about SET value = ?", (str(rng.choice(mutations.ODD)),))
        else:
            at, *row = rng.choice(database.execute("SELECT rowid, * FROM results").fetchall())
            which = rng.choice((0, 1, 2, 2, 2, 2, 2, 2))
            changed = json.dumps(mutations.change_json(json.loads(row[2]), rng)) if which == 2 else None
            row[which] = changed or rng.choice(("ok", "failed", "", b"x", 1, "x" * 999))
            database.execute("DELETE FROM results WHERE rowid = ?", (at,))
            database.execute("INSERT INTO results VALUES (?, ?, ?)", row)
        database.commit()
        return database.serialize()
    finally:
        database.close()


def _read_results(path):
    with warnings.catch_warnings():  # A damaged row is left out, and told.
        warnings.simplefilter("error", UserWarning)
        results = Results(path.parent, create=False)
        results.draws()
        report.report(results, "markdown")


# A project of the page.

JOURNAL = [
    {"change": 1, "about": {"what": "rename", "name": "ant", "to": "fly"}, "moves": [["ant", "fly"]]},
    {"undo": 1},
    {"change": 2, "about": {"what": "move", "count": 1, "to": "bee"}, "moves": [["ant/1.png", "bee/1.png"]]},
    {"change": 3, "about": {"what": "remove", "count": 1}, "moves": [["bee/2.png", ".lpp/removed/0/bee/2.png"]]},
    {"undo": 3},
    {"redo": 3},
]
PHOTOS = ("ant/1.png", "bee/2.png", "unsorted/3.png")


def _project(folder):
    for name in PHOTOS:
        path = folder / "birds" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (folder / "birds/.lpp/incoming").mkdir(parents=True, exist_ok=True)


def _journals(folder):
    """As the version before wrote them, and as they are now: with "done", whose absence makes the moves again."""
    old = ["".join(json.dumps(line) + "\n" for line in JOURNAL[:count]).encode() for count in (1, 2, 3, 5, 6)]
    with Project(folder / "seed") as project:
        for name in PHOTOS:
            given = project.incoming()
            given.write_bytes(name.encode())
            project.add("unsorted", [(name, given)])
        project.rename(project.add_class("ant"), "fly")
        project.move(["unsorted/1.png"], "fly")
        project.remove(["unsorted/2.png"])
        project.undo()
        project.undo()
        project.redo()
    new = (folder / "seed/.lpp/journal.jsonl").read_bytes()
    return [*old, new, new[: new.rindex(b'{"done"')]]


def _read_project(path):
    """Open it, take everything back and do it again; no photo may be lost and nothing be written beside it."""
    root = path.parents[1]
    try:
        with Project(root) as project:
            with suppress(FolderError):
                while project.undo():
                    pass
                while project.redo():
                    pass
            project.listing()
    finally:
        kept = {file.read_bytes().decode(errors="replace") for file in root.rglob("*") if file.is_file()}
        beside = [one.name for one in root.parent.iterdir()]
        aside = [*path.parent.glob("*.damaged")]
        shutil.rmtree(root)
        _project(root.parent)
        assert beside == ["birds"], f"it wrote {beside}"
    assert kept.issuperset(PHOTOS), f"photos are lost: {set(PHOTOS) - kept}"
    if aside:
        raise FolderError(f"{path} was put aside: nothing can be undone.")


_ERRORS = (SourceError, StoreError)
TARGETS = {
    "parquet": Target("a.parquet", read_parquet, _ERRORS, _parquet, _change_parquet),
    "parquet-index": Target("_index.json", _in_folder, _ERRORS, _index, change_json, prepare=_beside("_index.json")),
    "clip-retrieval": Target("img_emb_0.npy", _in_folder, _ERRORS, _array, mutations.change_npy,
                             prepare=lambda folder: (folder / "metadata_0.parquet").write_bytes(_metadata()[0])),
    "clip-retrieval-table": Target("metadata_0.parquet", _in_folder, _ERRORS, _metadata, _change_parquet,
                                   prepare=lambda folder: (folder / "img_emb_0.npy").write_bytes(_array(folder)[0])),
    "zip": Target("a.zip", _read_zip, (SourceError,), _zip, _change_zip),
    "splits": Target("a.json", _read_splits, (DatasetError,), lambda _: [json.dumps(SPLITS).encode()], change_json),
    "two-stage-draws": Target("split_fewshot/shot_1-seed_1_train.jsonl", _read_two_stage,
                              (DrawError, DatasetError, OverlapError), _two_stage, change_lines, prepare=_splits),
    "clip-benchmark": Target("targets_train.pt", _read_cache, (DatasetError,), _tensors, _change_tensor,
                             prepare=_cache),
    "results": Target("results.sqlite", _read_results, (ResultsError, UserWarning), _results, _change_results),
    "project": Target("birds/.lpp/journal.jsonl", _read_project, (FolderError,), _journals, change_lines,
                      prepare=_project),
}  # fmt: skip
"""By name."""
