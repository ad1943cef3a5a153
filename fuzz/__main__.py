"""`python -m fuzz`: run cases of all kinds and print a table of what came of them."""

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzers; 1 if a case failed."""
    from .kinds import KINDS
    from .runner import deal, run_case, run_cases
    from .seeds import write_seeds

    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=5000, help="how many, over all kinds (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="other seeds give other cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--only", action="append", choices=list(KINDS), help="this kind alone; may be repeated")
    parser.add_argument("--case", type=int, help="with --only: run this case alone, in this process")
    parser.add_argument("--keep", type=Path, help="with --case: a folder in which its files stay")
    options = parser.parse_args(arguments)
    kinds = options.only or list(KINDS)
    with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as name:
        seeds = Path(name)
        write_seeds(seeds)
        if options.case is not None:
            print(*run_case(kinds[0], options.seed, options.case, seeds, options.keep), sep="\n")
            return 0
        counts: Counter[tuple[str, str]] = Counter()
        for found in run_cases(deal(options.cases, kinds), options.seed, seeds, options.jobs):
            counts[found.kind, found.verdict] += 1
            if found.verdict == "failure":
                print(f"{found.kind}, case {found.number}: {found.detail.strip()}", flush=True)
    print(table(counts, kinds))
    return int(any(verdict == "failure" for _, verdict in counts))


def table(counts: Counter[tuple[str, str]], kinds: Sequence[str]) -> str:
    """A line for each kind, and one for all."""
    verdicts = ("accepted", "refused", "failure")
    rows = [(kind, [counts[kind, verdict] for verdict in verdicts]) for kind in kinds]
    rows.append(("all", [sum(column) for column in zip(*(row for _, row in rows), strict=True)]))
    lines = [f"{'kind':<20} {'cases':>7} {'accepted':>9} {'refused':>8} {'failures':>9}"]
    for kind, (accepted, refused, failed) in rows:
        lines.append(f"{kind:<20} {accepted + refused + failed:>7,} {accepted:>9,} {refused:>8,} {failed:>9,}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
