"""`cgipool fit` and `cgipool predict`: every graph a row, broken ones told, memory flat."""

import csv
import gzip
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgipool import GraphSet, load_dataset
from cgipool.cli import main
from cgipool.cli.predict import _write
from cgipool.data.features import Encoder
from cgipool.data.importers.lines import Asked, Line, lines_of
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import Row, Writer, WrittenRows, shard_of
from cgipool.inference.predict_input import CHUNK, Chunk, chunks_of, count_of, known_to
from cgipool.inference.ray import PredictOptions, predict_range
from cgipool.study.share import shard_of_rank

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = ("--set", "width=8", "--set", "epochs=2", "--method", "topk")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    assert main(["fit", "motifs", "--out", str(path), *TINY]) == 0
    return path


@pytest.fixture
def graphs(tmp_path: Path) -> GraphSet:
    made = load_dataset("motifs").subset(range(50))
    made.save(tmp_path / "graphs")
    return made


def test_csv_and_json(model: Path, graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["predict", str(model), str(tmp_path / "graphs")]) == 0
    said = capsys.readouterr()
    rows = list(csv.DictReader(said.out.splitlines()))
    assert [row["id"] for row in rows] == [str(i) for i in range(50)]
    assert "50 graphs" in said.err
    expected = FittedModel.load(model).predict_proba(graphs)
    names = graphs.class_names
    given = np.array([[float(row[f"p({name})"]) for name in names] for row in rows])
    np.testing.assert_allclose(given, expected, atol=1e-6)
    assert [row["prediction"] for row in rows] == [names[c] for c in expected.argmax(1)]
    assert main(["predict", str(model), str(tmp_path / "graphs"), "--json", "--out", str(tmp_path / "rows")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [line["prediction"] for line in lines] == [row["prediction"] for row in rows]
    assert list(lines[0]["probabilities"]) == list(names)


def test_lines_of_json_are_valid_where_the_output_lacks_a_character() -> None:
    content = io.BytesIO()
    out = io.TextIOWrapper(content, encoding="ascii", errors="backslashreplace")  # as the command sets stdout
    Writer(out, ("sauer", "süß"), as_json=True).write(Row("Stärke", np.array([0.25, 0.75])))
    out.flush()
    row = {"id": "Stärke", "prediction": "süß", "probabilities": {"sauer": 0.25, "süß": 0.75}}
    assert json.loads(content.getvalue()) == row


def test_a_csv_of_predictions_is_harmless_in_a_spreadsheet_and_a_terminal() -> None:
    out = io.StringIO()
    writer = Writer(out, ("=1+1", "-1"), as_json=False)
    writer.write(Row("=cmd|' /C calc'!A0", np.array([0.75, 0.25])))
    writer.write(Row("-1", np.array([0.25, 0.75])))
    writer.write(Row("a\x1b[31m", None, "@reason"))
    header, *rows = csv.reader(io.StringIO(out.getvalue()))
    assert header == ["id", "prediction", "p(=1+1)", "p(-1)", "unseen_nodes", "reason"]
    assert rows == [
        ["'=cmd|' /C calc'!A0", "'=1+1", "0.750000", "0.250000", "", ""],
        ["-1", "-1", "0.250000", "0.750000", "", ""],
        ["a\ufffd[31m", "", "", "", "", "'@reason"],
    ]


def test_a_broken_graph_of_an_older_set_is_told_and_does_not_stop_the_rest(
    model: Path, graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture, as_format_1: Callable[[Path], None]
) -> None:
    as_format_1(tmp_path / "graphs")
    path = tmp_path / "graphs" / "edge_disp.npy"
    edges = np.load(path)
    edges[graphs.edge_ptr[graphs.node_ptr[7]]] = 10_000
    np.save(path, edges)
    assert main(["predict", str(model), str(tmp_path / "graphs")]) == 0
    said = capsys.readouterr()
    rows = list(csv.DictReader(said.out.splitlines()))
    assert len(rows) == 50
    assert [row["id"] for row in rows if row["reason"]] == ["7"]
    assert rows[7]["prediction"] == ""
    assert "1 could not be read" in said.err
    assert main(["predict", str(model), str(tmp_path / "graphs"), "--strict"]) == 2
    assert "graph 7" in capsys.readouterr().err


def test_graphs_without_nodes_are_told(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    GraphSet.from_edges("odd", [2, 0, 0], [0, 1], [1, 0], [0, 0, 0]).save(tmp_path / "odd")
    assert main(["predict", str(model), str(tmp_path / "odd")]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 4
    assert "; 2 without nodes, whose predictions mean nothing" in said.err


def test_labels_that_the_model_has_not_seen_are_told(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    some = load_dataset("motifs").subset(range(40))
    label = np.arange(some.n_nodes)[:, None] % 2
    for name, names in (("old", ("a", "b")), ("new", ("b", "c"))):
        replace(some, category=label.astype(np.int32), category_names=(names,)).save(tmp_path / name)
    model = str(tmp_path / "model.safetensors")
    assert main(["fit", str(tmp_path / "old"), "--out", model, *TINY]) == 0
    for name, said in (("old", False), ("new", True)):
        capsys.readouterr()
        assert main(["predict", model, str(tmp_path / name)]) == 0
        answer = capsys.readouterr()
        assert ("50 % of the nodes have a label or degree that the model was not trained on" in answer.err) is said
        counts = [int(row["unseen_nodes"]) for row in csv.DictReader(answer.out.splitlines())]
        ends = np.stack([some.node_ptr[:-1], some.node_ptr[1:]], 1).tolist()
        assert counts == [int(label[first:last].sum()) if said else 0 for first, last in ends]


def test_a_graph_that_the_model_has_no_input_for_is_told_as_well(model: Path, graphs: GraphSet) -> None:
    most = [int(graphs[i].degree.max()) for i in range(50)]
    small, large = graphs.subset(np.flatnonzero(np.array(most) < max(most))), graphs[most.index(max(most))]
    fitted = replace(FittedModel.load(model), encoder=Encoder.fit(small, vocabulary="all"))
    known = Chunk(list("abcdef"), small[:4], {0: "broken", 4: "broken"})
    strange = replace(known, graphs=GraphSet.join([small[:2], large, small[:1]]))
    same, told = known_to(fitted, [known, strange])
    assert same is known
    assert told.graphs is not None
    assert told.graphs.n_graphs == 3
    assert list(told.reasons) == [0, 4, 3]
    assert told.reasons[3] == f"degree {max(most)} is not in the vocabulary, which has no 'other' column"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "none.safetensors", "motifs"), "cannot read none.safetensors: No such file or directory\n"),
        (("explain", "MODEL", "rows.csv", "--graph", "0"), "the model was not trained on molecules"),
        (("explain", "MODEL", "rows.csv", "--faithfulness"), "import it first: cgipool data import rows.csv --out DIR"),
        (("predict", "MODEL", "nowhere.zip"), "there is no data set at nowhere.zip"),
        (("predict", "MODEL", "motifs", "--shard", "3"), "--shard '3' is not of the form I/N"),
        (("predict", "MODEL", "motifs", "--shard", "rank"), "neither RANK nor SLURM_PROCID is set"),
        (("predict", "MODEL", "motifs", "--shard", "0/3"), "the first number must be from 1 to 3"),
        (("fit", "motifs", "--out", "rows.csv/model"), "cannot create rows.csv: File exists"),
        (("predict", "MODEL", "motifs", "--out", "no/rows.csv"), "cannot write no/rows.csv: there is no folder no"),
        (("demo", "--out", "rows.csv/pictures"), "rows.csv/pictures: Not a directory"),
        (("fit", "motifs", "--set", "widht=3"), "unknown setting 'widht'"),
        (("fit", "motifs", "--validation", "2"), "between 0 and 1"),
    ],
)
def test_errors_are_one_line(
    words: tuple[str, ...], said: str, model: Path, capsys: pytest.CaptureFixture, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("smiles\nCCO\n")
    assert main([str(model) if word == "MODEL" else word for word in words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@given(st.integers(0, 50_000), st.integers(1, 12))
def test_shares_are_all_graphs_in_order(count: int, shards: int) -> None:
    spans = [shard_of(count, number, shards) for number in range(1, shards + 1)]
    assert [number for start, stop in spans for number in range(start, stop)] == list(range(count))
    if count >= shards * CHUNK:
        assert all(start % CHUNK == 0 for start, _ in spans)
        assert all(stop > start for start, stop in spans)


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(("copies", "shards"), [(1, 3), (1, 60), (9, 2)])
def test_shares_put_end_to_end_are_the_whole(
    model: Path, tmp_path: Path, form: list[str], copies: int, shards: int
) -> None:
    base = load_dataset("motifs")
    GraphSet.join([base] * copies if copies > 1 else [base.subset(range(50))]).save(tmp_path / "graphs")
    words = ["predict", str(model), str(tmp_path / "graphs"), *form, "--out"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    for number in range(1, shards + 1):
        assert main([*words, str(tmp_path / f"part-{number}"), "--shard", f"{number}/{shards}"]) == 0
    parts = [(tmp_path / f"part-{number}").read_text() for number in range(1, shards + 1)]
    assert "".join(parts) == (tmp_path / "whole").read_text()


def test_every_process_writes_its_share(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_dataset("motifs").subset(range(20)).save(tmp_path / "set")
    words = ["predict", str(model), str(tmp_path / "set"), "--out", str(tmp_path / "rows.csv")]
    assert main(words) == 0
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        assert main([*words, "--shard", "rank"]) == 0
    parts = [(tmp_path / f"rows-{number}-of-2.csv").read_text() for number in (1, 2)]
    ids = [line.split(",")[0] for line in "".join(parts).splitlines()]
    assert ids == [line.split(",")[0] for line in (tmp_path / "rows.csv").read_text().splitlines()]
    assert len(parts[0].splitlines()) == 11


def test_the_share_of_a_process() -> None:
    assert shard_of_rank({"RANK": "1", "WORLD_SIZE": "4"}) == (2, 4)
    assert shard_of_rank({"SLURM_PROCID": "0", "SLURM_NTASKS": "3"}) == (1, 3)
    with pytest.raises(UserError, match="neither RANK nor SLURM_PROCID"):
        shard_of_rank({"RANK": "1"})


def test_shares_of_an_import_keep_its_ids(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for name, text in (
        ("graphs", "graph,label\n" + "".join(f"g{g},{g % 2}\n" for g in range(5))),
        ("edges", "graph,source,target\n" + "".join(f"g{g},0,1\n" for g in range(5))),
    ):
        (tmp_path / f"{name}.csv").write_text(text)
    assert main(["data", "import", str(tmp_path), "--out", str(tmp_path / "set")]) == 0
    capsys.readouterr()
    assert main(["predict", str(model), str(tmp_path / "set"), "--shard", "2/2"]) == 0
    assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()] == ["g2", "g3", "g4"]
    chunks = chunks_of(tmp_path / "set", FittedModel.load(model), start=1, stop=3)
    assert [list(chunk.ids) for chunk in chunks] == [["g1", "g2"]]


def test_ids_from_any_graph_on(tmp_path: Path) -> None:
    """Over several blocks of the file; quotes and space are kept, a line break is escaped."""
    names = [f"g{g}" for g in range(200_000)] + [' "odd",\nname ', ""]
    with (tmp_path / "ids.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("graph", "row", "id"), *((g, g + 1, name) for g, name in enumerate(names))])
    assert [line.id for line in lines_of(tmp_path, None, 199_998)] == [
        "g199998",
        "g199999",
        r' "odd",\nname ',
        "200001",
    ]
    assert list(lines_of(tmp_path, None, 200_002)) == []


def test_a_task_of_ray_needs_no_line_of_text_but_its_own(model: Path, tmp_path: Path) -> None:
    """Read from its beginning by every task, a file would be read as many times as there are tasks."""
    load_dataset("motifs").subset(range(20)).save(tmp_path / "set")
    (tmp_path / "set" / "ids.csv").write_text("not to be read")
    options = PredictOptions(str(tmp_path / "set"), Asked(), "cpu", as_json=False, strict=False)
    text, graphs, *_ = predict_range(model.read_bytes(), options, 10, 13, [Line("a"), Line("b"), Line("c")])
    assert graphs == 3
    assert [line.partition(",")[0] for line in text.splitlines()] == ["a", "b", "c"]


def test_too_few_ids_are_told(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    load_dataset("motifs").subset(range(5)).save(tmp_path / "set")
    (tmp_path / "set" / "ids.csv").write_text("graph,row\n0,1\n1,3\n")
    assert main(["predict", str(model), str(tmp_path / "set"), "--out", str(tmp_path / "rows.csv")]) == 2
    assert "ids.csv has fewer rows than the set has graphs" in capsys.readouterr().err


def test_an_earlier_file_stays_where_ray_cannot_be_used(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("of an earlier command")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["predict", str(model), "motifs", "--on", "ray", "--out", str(tmp_path / "rows.csv")]) == 2
    assert (tmp_path / "rows.csv").read_text() == "of an earlier command"


def test_lines_of_inputs(model: Path, tmp_path: Path) -> None:
    load_dataset("motifs").subset(range(5)).save(tmp_path / "set")
    assert list(lines_of(tmp_path / "set")) == []
    (tmp_path / "set" / "ids.csv").write_text("graph,row\n0,1\n1,3\n2,4\n3,5\n4,6\n")
    assert list(lines_of(tmp_path / "set", None, 1, 3)) == [Line("1"), Line("2")]
    (tmp_path / "new.csv").write_text("smiles\nC\nCC\nCCO\n")
    assert list(lines_of(tmp_path / "new.csv", None, 1, 3)) == [Line("1", "CC"), Line("2", "CCO")]


def test_molecules_from_a_table(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit", reason="needs the extra chem")
    monkeypatch.chdir(tmp_path)
    lines = [f"{'C' * n}O,wet\n{'C' * n},dry" for n in range(1, 16)]
    Path("train.csv").write_text("smiles,class\n" + "\n".join(lines) + "\n")
    assert main(["data", "import", "train.csv", "--out", "train", "--label", "class"]) == 0
    assert main(["fit", "train", "--out", "m.safetensors", *TINY]) == 0
    Path("new.csv").write_text("name,smiles\nethanol,CCO\nnonsense,C(C\nbutane,CCCC\n")
    capsys.readouterr()
    assert main(["predict", "m.safetensors", "new.csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["id"] for row in rows] == ["ethanol", "nonsense", "butane"]
    assert [bool(row["prediction"]) for row in rows] == [True, False, True]
    assert "SMILES" in rows[1]["reason"]
    Path("new.csv.gz").write_bytes(gzip.compress(Path("new.csv").read_bytes()))
    assert main(["predict", "m.safetensors", "new.csv.gz"]) == 0
    assert list(csv.DictReader(capsys.readouterr().out.splitlines())) == rows
    assert main(["predict", "m.safetensors", "new.csv", "--strict"]) == 2
    assert "graph nonsense" in capsys.readouterr().err
    assert main(["predict", "m.safetensors", "new.csv", "--smiles", "molecule"]) == 2
    assert "no column 'molecule'" in capsys.readouterr().err
    assert count_of("new.csv") == 3
    for number, ids in ((1, ["id", "ethanol"]), (2, ["nonsense", "butane"])):
        assert main(["predict", "m.safetensors", "new.csv", "--shard", f"{number}/2"]) == 0
        assert [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()] == ids
    assert main(["predict", "m.safetensors", "train"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("0,")


def test_a_model_of_graphs_reads_no_smiles(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "new.csv").write_text("smiles\nCCO\n")
    assert main(["predict", str(model), str(tmp_path / "new.csv")]) == 2
    assert "was not trained on molecules" in capsys.readouterr().err


def test_an_ensemble_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "two.safetensors"
    assert main(["fit", "motifs", "--out", str(out), "--ensemble", "2", *TINY]) == 0
    said = capsys.readouterr()
    assert "two.safetensors: an ensemble of 2 topk, recipe strong-molecules, on 900 graphs of motifs" in said.out
    assert "validation graphs" in said.out
    assert [line.split(",")[0] for line in said.err.splitlines()] == ["member 0: 2 epochs", "member 1: 2 epochs"]
    assert len(FittedModel.load(out).members) == 2


def test_who_fits_one_model_hears_of_no_splits(graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    command = ["fit", str(tmp_path / "graphs"), "--out", str(tmp_path / "one.safetensors"), *TINY]
    assert main(command) == 0
    assert capsys.readouterr().err.startswith("model: 2 epochs, best ")
    assert main([*command, "--set", "lr=1e30"]) == 2
    assert re.fullmatch(r"cgipool: the loss became NaN or infinite in epoch \d\n", capsys.readouterr().err)
    graphs.subset(range(9)).save(tmp_path / "graphs")
    assert main(command) == 2
    assert capsys.readouterr().err == "cgipool: motifs has 9 graphs; at least 10 are needed\n"


def test_a_shorter_line_on_a_terminal_leaves_nothing_of_a_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    clock, terminal = iter([0.5, 100.0]), Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(_write.__globals__, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    _write(iter([WrittenRows("", 1000, 0, 5, 0)]), io.StringIO(), 0.0)
    assert "1,000 graphs, 2,000 a second" in terminal.getvalue()
    assert terminal.getvalue().split("\x1b[K")[-1] == "1,000 graphs, 10 a second\n"


MEASURE = """
import sys, threading, time
from cgipool.cli import main
most = 0
def watch():
    global most
    while True:
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon"):
                most = max(most, int(line.split()[1]))
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
assert main(sys.argv[1:]) == 0
print(most, file=sys.stderr)
"""
"""Tells the most memory of its own that a command took, in KiB; pages of mapped files are not its own."""


@pytest.mark.long
def test_a_million_graphs_in_flat_memory(model: Path, tmp_path: Path) -> None:
    base = load_dataset("motifs")
    peaks = []
    for thousands in (10, 1000):
        folder = tmp_path / str(thousands)
        GraphSet.join([base] * thousands).save(folder)
        out = tmp_path / f"{thousands}.csv"
        words = ["predict", str(model), str(folder), "--out", str(out)]
        done = subprocess.run([sys.executable, "-c", MEASURE, *words], capture_output=True, text=True, check=True)
        peaks.append(int(done.stderr.split()[-1]))
        with out.open() as file:
            ids = [row["id"] for row in csv.DictReader(file)]
        assert ids == [str(number) for number in range(1000 * thousands)]
    assert peaks[1] < peaks[0] + 50_000
