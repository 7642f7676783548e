"""What a fuzzer does to one reader of files: write an input, let the reader read it, judge what comes of it."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lpplusplus._core.errors import LONGEST_MESSAGE

from . import mutations

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

SECONDS_PER_INPUT = 20
"""Of the processor."""


@dataclass
class Target:
    """One reader.

    Attributes
    ----------
    file
        What the input is called in the target's folder; the reader is given `folder / file`.
    read
        Reads the file, and uses what it got.
    errors
        What it may raise.
    seeds
        Valid files, made by the package itself in a folder.
    change
        (content, rng) to a changed file that is sealed again; raises ValueError for content that it cannot take
        apart.
    prepare
        Puts other files into the folder that the reader needs.
    """

    file: str
    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...]
    seeds: Callable[[Path], list[bytes]]
    change: Callable[[bytes, Any], bytes] | None = None
    prepare: Callable[[Path], Any] = lambda folder: None
    folder: Path = field(init=False)
    path: Path = field(init=False)

    def start(self) -> "Target":
        """Make the folder, in memory if there is such a place."""
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.path = self.folder / self.file
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.prepare(self.folder)
        return self

    def stop(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def once(self, content: bytes) -> bool:
        """Read `content`; whether it was accepted. Raises for a finding."""
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(file, content)
        os.close(file)
        begun = time.process_time()
        try:
            self.read(self.path)
        except self.errors as error:
            said = str(error)
            assert len(said) <= LONGEST_MESSAGE, f"a message of {len(said)} characters"
            assert str(self.folder) in said, f"a message that does not name the file: {said}"
            return False
        finally:
            seconds = time.process_time() - begun
            assert seconds < SECONDS_PER_INPUT, f"{seconds:.0f} seconds for one file"
        return True

    def mutate(self, content: bytes, rng: Any) -> bytes:
        """Another input: one that is sealed again most of the time, else with some bytes changed."""
        if self.change is not None and rng.random() < 0.9:
            with suppress(Exception):  # It is taken apart by libraries that raise anything.
                return self.change(content, rng)
        return mutations.change_bytes(content, rng)
