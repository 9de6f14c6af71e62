"""The benchmark's plot: an SVG of bars, a panel for each row, that reads on light and on dark paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final
from xml.sax.saxutils import escape

from tests.bench.rows import Line, Result
from tests.bench.table import figure

__all__ = ["plot"]

WIDTH: Final = 760
MARGIN: Final = 24
NAMES: Final = 170
"""Where the bars begin."""
BARS: Final = 440
"""How long the longest is; its figure stands behind it."""
BAR: Final = 16
STEP: Final = 22
SMALL: Final = 15
HEAD: Final = 34
GAP: Final = 18

STYLE: Final = """
  svg { font: 13px system-ui, sans-serif; background: #fdfcf9 }
  text { fill: #33363b } .title { font-weight: 600 } .unit, .target { fill: #84888f; font-size: 11px }
  .theirs { fill: #c3c7cf } .ours { fill: #2f7d6b } .missed { fill: #c4513f }
  .spread { stroke: #33363b; stroke-opacity: .55 } .most { stroke: #b07d1a; stroke-width: 1.5; stroke-dasharray: 3 2 }
  @media (prefers-color-scheme: dark) {
    svg { background: #1d1f23 } text { fill: #dcdee2 } .unit, .target { fill: #9297a0 }
    .theirs { fill: #4c515b } .ours { fill: #4fb29a } .missed { fill: #e07a68 }
    .spread { stroke: #dcdee2 } .most { stroke: #e0b354 }
  }
"""


def plot(results: Sequence[Result], about: Sequence[str]) -> str:
    """An SVG document, with the lines ``about`` at its head.

    A dashed line is a target: where the first bar of a panel ends at most. The thin lines are all that was measured.
    """
    panels: list[str] = []
    top = MARGIN
    for line in about:
        panels.append(f'<text class="unit" x="{MARGIN}" y="{top + 4}">{escape(line)}</text>')
        top += SMALL
    top += GAP
    for result in results:
        panels += _panel(result, top)
        top += HEAD + STEP * len(result.lines) + GAP
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{STYLE}</style>", *panels, "</svg>\n"]
    )


def _panel(result: Result, top: int) -> Iterator[str]:
    medians = [median(line.figures) if line.figures else 0.0 for line in result.lines]
    bounds = [*_bounds(result.lines, medians)]
    scale = BARS / (max([*medians, *(line.figures[-1] for line in result.lines if line.figures), *bounds]) or 1.0)
    yield f'<text class="title" x="{MARGIN}" y="{top + 12}">{escape(result.row.title.replace("`", ""))}</text>'
    yield f'<text class="unit" x="{WIDTH - MARGIN}" y="{top + 12}" text-anchor="end">{escape(result.row.unit)}</text>'
    top += HEAD - 10
    for number, (line, value) in enumerate(zip(result.lines, medians, strict=True)):
        y = top + STEP * number
        kind = "theirs" if number else "missed" if result.missed else "ours"
        yield f'<text x="{NAMES - 8}" y="{y + 12}" text-anchor="end">{escape(line.contender)}</text>'
        if not line.figures:
            yield f'<text class="unit" x="{NAMES}" y="{y + 12}">not measured</text>'
            continue
        yield f'<rect class="{kind}" x="{NAMES}" y="{y}" width="{max(value * scale, 1):.1f}" height="{BAR}" rx="2"/>'
        least, most = (NAMES + line.figures[end] * scale for end in (0, -1))
        yield f'<path class="spread" d="M{least:.1f} {y + BAR / 2}H{most:.1f}"/>'
        end = max(NAMES + value * scale, most, *(NAMES + bound * scale for bound in bounds if not number))
        yield f'<text x="{end + 6:.1f}" y="{y + 12}">{figure(value)}{_times(line, number)}</text>'
    for bound in bounds:
        x = NAMES + bound * scale
        yield f'<path class="most" d="M{x:.1f} {top - 4}V{top + BAR + 4}"/>'


def _bounds(lines: Sequence[Line], medians: Sequence[float]) -> Iterator[float]:
    """Where the first bar ends at most."""
    for number, (line, value) in enumerate(zip(lines, medians, strict=True)):
        if line.most is not None and line.figures:
            yield line.most * (value if number else 1.0)


def _times(line: Line, number: int) -> str:
    if not number or not line.ratio:
        return ""
    return f'<tspan class="unit" dx="8">{figure(1 / line.ratio)} ×</tspan>'
