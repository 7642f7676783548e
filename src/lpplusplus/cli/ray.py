"""`--engine ray`: the options of a cluster, and what commands do there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from .console import bar, tell_skipped
from .options import OnError

if TYPE_CHECKING:
    from ..bench import runner
    from ..bench.plan import Plan
    from ..images.answers import Question
    from ..images.classifier import ImageClassifier

PANEL = "On a Ray cluster"


class Engine(str, Enum):
    """What does the work."""

    local = "local"
    ray = "ray"


EngineOption = Annotated[Engine, Option(help="This machine, or a Ray cluster (extra `ray`).", rich_help_panel=PANEL)]
RayAddress = Annotated[
    str | None, Option(help="HOST:PORT, or auto.", show_default="RAY_ADDRESS, else a new one", rich_help_panel=PANEL)
]
Workers = Annotated[
    int | None, Option(min=1, help="Most workers.", show_default="as there is room", rich_help_panel=PANEL)
]
WorkerCpus = Annotated[int, Option(min=1, help="Processors of each worker.", rich_help_panel=PANEL)]
WorkerGpus = Annotated[float, Option(min=0, help="GPUs of each worker.", rich_help_panel=PANEL)]
ByEngine = Annotated[
    OnError | None,
    Option(help="What to do about an image that cannot be read.", show_default="stop; with Ray skip"),
]


@dataclass(frozen=True)
class RayOptions:
    """A cluster, and what each worker asks for."""

    address: str | None
    workers: int | None
    cpus: int
    gpus: float

    @staticmethod
    def refuse(**options: Any) -> None:
        """Refuse options that were given, but need all embeddings in one place."""
        for name, given in options.items():
            if given:
                raise typer.BadParameter(
                    f"--{name} needs the embeddings on this machine: leave out --{name} or --engine ray.",
                    param_hint="--engine",
                )

    def _asked(self, on_error: OnError | None = None) -> dict[str, Any]:
        """What every function of the cluster takes. Bad images are always skipped there."""
        from ..cluster.connection import Slots

        if on_error is OnError.stop:
            raise typer.BadParameter("on a cluster bad images are always skipped and listed.", param_hint="--on-error")
        return {"slots": Slots(self.cpus, self.gpus, self.workers), "address": self.address}

    def embed(
        self, source: Path, output: Path, encoder: str | None, on_error: OnError | None, **options: Any
    ) -> dict[str, Any]:
        """Embed images into Parquet files; what `lpp embed` tells."""
        asked = self._asked(on_error)
        from ..cluster.commands import embed_on_ray
        from ..encoders import DEFAULT_ENCODER
        from ..images.parquet.addresses import spelled

        told, spec = spelled(output), encoder or DEFAULT_ENCODER
        with bar("Embedding on Ray") as progress:
            done = embed_on_ray(spelled(source), told, spec, progress=progress, **asked, **options)
        assert done.origin is not None
        return {
            "data_set": told,
            "images": done.rows,
            "parts": len(done.parts),
            "views": options["views"],
            "dim": done.origin.dim,
            "classes": list(done.classes),
            "encoder": done.origin.spec,
            "computed": done.rows - done.reused,
            "reused": done.reused,
            "skipped": tell_skipped(done.skipped),
            "ignored": done.ignored,
            "workers": done.workers,
            "batch_size": options["batch_size"],
        }

    def predict(
        self, model: Path, images: Path, output: Path, question: "Question", on_error: OnError | None, **options: Any
    ) -> dict[str, Any]:
        """Classify images into Parquet files; what `lpp predict` tells."""
        asked = self._asked(on_error)
        from ..cluster.commands import predict_on_ray
        from ..images.parquet.addresses import spelled

        told = spelled(output)
        with bar("Classifying on Ray") as progress:
            done = predict_on_ray(model, spelled(images), told, question, progress=progress, **asked, **options)
        counts = {"images": done.rows, "parts": len(done.parts), "reused": done.reused}
        return {"answers": told, **counts, "skipped": tell_skipped(done.skipped)}

    def train(self, source: Path, **options: Any) -> "tuple[ImageClassifier, dict[str, Any]]":
        """A classifier trained on rows that stay on the workers, and what `lpp train` tells."""
        from ..cluster.commands import train_on_ray
        from ..images.parquet.addresses import spelled

        with bar("Training on Ray"):
            return train_on_ray(spelled(source), **self._asked(), **options)


@contextmanager
def ray_workers(plan: "Plan", address: str | None, jobs: int | None) -> "Iterator[runner.Workers]":
    """Workers of a cluster, for a plan of the benchmark."""
    from ..cluster.commands import RayWorkers, check_gpus
    from ..cluster.connection import Slots, connected

    with connected(address):
        check_gpus(plan.all_cells())
        yield RayWorkers(Slots(workers=jobs))
