"""Kills `embed` before each step that it takes in its store's folder, resumes, and compares the folder's bytes.

Run as `python killing.py fresh|changed|edited|damaged FOLDER`. A process of its own, since it forks: the child is
killed with SIGKILL by a hook that counts opens, renames and removals, and the parent goes on where it was killed.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import lpplusplus.images.embedder
from lpplusplus.images.sources import from_folder
from lpplusplus.images.store import FeatureStore, StoreError
from toy_encoder import ToyEncoder
from toy_images import contents, make_folder, toy_image

STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
ENCODER = ToyEncoder(batch_size=3)


def run(images, store):
    return lpplusplus.images.embedder.embed(images, ENCODER, store=store, workers=1)


def seen(store):
    """What two readers see now, one who checks every byte and one who only maps; None if they are told to wait.

    They are told by the absence of the index, which must be gone before any shard is moved.
    """
    try:
        opened = FeatureStore(store)
    except StoreError:
        assert not (store / "index.json").exists(), "an index of shards that are not there"
        return None
    mapped = [part.tobytes() for part in opened.maps()]
    try:
        features = opened.load()
    except StoreError:
        return None, mapped
    return (features.paths, features.labels.tolist(), features.X.tobytes()), mapped


def killed_before_step(step, images, store):
    """Run in a child that dies before its `step`-th step; whether it lived on to the end."""
    child = os.fork()
    if not child:
        steps = 0

        def hook(event, arguments):
            nonlocal steps
            if event in STEPS and str(store) in str(arguments[0]):
                steps += 1
                if steps == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        run(images, store)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def prepare(kind, work):
    """Images of the run to be killed, and the state of the store before it."""
    photos = make_folder(work / "photos", {"a": 9, "b": 8})
    start = work / "start"
    if kind != "fresh":
        run(from_folder(photos), start)
    if kind == "changed":  # One in front, so that all move on; one fewer; one edited; one renamed.
        make_folder(photos, {"_new": 1}, start=100)
        (photos / "a/004.png").unlink()
        shutil.copy(photos / "b/001.png", photos / "b/006.png")
        (photos / "b/002.png").rename(photos / "b/0025.png")
    if kind == "edited":  # The same list of files: the second of shard 0 and that of shard 2 change places, one is new.
        one, other = (photos / "a/001.png", photos / "b/000.png")
        one_was, other_was = one.read_bytes(), other.read_bytes()
        one.write_bytes(other_was)
        other.write_bytes(one_was)
        toy_image(100).save(photos / "a/006.png")
    if kind == "damaged":
        shard = start / "shard-000001.safetensors"
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
    return from_folder(photos), start


def main(kind, work):
    lpplusplus.images.embedder.ROWS_PER_SHARD = 4
    images, start = prepare(kind, work)
    expected, store = work / "expected", work / "store"

    def reset(folder):
        shutil.rmtree(folder, ignore_errors=True)
        if start.exists():
            shutil.copytree(start, folder)

    reset(expected)
    run(images, expected)
    once = ENCODER.batches.copy()
    step = 0
    while True:
        step += 1
        reset(store)
        lived = killed_before_step(step, images, store)
        assert seen(store) in (None, seen(start), seen(expected)), f"a wrong store after a kill before {step}"
        ENCODER.batches.clear()
        again = run(images, store)
        assert contents(store) == contents(expected), f"killed before step {step}"
        assert ENCODER.batches == once[len(once) - len(ENCODER.batches) :], (
            f"killed before step {step}: work done twice"
        )
        if lived:
            assert again.computed == 0
            break
    print(step - 1, "kills;", len(contents(expected)), "files")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
