"""`make bench-gpu`: all splits at once by the engine, on one GPU, against the stock PyG loop (peer.py).

    python benchmarks/gpu.py [NAME …] [--methods METHOD … | all] [--splits 20] [--epochs 10] [--no-peer] [--profile]
                             [--json FILE] [--device cuda]

Ours is an epoch of all splits, training and validation; PyG's is a training epoch of one split, without validation, and
the ratio is splits × PyG / ours. Both train the paper form with the paper's settings, and both may use TF32. Where the
splits' models differ in shape, the largest group of equal ones is taken, and the row says so. Everything is measured in
a process of its own (gpu_measures.py): what fails leaves the rest alone, even if it breaks the device for its process,
and the profiler, which slows a process down for good, disturbs nothing. Starting them is in none of the numbers.
Columns:

epoch, PyG       seconds, the median of several after some to warm up; the host waits for the device each time
step, end        milliseconds of a step and of the epoch's end (validation, best weights) by the device's clock, and the
                 shares that all steps and the end have of an epoch; what is missing to 100 % is the shuffle
launches         kernels of one step, by torch's profiler; copies and fills by the copy engine are not counted
MiB              the most memory that tensors took, from building to the last epoch
build, capture   seconds from data set to engine, and from there to programs; the first capture on a machine compiles
                 Triton's kernels, later ones find them in its cache
loss             of training, mean over splits, in the last epoch timed
GB, GFLOP        what a step of all splits must move and multiply by `cgi_cost` (CGIPool alone), and the share of the
                 card's ceilings that it reaches by that. The ceilings are measured first, and printed

On a CPU (`--device cpu`) it runs as well, to try the script: --splits 2 --epochs 2 IMDB-MULTI. Archives: $CGIPOOL_DATA,
by default ../shared/data/tu.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_measures
import peer_methods
from cgipool.errors import UserError
from cgipool.pool import METHODS
from cgipool.training.presets import PAPER
from cgipool.training.stacked.group import HISTORY
from cgipool.training.stacked.host import stackable
from cpu import DATA
from gpu_measures import COSTLIEST, FLOAT, WARM_UP

NAMES = ("NCI1", "PROTEINS", "IMDB-MULTI", "COLLAB")
SHOWN = 70
"""Letters of a note that the table shows; the whole is printed when it comes, and in the JSON file."""


def cgi_cost(nodes: float, entries: float, graphs: float, width: int, levels: int, ratio: float) -> tuple[float, float]:
    """Bytes and FLOPs that one step of one model must move and do on a batch of so many nodes, neighbour entries and
    graphs.

    Bytes: level l has n = nodes · ratio^l nodes, of which m = ratio · n are handed on, and entries · ratio^2l entries.
    Each kernel reads what it needs once and keeps nothing for the next; what can share a pass does. In arrays of n (or
    m) × width floats:

        X W             reads X, writes X W; the first level looks rows up instead, and reads no X
        convolution     reads X W, writes H; the scores, two columns, come on the way
        pool, readout   reads H, writes X' [m], in one pass; after the last level nobody asks for X'
        by the gates    reads H, dX' [m]: their gradients, which have to travel along the edges before the next pass
        by H            reads H, dX' [m], writes dH
        convolution     reads dH, writes d(X W)
        X W             reads d(X W), X, writes dX; the first level has neither X nor dX

    The entries are read five times: for degrees, and for convolution and scores there and back. A weight is read there
    and back and its gradient written, and Adam reads four numbers and writes three. Columns of a few numbers per node,
    the batch's making, the table of input categories and arrays of one row per graph are left out. So this is a floor
    for a program made of such passes. What stays in the cache between two of them is counted, so a step whose arrays
    all fit there could fall below it.

    FLOPs: 2·m·n·k of each matrix product (convolutions from the second level on, scores, discriminators on two pairs,
    the head without its last layer), three times: one product forward, two backward.
    """
    moved = multiplied = weights = 0.0
    for level in range(levels):
        n, first, last = nodes * ratio**level, level == 0, level == levels - 1
        arrays = n * (10 if first else 13) + ratio * n * (0 if last else 3)
        moved += FLOAT * (arrays * width + 5 * entries * ratio ** (2 * level))
        convolution = 0 if first else width * width
        discriminator = 2 * width * width + width
        multiplied += n * (convolution + 2 * width) + 2 * graphs * discriminator
        weights += convolution + 2 * width + discriminator
    head = 2 * width * width + width * (width // 2)
    return moved + FLOAT * 10 * (weights + head), 3 * 2 * (multiplied + graphs * head)


def measured(what: str, **arguments: Any) -> dict:
    """A measurement in a new process; "error" is why it ended early, if it did."""
    command = [sys.executable, "-W", "ignore", gpu_measures.__file__, json.dumps([what, arguments])]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    answer = json.loads(lines[-1]) if lines else {}
    if done.returncode and "error" not in answer:
        last = (done.stderr.strip() or "nothing on stderr").splitlines()[-1]
        answer |= {"error": f"the process ended with code {done.returncode}: {last}", "traceback": done.stderr}
    return answer


def compare(name: str, method: str, options: argparse.Namespace, ceilings: dict, root: str) -> dict:
    """A row: ours, PyG's where it has the method, and what follows from both and the ceilings."""
    cell = {"name": name, "method": method, "device": options.device}
    ours = measured("ours", splits=options.splits, epochs=options.epochs, **cell)
    has_peer = not options.no_peer and method in peer_methods.METHODS
    theirs = measured("peer", root=root, **cell) if has_peer else {}
    row = {"name": name, "method": method, "ours": ours, "peer": theirs}
    if "epoch" in ours and "epoch" in theirs:
        row["ratio"] = ours["splits"] * theirs["epoch"] / ours["epoch"]
    if method == "cgi" and "nodes" in ours:
        batch = (ours[what] for what in ("nodes", "entries", "graphs"))
        cost = cgi_cost(*batch, PAPER.width, PAPER.levels, PAPER.ratio)
        for what, value in zip(("bytes", "flops"), cost, strict=True):
            row[what] = value * ours["splits"]
            row[f"{what}_share"] = row[what] / ours["step"] / ceilings[what]
    notes = [f"largest of {ours['groups']} groups"] if ours.get("groups", 1) > 1 else []
    notes += [f"{who}: {part['error']}" for who, part in (("ours", ours), ("PyG", theirs)) if "error" in part]
    return row | {"note": "; ".join(notes)}


COLUMNS: tuple[tuple[str, str, Callable[[dict], Any], float], ...] = (
    ("data set", "", lambda row: row["name"], 1),
    ("method", "", lambda row: row["method"], 1),
    ("splits", "d", lambda row: row["ours"].get("splits"), 1),
    ("epoch s", ".4f", lambda row: row["ours"].get("epoch"), 1),
    ("PyG s", ".3f", lambda row: row["peer"].get("epoch"), 1),
    ("ratio", ".1f", lambda row: row.get("ratio"), 1),
    ("step ms", ".3f", lambda row: row["ours"].get("step"), 1e3),
    ("steps %", ".0f", lambda row: row["ours"].get("step_share"), 100),
    ("end ms", ".3f", lambda row: row["ours"].get("end"), 1e3),
    ("end %", ".0f", lambda row: row["ours"].get("end_share"), 100),
    ("launches", ".0f", lambda row: row["ours"].get("launches"), 1),
    ("MiB", ".0f", lambda row: row["ours"].get("memory"), 1),
    ("build s", ".2f", lambda row: row["ours"].get("build"), 1),
    ("capture s", ".2f", lambda row: row["ours"].get("capture"), 1),
    ("loss", ".4f", lambda row: row["ours"].get("train_loss"), 1),
    ("GB", ".3f", lambda row: row.get("bytes"), 1e-9),
    ("% copy", ".1f", lambda row: row.get("bytes_share"), 100),
    ("GFLOP", ".2f", lambda row: row.get("flops"), 1e-9),
    ("% TF32", ".1f", lambda row: row.get("flops_share"), 100),
    ("", "", lambda row: row["note"][:SHOWN], 1),
)
"""Heading, format, where the value comes from, and what it is multiplied by."""


def table(rows: list[dict]) -> str:
    cells = [[heading for heading, *_ in COLUMNS]]
    for row in rows:
        values = [(form, value(row), scale) for _, form, value, scale in COLUMNS]
        cells.append(
            ["" if v is None else v if isinstance(v, str) else f"{v * scale:{form}}" for form, v, scale in values]
        )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = (0, 1, len(COLUMNS) - 1)
    lines = [
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def show_kernels(row: dict) -> None:
    kernels, busy = row["ours"].get("kernels", []), row["ours"].get("busy", 0.0)
    print(
        f"{row['name']}, {row['method']}: the costliest kernels of a step ({busy * 1e3:.3f} ms in kernels and copies)"
    )
    for name, calls, us in kernels:
        print(f"  {us:9.1f} µs  {us / busy / 1e4:5.1f} %  {calls:6.1f} calls  {name[:90]}")


def show_progress(row: dict) -> None:
    said = [f"{row['name']}, {row['method']}:"]
    for who in ("ours", "peer"):
        if "epoch" in row[who]:
            said.append(f"{'PyG' if who == 'peer' else who} {row[who]['epoch']:.4f} s an epoch")
    print(*said, row["note"], flush=True)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", default=NAMES, metavar="NAME", help=f"data sets (default: {' '.join(NAMES)})"
    )
    parser.add_argument("--methods", nargs="+", default=["cgi"], metavar="METHOD", help="default: cgi; all: every one")
    parser.add_argument("--splits", type=int, default=20, help="trained at once (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="of ours that are timed (default: %(default)s)")
    parser.add_argument("--no-peer", action="store_true", help="leave PyG out")
    parser.add_argument(
        "--profile", action="store_true", help=f"also print the {COSTLIEST} costliest kernels of a step"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all that was measured to this file")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: %(default)s")
    options = parser.parse_args()
    if options.methods == ["all"]:
        options.methods = [method for method in METHODS if stackable(method)]
    try:
        refused = [method for method in options.methods if not stackable(method)]
    except UserError as error:
        parser.error(str(error))
    if refused:
        parser.error(f"the engine does not take {refused[0]}")
    if options.splits < 1 or not 1 <= options.epochs <= HISTORY - WARM_UP:
        parser.error(f"there must be at least 1 split and 1 to {HISTORY - WARM_UP} epochs")
    if options.json and not options.json.parent.is_dir():
        parser.error(f"there is no folder {options.json.parent}")
    for name in options.names:
        if not (DATA / f"{name}.zip").exists():
            parser.error(f"no archive {name}.zip in {DATA}; set CGIPOOL_DATA to the folder of the TU archives")
    return options


def main() -> None:
    options = read_options()
    ceilings = measured("ceilings", device=options.device)
    if "error" in ceilings:
        sys.exit(f"cannot measure on {options.device}: {ceilings['error']}")
    about = (
        f"{ceilings['card']}, torch {ceilings['torch']}: copies {ceilings['bytes'] / 1e9:.0f} GB/s (read and written), "
        f"multiplies {ceilings['flops'] / 1e12:.3g} TFLOP/s (TF32)"
    )
    print(about, flush=True)
    rows: list[dict] = []
    with tempfile.TemporaryDirectory() as root:
        for name in options.names:
            for method in options.methods:
                rows.append(compare(name, method, options, ceilings, root))
                show_progress(rows[-1])
                if options.json:  # after each row: a run that is cut off leaves what it has
                    options.json.write_text(json.dumps({"ceilings": ceilings, "rows": rows}, indent=1) + "\n")
    if options.profile:
        for row in rows:
            if row["ours"].get("kernels"):
                show_kernels(row)
    print(f"\n{about}\n{table(rows)}")
    if any("error" in row[who] for row in rows for who in ("ours", "peer")):
        sys.exit(1)


if __name__ == "__main__":
    main()
