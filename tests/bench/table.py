"""The benchmark's one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from tests.bench.rows import Line, Result

__all__ = ["figure", "table"]

WIDTH: Final = 24


def figure(value: float) -> str:
    """``value`` with three digits that mean something."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def table(results: Sequence[Result]) -> Iterator[str]:
    """The lines of the table. A ratio is the median of the row's first contender divided by that of the line's, and
    ``at best`` the same of the lowest figures."""
    heads = "".join(head.rjust(10) for head in ("median", "lowest", "highest", "ratio", "at best"))
    yield f"{'':{WIDTH}}{heads}   target, of the ratio"
    for result in results:
        row = result.row
        yield ""
        yield f"{row.name}: {row.title} ({row.unit})"
        for number, line in enumerate(result.lines):
            yield _line(line, own=number == 0).rstrip()


def _line(line: Line, *, own: bool) -> str:
    name = f"  {line.contender}".ljust(WIDTH)
    if not line.figures:
        return f"{name}{'not measured':>20}: {line.failure}{_target(line)}"
    figures = (median(line.figures), line.figures[0], line.figures[-1])
    numbers = "".join(figure(value).rjust(10) for value in figures)
    ratios = [None, None] if own else [line.ratio, line.at_best]
    numbers += "".join("".rjust(10) if ratio is None else figure(ratio).rjust(10) for ratio in ratios)
    return f"{name}{numbers}{_target(line)}"


def _target(line: Line) -> str:
    if line.most is None:
        return ""
    return f"   at most {line.most:g}: {'MISSED' if line.missed else 'met'}"
