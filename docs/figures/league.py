"""Write the tables of docs/explanation/league.md from the results of its plans.

lpp bench run docs/plans/league.toml --root $LPP_DATA -o results/
lpp bench run docs/plans/league-dtd.toml --root $LPP_DATA -o results/
lpp bench run docs/plans/league-prompts.toml --root $LPP_DATA -o prompts/
python docs/figures/league.py results/ prompts/
"""

import re
import sys
from pathlib import Path

from lpplusplus._core.files import atomic_write
from lpplusplus.bench.report import report
from lpplusplus.bench.results import Results

PAGE = Path(__file__).parents[1] / "explanation" / "league.md"
REFERENCE = "LP++ (default)"


def paired(text: str) -> str:
    """The tables of differences in a report in Markdown."""
    sections = re.split(r"\n(?=### )", text.split("\n## Protocol")[0])
    return "\n".join(part.strip() + "\n" for part in sections if f"ifference from {REFERENCE}" in part.splitlines()[0])


def main(*folders: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for mark, folder in zip(("league", "prompts"), folders, strict=False):
        tables = paired(report(Results(folder, create=False), against=REFERENCE))
        start, rest = page.split(f"<!-- {mark} -->\n")
        page = f"{start}<!-- {mark} -->\n{tables}{rest[rest.index('<!-- end -->') :]}"
        print(f"{PAGE}: {tables.count('### ')} tables of {folder}")
    with atomic_write(PAGE) as file:
        file.write(page.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
