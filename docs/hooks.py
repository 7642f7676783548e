"""What mkdocs does while it builds: the page of commands is made from the program itself."""

import re
import subprocess
import sys

PLACE = "<!-- commands of lpp -->"


def on_page_markdown(markdown, **_):
    """Put the commands, with their options and examples, where a page has room for them."""
    return markdown.replace(PLACE, commands()) if PLACE in markdown else None


def commands():
    """Typer's own description of `lpp`, its headings one level down, its examples as blocks."""
    order = [sys.executable, "-m", "typer", "lpplusplus.cli.lpp", "utils", "docs", "--name", "lpp"]
    text = subprocess.run(order, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    text = re.sub(r"^Documentation: .*\n+", "", text, flags=re.MULTILINE)  # Readers of the page are there already.
    text = re.sub(r"^Examples:\n\n((?:.+\n\n)*?)(?=\*\*|#|\Z)", examples, text + "\n", flags=re.MULTILINE)
    return re.sub(r"^(#+ )", r"#\1", text, flags=re.MULTILINE)


def examples(found):
    """A list of command lines as one block."""
    lines = "\n".join(line for line in found[1].splitlines() if line)
    return f"**Examples**:\n\n```sh\n{lines}\n```\n\n"
