"""How a training on a CPU fares by how long its threads wait actively for one another, as ratios of one run.

    python benchmarks/waiting.py [NAME] [--rounds N]

Torch's threads spin for a while before they sleep: that spares waking them, and takes from other programs and from each
other where those have the cores too. Trainings with several lengths of that while (GOMP_SPINCOUNT, in turns of a loop)
take turns, first on free cores, then beside one process that is always busy. Printed is the median time of an epoch
beside that by the system's own choice. Archives: $CGIPOOL_DATA, by default ../shared/data/tu.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

DATA = Path(os.environ.get("CGIPOOL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data" / "tu"))
USUAL = "system's choice"
CHOICES: dict[str, dict[str, str]] = {
    USUAL: {"GOMP_SPINCOUNT": "300000"},  # libgomp's where neither variable is set
    "10000 turns": {"GOMP_SPINCOUNT": "10000"},
    "3000 turns": {"GOMP_SPINCOUNT": "3000"},
    "1000 turns": {"GOMP_SPINCOUNT": "1000"},
    "none": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
EPOCHS = 4


def epoch_seconds(name: str, variables: dict[str, str]) -> float:
    """The time of a training epoch by the command line."""
    command = [sys.executable, "-m", "cgipool", "train", name, "--splits", "1", "--set", f"epochs={EPOCHS}", "--json"]
    run = subprocess.run(
        command, env=os.environ | variables, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return float(json.loads(run.stdout)["epoch_seconds"])


def measure(name: str, rounds: int) -> dict[str, list[float]]:
    """For each choice, the times of so many trainings; all choices take turns."""
    found: dict[str, list[float]] = {choice: [] for choice in CHOICES}
    for _ in range(rounds):
        for choice, variables in CHOICES.items():
            found[choice].append(epoch_seconds(name, variables))
    return found


def show(title: str, found: dict[str, list[float]]) -> None:
    """A line for each choice."""
    usual = statistics.median(found[USUAL])
    print(f"{title}\n  {'spinning':<16} {'epoch, s':>9} {'of usual':>9}   all of them")
    for choice, times in found.items():
        middle = statistics.median(times)
        print(f"  {choice:<16} {middle:9.2f} {middle / usual:9.2f}   {' '.join(f'{each:.2f}' for each in times)}")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="NCI1")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.environ.setdefault("CGIPOOL_DATA", str(DATA))
    show("free cores", measure(given.name, given.rounds))
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            show("beside a busy process", measure(given.name, given.rounds))
        finally:
            busy.kill()


if __name__ == "__main__":
    main()
