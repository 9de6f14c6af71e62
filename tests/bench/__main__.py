"""``python -m tests.bench``: run the benchmark and print its table; see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.bench import __doc__ as description
from tests.bench.place import ROOT, open_place
from tests.bench.plot import plot
from tests.bench.rows import Result
from tests.bench.suite import FULL, QUICK, rows
from tests.bench.table import table
from tests.bench.work import Measured, Work


def main() -> int:
    """Returns the exit status: 1 when a target was missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that everything runs")
    parser.add_argument("--rounds", type=int, help="how often each program is run (9, or 3 with --quick)")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="only these rows, or those that begin like this")
    parser.add_argument(
        "--cpu", action="store_true", help="a second table, of CPU time: it says more on a busy machine"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw a plot, too")
    args = parser.parse_args()
    rounds = args.rounds or (3 if args.quick else 9)

    with open_place() as place:
        every = rows(place, QUICK if args.quick else FULL)
        chosen = [row for row in every if not args.rows or row.name.startswith(tuple(args.rows))]
        if not chosen:
            parser.error("no such row; there are " + ", ".join(row.name for row in every))
        about = [*place.describe(), f"{rounds} rounds"]
        print(*about, sep="\n", flush=True)
        measured: dict[Work, Measured] = {}
        results: list[Result] = []
        for row in chosen:
            if row.work not in measured:
                measured[row.work] = row.work.measure(rounds, place.environment, str(ROOT), _progress)
            results.append(row.result(measured[row.work]))
        _progress("")

    print()
    print(*table(results), sep="\n")
    if args.cpu:
        print("\nThe same, in CPU time of the side that is measured:\n")
        print(*table([row.result(measured[row.work].by_cpu()) for row in chosen if row.timed]), sep="\n")
    if args.svg is not None:
        args.svg.write_text(plot(results, about), "utf-8")
    missed = [result.row.name for result in results if result.missed]
    print(f"\nMissed: {', '.join(missed)}." if missed else "\nAll targets are met.")
    return 1 if missed else 0


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
