"""Files are replaced whole; what is no plain file is not replaced."""

import os
import threading
from pathlib import Path

from cgipool.files import writable, write_atomically


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
