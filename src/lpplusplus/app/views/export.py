"""Export: files to take along, the encoder, and the same with commands."""

from __future__ import annotations

import shlex
from pathlib import Path

from markupsafe import Markup

from ...encoders import known_encoders
from ...encoders.base import EncoderKind
from ...images.sources.folders import UNSORTED
from ..desk import Desk, Job, Place
from ..exports import KINDS
from ..html import button, h, joined
from ..project import CLASSIFIER
from ..snapshot import Snapshot
from ..texts import TEXTS, say


def render(desk: Desk, now: Snapshot, _: Place) -> Markup:
    """The tab."""
    files = [_file(desk, now, kind) for kind in KINDS]
    return joined([
        h("ul", files, class_="cards files"),
        _encoders(desk, now),
        _commands(desk, now),
    ])  # fmt: skip


def _file(desk: Desk, now: Snapshot, kind: str) -> Markup:
    job = desk.jobs.get(kind)
    ready = now.classifier is not None if kind != "photos" else now.listing.labelled > 0
    state: list[Markup] = [button(say("export_make"), "export", to=kind, kind="primary", disabled=not ready)]
    if job is not None and not job.over:
        state = [running(job)]
    elif job is not None and job.result is not None:
        state.append(
            h("a", say("export_download"), href=f"/exports/{job.result}", download=job.result, class_="button")
        )
    return h(
        "li",
        h("h2", say(f"export_{kind}")),
        h("p", say(f"export_{kind}_about"), class_="quiet"),
        None if ready else h("p", say("export_wait"), class_="quiet"),
        h("div", state, class_="buttons wrapped"),
        job is not None and job.problem and h("p", job.problem, class_="problem", role="alert"),
        data_key=kind,
    )  # fmt: skip


def _encoders(desk: Desk, now: Snapshot) -> Markup:
    """Those that need nothing but a name."""
    kinds = [kind for kind in known_encoders() if kind.scheme.islower() and ":" not in kind.scheme]
    used = str(desk.project.settings["encoder"])
    others = [] if used in {kind.scheme for kind in kinds} else [h("li", h("h3", used), h("p", say("encoder_now")))]
    return h(
        "section", h("h2", say("encoder")), h("p", say("encoder_about"), class_="quiet"),
        h("ul", [_encoder(desk, now, kind, used) for kind in kinds], others, class_="cards"),
        h("p", say("network"), class_="quiet"), class_="card",
    )  # fmt: skip


def _encoder(desk: Desk, now: Snapshot, kind: EncoderKind, used: str) -> Markup:
    name, job = kind.scheme, desk.jobs.get(f"encoder {kind.scheme}")
    size = round((kind.size or 0) / 1e6)
    if not kind.usable:
        state = h("p", say("encoder_missing", needs=kind.needs))
    elif job is not None and not job.over:
        state = running(job)
    elif name == used and now.encoder == name:
        state = h("p", h("strong", say("encoder_now")))
    elif kind.here() is False:
        state = button(say("encoder_fetch", name=name, size=size), "encoder", to=name)
    else:
        state = button(say("encoder_use", name=name), "encoder", to=name)
    problem = job is not None and job.problem and h("p", job.problem, class_="problem", role="alert")
    return h("li", h("h3", name), h("p", kind.about, class_="quiet"), state, problem, data_key=name)


def job_id(kind: str) -> str:
    """The slot of a job's progress, which changes without the rest of the page."""
    return f"job-{kind.replace(' ', '-')}"


def progress(job: Job) -> Markup:
    """What is in that slot."""
    name, fetches = job.kind.removeprefix("encoder "), job.kind.startswith("encoder ")
    known = {"max": job.total, "value": job.done} if job.total else {}
    key = "fetching" if fetches else f"{job.kind}_working" if job.total else f"{job.kind}_starting"
    text = say(key if key in TEXTS else "export_working", name=name, done=job.done, total=job.total)
    return joined([h("span", text), h("progress", aria_label=text, **known),
                   button(say("cancel"), "cancel_job", to=job.kind)])  # fmt: skip


def running(job: Job) -> Markup:
    """A job's progress, with a button that ends it."""
    return h("div", progress(job), id=job_id(job.kind), class_="flow progress")


def _commands(desk: Desk, now: Snapshot) -> Markup:
    root = desk.project.root
    paths = (Path(root.name), Path(root.name) / CLASSIFIER, Path(root.name) / UNSORTED)
    folder, model, unsorted = (shlex.quote(str(path)) for path in paths)
    encoder = "" if now.encoder == "embedded" else f" --encoder {shlex.quote(now.encoder)}"
    lines = [
        f"lpp train {folder} -o {model} --allow-empty{encoder} --report report.html",
        f"lpp predict {model} new.jpg --top 5 --none 0.05 --nearest 4",
        f"lpp check {model}",
        f"lpp suggest {model} {unsorted}",
        f"lpp map {folder} --unlabelled {unsorted}{encoder} -o map.html",
        f"lpp export {model} -o classifier.onnx",
        "lpp encoders pull clip",
        f"lpp app {folder} --undo",
        f"lpp app {folder} --redo",
        f"lpp app {folder}",
    ]
    return h("section", h("h2", say("commands")), h("p", say("commands_about", name=root.name), class_="quiet"),
             h("pre", "\n".join(lines), tabindex="0", aria_label=say("commands")), class_="card")  # fmt: skip
