"""A report as one HTML page that needs nothing else: no script, no network, styles and figures inside."""

from __future__ import annotations

from collections.abc import Sequence

from .content import TITLE, Content
from .formats import html, html_text

_CSS = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d5dae0; --back: #fff; --shade: #f4f6f8;
  --mark: #0b62a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa5b1; --line: #3a424b; --back: #14181d;
  --shade: #1d232a; --mark: #7cc0f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--back); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
a { color: var(--mark); }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; list-style: none; padding: 0; margin: 0; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; max-width: 100%; }
table { border-collapse: collapse; font-size: .85rem; min-width: 100%; }
th, td { padding: .25rem .55rem; text-align: left; white-space: nowrap; }
td.wrap { white-space: normal; min-width: 12rem; }
thead th { background: var(--shade); font-weight: 600; }
thead th.group { text-align: center; border-left: 1px solid var(--line); }
.n { text-align: right; font-variant-numeric: tabular-nums; }
.g { border-left: 1px solid var(--line); }
tbody tr { border-top: 1px solid var(--line); }
tr > th:first-child { position: sticky; left: 0; background: var(--shade); font-weight: 600; z-index: 1; }
.notes { color: var(--soft); font-size: .82rem; margin: .4rem 0 0; padding-left: 1.1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; }
figure .card { background: #fff; border: 1px solid var(--line); border-radius: .4rem; padding: .4rem; }
figure svg { display: block; width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt; }
figcaption { color: var(--soft); font-size: .82rem; margin-top: .3rem; }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .2rem 1rem; margin: 0; }
dt { font-weight: 600; } dd { margin: 0; min-width: 0; }
pre { overflow-x: auto; background: var(--shade); padding: .6rem; border-radius: .4rem; font-size: .78rem; }
summary { cursor: pointer; padding: .25rem 0; }
@media (max-width: 36rem) { body { padding: .7rem; } dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; }
  tr > th:first-child { max-width: 9rem; white-space: normal; } }
@media print { @page { size: A4 landscape; margin: 12mm; } :root { --ink: #000; --soft: #333; --line: #bbb;
  --back: #fff; --shade: #f2f2f2; } body { max-width: none; padding: 0; font-size: 9.5pt; } nav { display: none; }
  .scroll { overflow: visible; border: 0; } table { font-size: 6.8pt; } th, td { padding: .1rem .22rem; }
  tr > th:first-child { position: static; } .figures { grid-template-columns: repeat(2, 1fr); }
  section.table, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } pre { white-space: pre-wrap; }
  details::details-content { content-visibility: visible; height: auto; } }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(content: Content) -> str:
    """The whole document."""
    sections = [
        ("tables", "Tables", _reading(content) + "".join(html(table) for table in content.tables)),
        ("figures", "Figures", _figures(content)),
        ("protocol", "Protocol", _pairs(content.protocol) + "".join(html(one) for one in content.protocol_tables)),
        ("versions", "Versions", _pairs(content.versions)),
        ("failures", "Failures", _failures(content)),
    ]
    shown = [(key, name, body) for key, name, body in sections if body]
    links = "".join(f'<li><a href="#{key}">{name}</a></li>' for key, name, _ in shown)
    body = "".join(f'<section id="{key}">\n<h2>{name}</h2>\n{inside}</section>\n' for key, name, inside in shown)
    words = "".join(f"<p>{html_text(sentence)}</p>\n" for sentence in content.summary)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html_text(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<header>\n<h1>{TITLE}</h1>\n{words}"
        f"<nav><ul>{links}</ul></nav>\n</header>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _reading(content: Content) -> str:
    if not content.tables:
        return ""
    return '<ul class="notes">' + "".join(f"<li>{html_text(line)}</li>" for line in content.reading) + "</ul>\n"


def _figures(content: Content) -> str:
    pictures = "".join(
        f'<figure id="figure-{html_text(one.key)}">\n'
        f'<div class="card" role="img" aria-label="{html_text(one.caption)}">{one.inline_svg()}</div>\n'
        f"<figcaption>{html_text(one.caption)}</figcaption>\n</figure>\n"
        for one in content.pictures
    )
    remarks = "".join(f'<p class="notes">{html_text(remark)}</p>\n' for remark in content.remarks)
    return (f'<div class="figures">\n{pictures}</div>\n' if pictures else "") + remarks


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    if not pairs:
        return ""
    lines = "".join(f"<dt>{html_text(name)}</dt><dd>{html_text(value)}</dd>\n" for name, value in pairs)
    return f"<dl>\n{lines}</dl>\n"


def _failures(content: Content) -> str:
    return "".join(
        f"<details><summary>{html_text(one.what)}: {html_text(one.reason)}</summary>\n"
        f"<pre>{html_text(one.traceback)}</pre></details>\n"
        for one in content.failures
    )
