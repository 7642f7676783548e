"""Tables of the paper's ablations: optimisers and losses, starts, cycles; and the sweep of learning rates."""

from collections.abc import Collection, Iterator
from typing import Any

from pandas import DataFrame

from ..published import (
    AVERAGE,
    CYCLES,
    DATASETS,
    OPTIMISERS,
    RANDOM_START,
    STANDARD_LOSS,
    STARTS,
    canonical_dataset,
    canonical_method,
    published_initial_loss,
    published_seconds,
)
from .statistics import average, in_order, in_shots, on_sets, with_published
from .table import Column, Table, table_of
from .tables import by_shots, doubts, gaps, grouped, leaders, lines_of


def ablation_tables(ours: DataFrame, where: str) -> Iterator[Table | None]:
    """All of one encoder's; None for each that was not run."""
    yield _optimiser_table(ours, where)
    yield _start_table(ours, where)
    chosen = _ablation(ours, CYCLES)
    if len(chosen):
        notes = ["(a, b): a steps on W, then b on α. LP++ (paper) is (10, 1).", *gaps(chosen)]
        title = f"Block cycles, {_on(chosen)}{where}"
        whole = chosen[chosen.complete]
        whole = with_published(whole.assign(name=whole.name.replace(CYCLES))).assign(name=whole.name)
        yield by_shots("cycles", title, whole, notes, dataset=AVERAGE, first="Cycle")
    rates = ours[ours.rate.notna() & ~ours.name.map(canonical_method).notna()]
    if len(rates):
        chosen = average(rates, together=True).sort_values(["rate", "shots"], kind="stable")
        title = f"Learning rates, {_on(chosen)}{where}"
        yield by_shots("rates", title, chosen[chosen.complete], gaps(chosen), dataset=AVERAGE)


def _ablation(ours: DataFrame, names: Collection[str]) -> DataFrame:
    """Averages of the named methods over the data sets that the ablation was run on; none if it was not run."""
    chosen = ours[ours.name.isin([*names])]
    sets = chosen.dataset[chosen.group != "main"].unique()
    return average(chosen[chosen.dataset.isin(sets)], together=True) if len(sets) else chosen[:0]


def _optimiser_table(ours: DataFrame, where: str) -> Table | None:
    """Rows are optimisers; losses and the fewest and most shots are groups of columns, as in the paper."""
    standard = {name + STANDARD_LOSS: name for name in OPTIMISERS}
    chosen = _ablation(ours, {*OPTIMISERS, *standard})
    if chosen.empty:
        return None
    whole = chosen[chosen.complete]
    low, most = chosen.shots.min(), chosen.shots.max()
    losses = {"standard loss": whole[whole.name.isin(standard)], "LP++ loss": whole[~whole.name.isin(standard)]}
    groups = {
        f"{words}, {in_shots(n)}": {score.method.replace(STANDARD_LOSS, ""): score
                                    for score in part[part.shots == n].itertuples()}
        for words, part in losses.items()
        for n in sorted({low, most})
    }  # fmt: skip
    names = in_order(score.replace(STANDARD_LOSS, "") for score in chosen.method)
    lines = lines_of("Optimiser", names, groups)
    for name, line in zip(names, lines, strict=True):
        last = next((score for score in chosen.itertuples() if (score.method, score.shots) == (name, most)), None)
        line[Column("fit", "seconds", f"LP++ loss, {in_shots(most)}")] = last and last.fit_seconds
        line[Column("published fit", "seconds")] = published_seconds(name) if last and _is_papers(last) else None
    notes = ["The standard loss has no text term. Published times, if any, are of the paper's machine.", *gaps(chosen)]
    return table_of("optimisers", f"Optimisers and losses, {_on(chosen)}{where}", lines, notes, leaders(groups))


def _start_table(ours: DataFrame, where: str) -> Table | None:
    """Accuracies before any update, then the losses."""
    chosen = _ablation(ours, STARTS)
    if chosen.empty:
        return None
    whole = chosen[chosen.complete]
    low, high = RANDOM_START
    notes = [f"Published for a random start: {low} to {high}."] if any(map(_is_papers, chosen.itertuples())) else []
    groups, names = grouped(whole), in_order(whole.method)
    lines = lines_of("Start", names, groups)
    for name, line in zip(names, lines, strict=True):
        for heading, members in groups.items():
            score = members.get(name)
            known = published_initial_loss(name, score.shots) if score and _is_papers(score) else None
            line[Column("loss", "loss", heading)] = score and score.start_loss
            line[Column("published loss", "loss", heading)] = known if score and score.start_loss > 0 else None
    title = f"Starts, before any update, {_on(chosen)}{where}"
    return table_of("starts", title, lines, [*notes, *gaps(chosen), *doubts(whole, AVERAGE)], leaders(groups))


def _is_papers(score: Any) -> bool:
    """Whether an average is over the paper's eleven data sets, in its protocol."""
    return bool(
        score.complete and score.papers and {canonical_dataset(name) for name in score.datasets} == set(DATASETS)
    )


def _on(chosen: DataFrame) -> str:
    """The data sets that an average should have, in words."""
    sets = dict.fromkeys(
        name for score in chosen.itertuples() for name in (*score.datasets, *(gap[0] for gap in score.missing))
    )
    return on_sets([*sets])
