"""A row of the benchmark: a comparison, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import attrs

from tests.bench.work import Figures, Measured, Work

__all__ = ["Line", "Result", "Row", "Target"]


@attrs.frozen
class Target:
    """What the first contender of a row comes to at most."""

    most: float
    than: str | None = None
    """Times this one's figure. Without one, the figure itself is bounded."""


@attrs.frozen(kw_only=True, eq=False)
class Row:
    """A comparison of contenders by one figure; less is better."""

    name: str
    title: str
    unit: str
    work: Work
    figure: Callable[[Figures], float]
    targets: Sequence[Target] = ()
    contenders: Sequence[str] = ()
    """Those it shows, the one that it is about first; all of the work's when it is empty."""

    @property
    def timed(self) -> bool:
        """Whether the figure is a time."""
        return self.unit.startswith(("µs", "ms"))

    def result(self, measured: Measured) -> Result:
        """What it came to."""
        names = self.contenders or self.work.names
        targets = {target.than or names[0]: target.most for target in self.targets}
        found = {name: sorted(map(self.figure, figures)) for name, figures in measured.figures.items()}
        ours = found.get(names[0])
        lines: list[Line] = []
        for name in names:
            theirs = found.get(name)
            ratio = at_best = None
            if ours and theirs and name == names[0]:
                ratio = median(ours) if name in targets else None
            elif ours and theirs and median(theirs):
                ratio = median(ours) / median(theirs)
                at_best = ours[0] / theirs[0] if theirs[0] else None
            lines.append(Line(name, theirs or (), ratio, at_best, targets.get(name), measured.failures.get(name, "")))
        return Result(self, lines)


@attrs.frozen
class Line:
    """One contender in a row."""

    contender: str
    figures: Sequence[float]
    """From the least to the most, one for each round. None are there when it failed."""
    ratio: float | None
    """The figure of the first contender, divided by this one's. On the first line, the figure that is bounded."""
    at_best: float | None
    """The same of the lowest figures: other work on the machine only ever adds."""
    most: float | None
    """The target: what ``ratio`` is at most."""
    failure: str
    """Why it has no figures."""

    @property
    def missed(self) -> bool:
        """Whether there is a target and it was not reached. What was not measured was not."""
        return self.most is not None and (self.ratio is None or self.ratio > self.most)


@attrs.frozen
class Result:
    """A row and what it came to."""

    row: Row
    lines: Sequence[Line]

    @property
    def missed(self) -> bool:
        """Whether one of its targets was missed."""
        return any(line.missed for line in self.lines)
