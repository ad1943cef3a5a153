"""The command line: what it prints where, and that every mistake of a user is one line and exit code 2."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgipool.cli import errors, main
from cgipool.cli.options import parse_ratio
from cgipool.data import CATALOGUE, CatalogueEntry, Split, load_dataset, motifs, write_splits
from cgipool.errors import UserError
from cgipool.training.run import check_device
from cgipool.version import __version__

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = ["--width", "16", "--epochs", "2", "--batch-size", "32"]

SOUND = {
    "A": "".join(f"{2 * g + 1}, {2 * g + 2}\n{2 * g + 2}, {2 * g + 1}\n" for g in range(12)),
    "graph_indicator": "".join(f"{g + 1}\n{g + 1}\n" for g in range(12)),
    "graph_labels": "".join(f"{g % 2}\n" for g in range(12)),
}
"""A TU data set: twelve graphs of one edge, two classes."""


def write_archive(path: Path, members: dict[str, str] | None = None, **parts: str | None) -> Path:
    """NAME.zip of the sound data set with some parts changed (None: left out), or of the given members."""
    files = {f"{path.stem}/{path.stem}_{part}.txt": text for part, text in (SOUND | parts).items() if text is not None}
    with zipfile.ZipFile(path, "w") as bundle:
        for name, text in (files if members is None else members).items():
            bundle.writestr(zipfile.ZipInfo(name), text)
    return path


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A saved data set that trains in a moment."""
    motifs(40).save(tmp_path / "small")
    return str(tmp_path / "small")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command line answers."""
    assert main(list(arguments)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("cgipool: ")
    assert said.err.count("\n") == 1
    assert said.err.endswith("\n")
    return said.err.removeprefix("cgipool: ").rstrip("\n")


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


def test_an_output_that_lacks_a_character_gets_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = started("-m", "cgipool", "methods")
    assert done.returncode == 0, done.stderr
    assert "CGIPool" in done.stdout
    done = started("-c", "from cgipool.cli import app, main; app.command('say')(lambda: print('α')); main(['say'])")
    assert (done.stdout, done.stderr) == ("\\u03b1\n", "")


def test_json_is_json_in_any_encoding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    some = motifs(20)
    replace(some, name="Moleküle", class_names=("Häuser 🏠", *some.class_names[1:])).save(tmp_path / "set")
    done = started("-m", "cgipool", "data", "info", str(tmp_path / "set"), "--json")
    assert json.loads(done.stdout)["classes"][0]["name"] == "Häuser 🏠"


def test_version_and_help_do_not_wait_for_torch() -> None:
    done = started("-m", "cgipool", "--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"cgipool {__version__}\n", "", 0)
    code = """
import sys
from cgipool.cli import main
for line in ("", "--help", "train --help", "data", "data info --help", "train --epochs 0"):
    main(line.split())
print([name for name in ("torch", "torch_geometric", "matplotlib") if name in sys.modules], file=sys.stderr)
"""
    done = started("-c", code)
    assert done.stderr.splitlines()[-1] == "[]"
    for option in ("--splits-file", "--vocabulary", "--resume", "--class-weight"):
        assert option in done.stdout


def test_commands_that_compute_nothing_do_not_wait_for_torch(tmp_path: Path) -> None:
    study = Path(__file__).parents[2] / "studies" / "table1.toml"
    lines = (["methods"], ["study", "plan", str(study)], ["data", "list"], ["report", str(tmp_path / "none")])
    code = f"""
import sys
from cgipool.cli import main
codes = [main(line) for line in {lines!r}]
print(codes, "torch" in sys.modules, file=sys.stderr)
"""
    done = started("-c", code)
    assert done.stderr.splitlines()[-1] == "[0, 0, 0, 2] False"
    assert "CGIPool" in done.stdout
    done = started(
        "-c", "import sys; from cgipool.cli import main; main(['methods']); sys.exit('numpy' in sys.modules)"
    )
    assert done.returncode == 0


def test_help_says_where_the_methods_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in ("train", "fit", "compare"):
        assert main([command, "--help"]) == 0
        assert "see `cgipool methods`" in capsys.readouterr().out, command


def test_json_is_all_that_stdout_holds(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", small, "--splits", "2", "--seed", "3", "--ratio", "5", *TINY, "--json"]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1
    result = json.loads(said.out)
    keys = {"dataset", "method", "recipe", "splits", "test_accuracy", "test_accuracy_mean", "test_accuracy_sd"}
    assert keys | {"epochs", "epoch_seconds", "seconds"} <= set(result)
    assert (result["dataset"], result["method"], result["recipe"], result["splits"]) == ("motifs", "cgi", "paper", 2)
    assert result["epochs"] == [2, 2]
    assert len(result["test_accuracy"]) == 2
    assert all(0.0 <= value <= 1.0 for value in result["test_accuracy"])
    assert said.err.splitlines()[0].startswith("split 0: 2 epochs, best ")


def test_the_closing_table(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["train", small, "--splits", "2", *TINY, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    result = json.loads((out / "result.json").read_text())
    words = [line.split() for line in said.splitlines()]
    mean, deviation, error = (100 * result[f"test_accuracy_{part}"] for part in ("mean", "sd", "se"))
    assert ["accuracy,", "%", f"{mean:.2f}", f"{deviation:.2f}", f"{error:.2f}"] in words
    assert "motifs · CGIPool · recipe paper · seed 0 · 2 splits" in said
    assert f"{result['parameters']:,} parameters" in said
    assert f" · trained for {result['seconds']:.1f} s · " in said
    assert said.rstrip().endswith(f"saved in {out}")
    assert main(["train", small, "--splits", "2", *TINY, "--out", str(out), "--resume"]) == 0
    assert " · trained for 0.0 s · " in capsys.readouterr().out, "nothing was left to train"


def test_the_default_data_set_is_motifs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--epochs", "1", "--width", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dataset"] == "motifs"


def test_options_reach_the_recipe(small: str, tmp_path: Path) -> None:
    options = ["--recipe", "released", "--method", "cgi-nomi", "--ratio", "1.0", "--patience", "7", "--alpha", "0.5"]
    options += ["--mi", "kl", "--features", "degree", "--vocabulary", "train", "--class-weight", "balanced"]
    assert main(["train", small, *options, *TINY, "--folds", "4", "--out", str(tmp_path / "run")]) == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    expected = {"name": "released", "ratio": 1.0, "patience": 7, "alpha": 0.5, "alpha_proteins": 0.5, "mi": "kl"}
    expected |= {"features": "degree", "vocabulary": "train", "class_weight": "balanced", "width": 16, "epochs": 2}
    assert {name: run["recipe"][name] for name in expected} == expected
    assert (run["method"], run["splits"]) == ("cgi-nomi", [0, 1, 2, 3])
    again = ["train", small, *TINY, "--splits-file", str(tmp_path / "run" / "splits.json")]
    assert main([*again, "--out", str(tmp_path / "again")]) == 0
    files = [(tmp_path / name / "splits.json").read_text() for name in ("run", "again")]
    assert files[0] == files[1]


def test_splits_that_leave_graphs_out_are_told(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = load_dataset(small).n_graphs
    for named, told in ((12, f"the splits use 12 of the {count} graphs; the others are left out\n"), (count, "")):
        ids = np.arange(named)
        write_splits(tmp_path / "splits.json", [Split(0, ids[2:], ids[:1], ids[1:2])])
        assert main(["train", small, *TINY, "--splits-file", str(tmp_path / "splits.json"), "--json"]) == 0
        lines = [line for line in capsys.readouterr().err.splitlines(True) if line.startswith("the splits")]
        assert "".join(lines) == told


def test_resume_without_a_run_says_that_it_begins_one(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        command = ["train", small, *TINY, "--out", str(tmp_path / name), "--resume", "--json"]
        line = f"there is no run in {tmp_path / name} yet: starting a new one"
        assert main(command) == 0
        said = capsys.readouterr()
        assert said.err.splitlines()[0] == line
        assert json.loads(said.out)["epochs"] == [2]
        assert main(command) == 0
        assert line not in capsys.readouterr().err
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").touch()
    command = ["train", small, *TINY, "--out", str(tmp_path / "taken"), "--resume"]
    assert refused(capsys, *command).endswith("is not empty and is not a run; choose another folder")


def test_resume_and_overwrite(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", small, *TINY, "--out", str(tmp_path / "run")]
    assert main(command) == 0
    capsys.readouterr()
    assert refused(capsys, *command).endswith("already holds a run; resume it (--resume) or replace it (--overwrite)")
    assert "a different ratio (0.8 then, 0.5 now)" in refused(capsys, *command, "--resume", "--ratio", "0.5")
    assert main([*command, "--resume"]) == 0
    assert main([*command, "--overwrite", "--ratio", "0.5"]) == 0


@pytest.mark.parametrize(
    ("text", "ratio"), [("0.8", 0.8), ("1.0", 1.0), ("5", 5), ("1", 1), ("1e0", 1.0), ("5e-1", 0.5), ("-1", -1)]
)
def test_ratio(text: str, ratio: float) -> None:
    parsed = parse_ratio(text)
    assert (parsed, type(parsed)) == (ratio, type(ratio))


RATIO = "ratio must be a share in (0, 1] or a whole number of nodes from 1, not "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train NCI2", "unknown data set 'NCI2'; did you mean 'NCI1'? known: AIDS, "),
        ("train no/such.zip", "there is no data set at no/such.zip"),
        ("train --method cgj", "unknown method 'cgj'; did you mean 'cgi'? known: asap, cgi, "),
        ("train --recipe papr", "unknown recipe 'papr'; did you mean 'paper'? known: paper, released"),
        ("train --mi js", "unknown mutual-information bound 'js'; known: gan, kl"),
        ("train --features colour", "unknown feature source 'colour'; "),
        ("train --vocabulary some", "unknown vocabulary 'some'; "),
        ("train --class-weight even", "unknown class weight 'even'; "),
        ("train --split-kind odd", "unknown kind of split 'odd'; "),
        ("train --device gpu", "device 'gpu' cannot be used: it must be cpu, cuda or cuda:N"),
        ("train --device cuda:x", "device 'cuda:x' cannot be used: it must be cpu, cuda or cuda:N"),
        ("train --device meta", "device 'meta' cannot be used: it must be cpu, cuda or cuda:N"),
        ("train --ratio 0", RATIO + "0"),
        ("train --ratio 0.0", RATIO + "0.0"),
        ("train --ratio -0.5", RATIO + "-0.5"),
        ("train --ratio nan", RATIO + "nan"),
        ("train --ratio 1.5", RATIO + "1.5"),
        ("train --ratio half", "--ratio must be a share in (0, 1], such as 0.8, or a number of nodes, not 'half'"),
        ("train --splits x", "Invalid value for '--splits': "),
        ("train --alpha nan", "alpha must be at least 0, not nan"),
        ("train --alpha -1", "alpha must be at least 0, not -1"),
        ("train --epoch 3", "No such option: --epoch"),
        ("fit motifs --name x", "No such option: --name"),
        ("train --epochs", "Option '--epochs' requires an argument"),
        ("train motifs NCI1", "Got unexpected extra argument"),
        ("trian", "No such command 'trian'"),
        ("data info", "Missing argument 'NAME|PATH'"),
        ("data fetch MUTAK", "unknown data set 'MUTAK'; did you mean 'MUTAG'?"),
        ("train --resume --overwrite --out x", "--resume and --overwrite cannot be used together"),
        ("train --resume", "--resume and --overwrite need --out DIR"),
        ("train --splits-file x --folds 5", "--splits-file and --folds cannot be used together"),
        ("train --folds 5 --splits 3", "--folds and --splits cannot be used together"),
        ("train --splits-file no.json", "cannot read no.json: No such file or directory"),
        ("train --attributes", "motifs has no node attributes"),
        ("train --features label", "motifs has no node labels"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], own_cache: Path, arguments: str, message: str) -> None:
    assert message in refused(capsys, *arguments.split())


def test_of_a_gpu_that_is_not_there_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such GPU here\nand more")

    monkeypatch.setattr("torch.zeros", fail)
    for device in ("cuda", "cuda:7"):
        with pytest.raises(UserError, match=f"^device '{device}' cannot be used: no such GPU here$"):
            check_device(device)


def test_of_a_pytorch_without_cuda_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")  # as torch words it

    monkeypatch.setattr("torch.zeros", fail)
    with pytest.raises(UserError, match=r"^device 'cuda' cannot be used: PyTorch \S+ is built without CUDA; install a"):
        check_device("cuda")


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [
        ("--epochs", 0, 1),
        ("--splits", 0, 1),
        ("--first", -1, 0),
        ("--seed", -1, 0),
        ("--folds", 2, 3),
        ("--jobs", 0, 1),
        ("--width", 0, 2),
        ("--batch-size", 0, 1),
        ("--patience", 0, 1),
    ],
)
def test_numbers_out_of_range(capsys: pytest.CaptureFixture[str], option: str, value: int, least: int) -> None:
    said = refused(capsys, "train", option, str(value))  # typer's own words differ from version to version
    name = option.strip("-").replace("-", "_")
    settings = f"{name} must be at least {least}, not {value}"
    assert said == settings or re.fullmatch(rf"Invalid value for '{option}': .*\b{least}\b.* \(see .*", said)


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "not a zip": (lambda path: path.write_text("<html>"), "{path} is not a zip archive"),
    "cut short": (lambda path: path.write_bytes(write_archive(path).read_bytes()[:-60]), "{path}"),
    "member missing": (lambda path: write_archive(path, graph_labels=None), "X_graph_labels.txt"),
    "no number": (lambda path: write_archive(path, graph_labels=SOUND["graph_labels"].replace("1", "?", 1)), "line 2"),
    "between graphs": (lambda path: write_archive(path, A=SOUND["A"] + "1, 24\n"), "line 25"),
    "out of range": (lambda path: write_archive(path, A=SOUND["A"] + "1, 99\n"), "line 25"),
    "labels too few": (lambda path: write_archive(path, node_labels="1\n2\n"), "X_node_labels.txt"),
    "upwards": (lambda path: write_archive(path, {"../X_A.txt": "1, 2\n"}), "../X_A.txt"),
    "absolute": (lambda path: write_archive(path, {"/X/X_A.txt": "1, 2\n"}), "/X/X_A.txt"),
    "empty": (lambda path: write_archive(path, A="", graph_indicator="", graph_labels=""), "empty"),
    "one class": (lambda path: write_archive(path, graph_labels="1\n" * 12), "X has graphs of one class only"),
    "no nodes": (
        lambda path: write_archive(path, A="", graph_indicator="", node_labels=None, node_attributes=None),
        "X has no nodes",
    ),
    "few graphs": (
        lambda path: write_archive(path, A="1, 2\n2, 1\n", graph_indicator="1\n1\n2\n", graph_labels="0\n1\n"),
        "X has 2 graphs; at least 10 are needed",
    ),
    "NaN": (lambda path: write_archive(path, node_attributes="nan\n" * 2 + "0.5\n" * 22), "column 0"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_archives(capsys: pytest.CaptureFixture[str], own_cache: Path, tmp_path: Path, case: str) -> None:
    make, message = CASES[case]
    path = tmp_path / "X.zip"
    make(path)
    assert message.format(path=path) in refused(capsys, "train", str(path), *TINY)


def test_folders_that_cannot_be_used(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert "Not a directory" in refused(capsys, "train", small, *TINY, "--out", str(tmp_path / "file" / "run"))
    assert "is not empty and is not a run" in refused(capsys, "train", small, *TINY, "--out", str(tmp_path))


def test_other_errors_are_one_line_or_raised() -> None:
    assert errors.one_line(PermissionError(13, "Permission denied", "/x")) == ("/x: Permission denied", 2)
    assert errors.one_line(KeyboardInterrupt()) == ("stopped", 130)
    assert errors.one_line(MemoryError())[1] == 2
    assert errors.one_line(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"))[1] == 2
    with pytest.raises(ZeroDivisionError):
        errors.one_line(ZeroDivisionError())


@pytest.mark.parametrize(("jobs", "sent"), [("1", signal.SIGINT), ("2", signal.SIGINT), ("2", signal.SIGTERM)])
def test_interrupt(small: str, tmp_path: Path, jobs: str, sent: signal.Signals) -> None:
    """By a terminal or a scheduler, which tell the workers as well."""
    out = tmp_path / "run"
    command = ["train", small, "--width", "16", "--epochs", "100000", "--patience", "100000", "--splits", "2"]
    command = [sys.executable, "-m", "cgipool", *command, "--jobs", jobs, "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes, start_new_session=True)
    log = out / "split-000" / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.02)
    os.killpg(process.pid, sent)
    try:
        said, complaint = process.communicate(timeout=60)
    finally:
        process.kill()  # it would train for hours
    assert process.returncode == 128 + sent
    assert said == ""
    assert complaint.splitlines()[-1] == f"cgipool: stopped; run the same command with --resume to continue from {out}"
    assert "Traceback" not in complaint


def test_a_terminated_fit_can_be_resumed(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, folder = tmp_path / "new" / "model", tmp_path / "new" / "model.run"
    command = ["fit", small, "--out", str(model), "--set", "epochs=100000", "--set", "patience=100000"]
    process = subprocess.Popen([sys.executable, "-m", "cgipool", *command], stderr=subprocess.PIPE)
    while process.poll() is None and not (folder / "split-000" / "metrics.jsonl").exists():
        time.sleep(0.02)
    said = "another process is training in {folder}; wait until it ends, or choose another folder"
    for flags in ([], ["--resume"], ["--overwrite"]):
        assert refused(capsys, *command, *flags).endswith(said.format(folder=folder)), flags
    assert main(["train", small, "--out", str(folder), *TINY]) == 2, "the folder is that of a run like any other"
    capsys.readouterr()
    process.send_signal(signal.SIGTERM)
    try:
        _, complaint = process.communicate(timeout=60)
    finally:
        process.kill()  # it would train for hours
    assert process.returncode == 143
    assert complaint == b"cgipool: stopped; run the same command with --resume to continue\n"
    assert [path.name for path in model.parent.iterdir()] == ["model.run"]
    assert "already holds a run; resume it (--resume) or replace it (--overwrite)" in refused(capsys, *command)
    other = ["fit", small, "--out", str(model), "--set", "epochs=1", "--resume"]
    assert "holds a run with a different epochs (100000 then, 1 now); cannot resume it" in refused(capsys, *other)
    assert main([*other[:-1], "--overwrite"]) == 0
    assert [path.name for path in model.parent.iterdir()] == ["model"]
    capsys.readouterr()
    assert main(other) == 0
    assert f"there is no interrupted fit of {model}: starting a new one\n" in capsys.readouterr().err


def test_bars_on_a_terminal(small: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "cgipool", "train", small, "--width", "16", "--epochs", "100", "--splits", "2"]
    command.append("--json")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    )
    os.close(theirs)
    shown = io.BytesIO()
    try:
        while block := os.read(ours, 4096):
            shown.write(block)
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.stdout is not None
    with process.stdout:
        assert json.loads(process.stdout.read())["splits"] == 2
    assert process.wait() == 0
    text = shown.getvalue().decode()
    assert re.search(r"split 0 .* \d+/100  val loss \d\.\d{4}  accuracy \d+\.\d %  best \d+/100 ago .*0:00", text)
    assert "split 1: 100 epochs, best " in text
    assert "2/2" in text


def test_data_list(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_cache.mkdir()
    write_archive(own_cache / "MUTAG.zip")
    assert main(["data", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(CATALOGUE) <= set(lines)
    assert "built in" in lines["motifs"]
    assert "cache" in lines["MUTAG"]
    assert "4,110" in lines["NCI1"]


def test_data_info(tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_archive(tmp_path / "X.zip", A=SOUND["A"] + "1, 1\n", edge_labels="0\n" * 25))
    assert main(["data", "info", path, "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["graphs"], described["nodes"], described["edges"]) == (12, 24, 12)
    assert main(["data", "info", path]) == 0
    said = capsys.readouterr().out
    for text in ("24, 2.00 per graph", "0: 6 graphs, 50.0 %", "self-loops: 1", "read by the convolutions gine and"):
        assert text in said
    assert "12 graphs have a twin; 1 kind of twins differs in class" in said


@pytest.mark.parametrize("command", ["train", "fit --out M", "compare --methods none --splits 2 --store S"])
def test_attributes_that_are_not_used_are_told(
    command: str, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_archive(tmp_path / "X.zip", node_labels=None, node_attributes="0.5, 1\n" * 24)
    name, *options = command.split()
    words = [name, "X.zip", *options, "--set", "epochs=1", "--set", "width=2"]
    assert main([*words, "--set", "attributes=false"]) == 0
    said = (
        "cgipool: warning: X: node attributes (2 columns) are not used and nodes have no labels, so only their degrees"
    )
    assert capsys.readouterr().err.count(said) == 1
    assert main(words) == 0  # on data of one's own they are used by default
    assert "not used" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train --json", "fit --out M", "compare --methods none --splits 2 --store S"])
def test_all_that_is_not_used_is_told_once(
    command: str, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = {"A": "".join(f"{2 * g + 1}, {2 * g + 2}\n" for g in range(12)), "node_labels": "1\n2\n" * 12}
    parts |= {"node_attributes": "0.5, 1\n" * 24, "edge_labels": "1\n" * 12, "edge_attributes": "1.5\n" * 12}
    write_archive(tmp_path / "X.zip", **parts)
    name, *options = command.split()
    settings = [word for each in ("epochs=1", "width=2", "attributes=false") for word in ("--set", each)]
    assert main([name, "X.zip", *options, *settings]) == 0
    out, err = capsys.readouterr()
    assert [line for line in err.splitlines() if "warning" in line] == [
        "cgipool: warning: X: node attributes (2 columns) are not used; set attributes=true to use them",
        "cgipool: warning: X: edge labels (1 column) are not used; conv=gine reads them",
        "cgipool: warning: X: edge attributes (1 column) are not used; conv=gine reads them",
        "cgipool: warning: X: direction is discarded: 12 one-way edges count in both directions",
    ]
    if name == "train":
        assert json.loads(out)["dataset"] == "X"
    assert main(["data", "info", "X.zip"]) == 0
    assert "one-way edges completed: 12 (direction is discarded)" in capsys.readouterr().out


def test_folds_of_another_kind(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = {}
    for kind in ("", "stratified", "random", "distinct"):
        words = ["--split-kind", kind] if kind else []
        out = tmp_path / f"folds-{kind}"
        assert main(["train", small, "--method", "majority", "--folds", "4", *words, "--out", str(out)]) == 0
        drawn[kind] = (out / "splits.json").read_text()
    assert drawn[""] == drawn["stratified"] != drawn["random"]
    capsys.readouterr()
    assert "does not have the columns" in refused(
        capsys, "train", small, "--folds", "4", "--split-kind", "scaffold", *TINY
    )


def test_data_info_of_a_public_set(tu_archive: Callable[[str], Path], own_cache: Path, capsys) -> None:
    assert main(["data", "info", str(tu_archive("PROTEINS"))]) == 0
    assert "43,471, 39.06 per graph" in capsys.readouterr().out


def test_data_fetch_of_what_is_built_in(own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "Motifs"]) == 0
    assert capsys.readouterr().out == "motifs is built in: nothing to download\n"


def test_data_fetch(own_cache: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    write_archive(tmp_path / "MUTAG.zip")
    small = load_dataset(tmp_path / "MUTAG.zip", cache=False)
    monkeypatch.setitem(CATALOGUE, "MUTAG", CatalogueEntry("molecules", small.n_graphs, small.n_classes, "small"))
    monkeypatch.setenv("CGIPOOL_MIRROR", tmp_path.as_uri())
    assert main(["data", "fetch", "mutag"]) == 0
    said = capsys.readouterr()
    assert said.out == f"MUTAG: {own_cache / 'MUTAG.zip'}\n"
    assert said.err == "downloaded MUTAG: 0.0 MB\n"


def test_methods(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    said = capsys.readouterr().out
    for text in ("cgi-nomi", "CGIPool-RS", "SIGIR 2021"):
        assert text in said


def test_the_terminal_breaks_the_lines_of_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["predict", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Memory use does not grow with the number of graphs." in re.sub(r"\s+", " ", text)
    assert "grow with the\n" not in re.sub(r" +\n", "\n", text)
