"""Files are replaced whole; what is no plain file is not replaced; a damaged one is named."""

import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest

from cgipool import files
from cgipool.cli import main
from cgipool.errors import UserError
from cgipool.files import read_array, writable, writable_folder, write_atomically


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", lambda temporary: temporary.write_text("after"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writable(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_atomically(pipe, lambda path: path.write_text("rows"))
    reader.join()
    assert found == ["rows"]
    assert pipe.is_fifo()


def test_whether_a_place_can_be_written_is_found_out_by_trying(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/file")
    for path in (tmp_path / "new", tmp_path / "link"):
        writable(path)
    writable_folder(tmp_path / "deep" / "folder")
    assert sorted(os.listdir(tmp_path)) == ["link", "real"], "nothing is left of it"
    assert not os.listdir(tmp_path / "real")
    (tmp_path / "real").rmdir()
    with pytest.raises(UserError, match=r"cannot write .*link: No such file or directory"):
        writable(tmp_path / "link")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*file/below: .*file is not a folder"):
        writable_folder(tmp_path / "file" / "below")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which not even root can write")
@pytest.mark.parametrize("words", [["fit", "motifs"], ["compare", "motifs", "--methods", "none"]])
def test_what_cannot_be_written_is_told_before_training(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--out", "/proc/new"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "cannot write /proc/new: " in error
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("mmap", [False, True])
def test_a_wrong_byte_in_the_header_of_an_array_is_told(tmp_path: Path, mmap: bool) -> None:
    """NumPy reads the header as Python, and raises whatever that raises."""
    path = tmp_path / "array.npy"
    np.save(path, np.arange(6))
    whole = path.read_bytes()
    told = []
    for place in range(10, 80):
        for byte in b"(\n'9 ":
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                read_array(path, mmap=mmap)
            except UserError as error:
                told.append(str(error))
    assert len(told) > 200
    assert all(re.fullmatch(rf"{re.escape(str(path))} is damaged: .+", line) for line in told)


def test_a_sealed_object_shows_every_change() -> None:
    sealed = files.sealed({"key": "k", "splits": [1, 2.5, None]})
    assert files.unsealed(sealed) == {"key": "k", "splits": [1, 2.5, None]}
    assert files.unsealed({"key": "of an older file"}) == {"key": "of an older file"}
    for changed in ({"key": "l"}, {"splits": [1, 2.5]}, {"sha256": "0" * 64}, {"more": 1}):
        with pytest.raises(ValueError, match="does not match"):
            files.unsealed(sealed | changed)


@pytest.mark.parametrize(
    "text",
    ['{"a": ' * 200_000, "[" + "9" * 5000 + "]", "\ud800", "\x00", ""],
    ids=["deep", "long", "half", "nul", "empty"],
)
def test_damaged_json_is_one_short_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(UserError) as told:
        files.read_json(path)
    assert str(path) in str(told.value)
    assert len(str(told.value)) < 300 + len(str(path))


def test_a_store_replaces_a_link_and_a_user_follows_it(tmp_path: Path) -> None:
    outside, link = tmp_path / "outside.json", tmp_path / "link.json"
    outside.write_text("1", encoding="utf-8")
    link.symlink_to(outside)
    files.write_json(link, 2)
    assert (files.read_json(outside), link.is_symlink()) == (2, True)
    files.write_json(link, 3, follow=False)
    assert (files.read_json(outside), files.read_json(link), link.is_symlink()) == (2, 3, False)
