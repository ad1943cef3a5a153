"""What digests cost when a data set is loaded from the cache, as ratios of one run.

    python benchmarks/digests.py [NAME] [--rounds N]

Three ways to load take turns in one process: without looking at digests, as users load it (the files are those of an
earlier check), and with a full check, as on the first load. Printed are the least and the median seconds of each, and
how they compare with the first way. Archives: $CGIPOOL_DATA, by default ../shared/data/tu.
"""

import argparse
import json
import os
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

DATA = Path(os.environ.get("CGIPOOL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data" / "tu"))
WAYS: dict[str, dict[str, object]] = {
    "without": {"__init__": lambda self, *given: None, "is_known": True},
    "remembered": {},
    "full check": {"is_known": False},
}
"""What is replaced in the check of a saved set."""


def seconds(path: Path, changes: dict[str, object]) -> float:
    """The time of one load."""
    from cgipool.data import load_dataset
    from cgipool.data.digests import Check

    with ExitStack() as stack:
        for name, value in changes.items():
            stack.enter_context(patch.object(Check, name, value))
        start = time.perf_counter()
        load_dataset(path)
        return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="COLLAB")
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    os.environ["CGIPOOL_DATA"] = str(DATA)
    path = DATA / f"{given.name}.zip"
    seconds(path, {})  # parses the set, if it is not in the cache
    time.sleep(2.5)  # files that have just been written are not remembered
    seconds(path, {})
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(given.rounds):
        for way, changes in WAYS.items():
            times[way].append(seconds(path, changes))
    found = {way: {"least": min(values), "median": statistics.median(values)} for way, values in times.items()}
    ratios = {
        way: {kind: round(value / found["without"][kind], 3) for kind, value in of_way.items()}
        for way, of_way in found.items()
    }
    print(json.dumps({"data": given.name, "rounds": given.rounds, "seconds": found, "ratios": ratios}, indent=1))


if __name__ == "__main__":
    main()
