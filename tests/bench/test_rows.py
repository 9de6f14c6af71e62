"""That the benchmark measures in turns, and says what was missed."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.bench.plot import plot
from tests.bench.rows import Row, Target
from tests.bench.table import table
from tests.bench.work import Contender, Measured, Work

WORK = Work("work", [Contender("ours", ["ours"]), Contender("theirs", ["theirs"]), Contender("gone", ["gone"])])
SECONDS = {"ours": [1.0, 2.0, 9.0], "theirs": [9.0, 8.0, 1.0]}
"""Medians of 2 and 8."""
MEASURED = Measured(
    {name: [{"seconds": value} for value in values] for name, values in SECONDS.items()}, {"gone": "not installed"}
)


def row(*targets: Target) -> Row:
    return Row(
        name="row", title="A `row`", unit="s", work=WORK, figure=lambda figures: figures["seconds"], targets=targets
    )


def test_a_ratio_of_medians_is_held_against_its_target() -> None:
    result = row(Target(0.25, "theirs"), Target(2.0)).result(MEASURED)
    assert [line.ratio for line in result.lines] == [2.0, 0.25, None]
    assert not result.missed
    assert row(Target(0.24, "theirs")).result(MEASURED).missed
    assert row(Target(1.9)).result(MEASURED).missed


def test_what_was_not_measured_misses_its_target() -> None:
    assert row(Target(99, "gone")).result(MEASURED).missed
    text = "\n".join(table([row(Target(99, "gone")).result(MEASURED)]))
    assert "not measured: not installed   at most 99: MISSED" in text


def test_the_plot_is_a_document_that_names_everybody() -> None:
    result = row(Target(0.25, "theirs")).result(MEASURED)
    text = "".join(ElementTree.fromstring(plot([result], ["2 < 3 cores"])).itertext())
    for word in ("A row", "ours", "theirs", "not measured", "2 < 3 cores"):
        assert word in text


def test_contenders_are_measured_in_turns_and_one_that_fails_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    say = f"import sys; open({str(log)!r}, 'a').write(sys.argv[1]); print('{{\"seconds\": 1}}')"
    contenders = [Contender(name, [sys.executable, "-S", "-c", say, name]) for name in "ab"]
    failing = Contender("c", [sys.executable, "-S", "-c", "raise SystemExit('no luck')"])
    measured = Work("work", [*contenders, failing]).measure(2, {}, str(tmp_path), lambda _: None)
    assert log.read_text() == "ababab"  # once to warm up
    assert measured.figures == {"a": [{"seconds": 1}] * 2, "b": [{"seconds": 1}] * 2}
    assert measured.failures == {"c": "no luck"}
