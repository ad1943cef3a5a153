"""The tables of a study as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Iterable, Sequence

from cgipool.errors import are, counted, csv_cell, printable
from cgipool.report.blocks import Block
from cgipool.report.statistics import blocks_of
from cgipool.report.view import DONE, FAILED, MISSING, View

LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "–": "--",
    "·": r"$\cdot$",
    "χ": r"$\chi$",
    "²": r"$^2$",
    "α": r"$\alpha$",
    "▲": r"$\bigtriangleup$",
    "▼": r"$\bigtriangledown$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "“": "``",
    "”": "''",
}
"""Characters that LaTeX treats as commands or cannot print in text, and their replacements."""

LONGEST = 50
"""Maximum number of rows of a LaTeX table; longer tables are split."""

BROKEN = 60
"""LaTeX columns with text longer than this many characters have line breaks."""

COUNTED = ["val_loss", "epochs", "best_epoch", "seconds"]


def counts(view: View) -> str:
    """Describe how many of the requested cells are done, failed or missing."""
    done = view.count(DONE)
    text = f"{done} of {counted(view.wanted, 'cell')} {are(done)} done"
    parts = [f"{count} {status}" for status in (FAILED, MISSING) if (count := view.count(status))]
    return f"{text}; {', '.join(parts)}" if parts else text


def trained(view: View) -> str:
    """Describe how the finished cells were trained: recipes, splits and ensembles."""
    records = [entry.record for entry in view.entries if entry.record]
    recipes = dict.fromkeys(record.recipe for record in records if record.recipe)
    kinds = dict.fromkeys((len(record.splits), str(record.cell.get("split_kind", ""))) for record in records)
    sizes = [size for size in dict.fromkeys(record.cell.get("ensemble", 1) for record in records) if size != 1]
    parts = [f"Recipe {', '.join(recipes)}"] if recipes else []
    parts += [" and ".join(counted(count, f"{kind} split".strip()) for count, kind in kinds)] if kinds else []
    numbers = ", ".join(map(str, sizes))
    if sizes:
        parts.append(f"{numbers} trainings per split" if view.study.analysis.seeds > 1 else f"ensembles of {numbers}")
    return "; ".join(parts)


def markdown(view: View) -> str:
    """Return all tables of a study as Markdown."""
    study = view.study
    about = [f"{text}." for text in (counts(view), trained(view)) if text]
    parts = [f"# {_md(study.title)}", _md(study.about), _md(" ".join(about))]
    for block in blocks_of(view):
        parts += [f"## {_md(block.title)}", markdown_block(block)]
    failed = [e for e in view.entries if e.status == FAILED]
    if failed:
        lines = [f"- {_md(view.title(e.method))}, {_md(e.context)}: {_md(e.reason or '')}" for e in failed]
        parts += ["## Failed cells", "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_problems(problems: Sequence[str]) -> str:
    """List the problems of the store, as the last section of the Markdown file."""
    lines = "".join(f"- {_md(problem)}\n" for problem in problems)
    return f"\n## Problems of the store\n\n{lines}" if lines else ""


def markdown_block(block: Block) -> str:
    """Return one table as Markdown, below its notes."""
    return "\n\n".join(["  \n".join(map(_md, block.words)), "\n".join(_md_rows(block))])


def latex(view: View) -> str:
    r"""Return all tables of a study as LaTeX, to be included with \input. They need the package booktabs."""
    parts = ["% Needs \\usepackage{booktabs}.", f"% {_tex(_flat(view.study.title))}"]
    parts += [table for block in blocks_of(view) for table in _tex_tables(block)]
    return "\n\n".join(parts) + "\n"


def tidy(view: View) -> str:
    """Return CSV with one row per cell and split.

    ROC-AUC and PR-AUC are for the class in column `positive`. Column `unread` names the axes whose setting the method
    does not use.
    """
    done = [(entry, entry.record, entry.measured) for entry in view.entries if entry.record and entry.measured]
    metrics = list(dict.fromkeys(name for _, _, found in done for row in found.rows for name in row))
    axes = list(dict.fromkeys(["method", "dataset", *view.study.axes]))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    named = [name for name in ("recipe", "ensemble") if name not in axes]
    writer.writerow(map(csv_cell, ["study", *axes, *named, "unread", "split", *metrics, "positive", *COUNTED, "key"]))
    for entry, record, found in done:
        place = [entry.wanted.at.get(axis, record.cell.get(axis)) for axis in axes]
        place += [record.recipe if name == "recipe" else record.cell.get(name) for name in named]
        place.append(" ".join(entry.unread))
        for row, test in zip(record.splits, found.rows, strict=True):
            numbers = [*(test.get(name) for name in metrics), found.positive, *(row.get(name) for name in COUNTED)]
            writer.writerow(map(csv_cell, [view.study.name, *place, row["split"], *numbers, record.key]))
    return file.getvalue()


def _flat(text: str) -> str:
    return printable(" ".join(text.split()))


def _md(text: str) -> str:
    """Escape text for Markdown and put it on one line."""
    text = _flat(text).replace("&", "&amp;").replace("<", "&lt;")
    for character in "\\`*_[]|#":
        text = text.replace(character, f"\\{character}")
    return text


def _md_rows(block: Block) -> Iterable[str]:
    yield _md_line(map(_md, block.head))
    yield _md_line("---" if place < block.left else "---:" for place in range(len(block.head)))
    for number, row in enumerate(block.rows):
        yield _md_line(
            f"**{_md(text)}**" if (number, place) in block.strong else _md(text) for place, text in enumerate(row)
        )


def _md_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in _flat(text))


def _tex_tables(block: Block) -> Iterable[str]:
    """Floats that span both columns of a page, each with at most `LONGEST` rows."""
    columns = "".join(_tex_column(block, place) for place in range(len(block.head)))
    for first in range(0, len(block.rows), LONGEST):
        title = block.title if first == 0 else f"{block.title}, continued"
        yield "\n".join(
            [
                r"\begin{table*}",
                r"\centering\scriptsize\setlength{\tabcolsep}{2pt}",
                rf"\caption{{\textbf{{{_tex(title)}.}}{_tex_words(block) if first == 0 else ''}}}",
                rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
                r"\toprule",
                _tex_line(map(_tex, block.head)),
                r"\midrule",
                *(_tex_row(block, number) for number in range(first, min(first + LONGEST, len(block.rows)))),
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table*}",
            ]
        )


def _tex_column(block: Block, place: int) -> str:
    """Column type: text left-aligned, numbers right-aligned, line breaks in long text."""
    if place >= block.left:
        return "r"
    longest = max(len(row[place]) for row in block.rows)
    return r"p{0.5\textwidth}" if longest > BROKEN else "l"


def _tex_words(block: Block) -> str:
    return "".join(f" {_tex(line)}" for line in block.words)


def _tex_row(block: Block, number: int) -> str:
    return _tex_line(
        rf"\textbf{{{_tex(text)}}}" if (number, place) in block.strong else _tex(text)
        for place, text in enumerate(block.rows[number])
    )


def _tex_line(cells: Iterable[str]) -> str:
    # LaTeX would read a bracket at the start of a row as an option of the \\ before it.
    return " & ".join(f"{{}}{cell}" if cell.startswith("[") else cell for cell in cells) + r" \\"
