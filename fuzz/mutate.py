"""Mutators: sound content in, damaged content out, determined by a generator."""

import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator

NUMBERS = (
    "0", "-1", "1", "2", "+3", "007", "0x10", "1.0", "1.5", "-0.0", "1e5", "1e400", "-1e400", "nan", "NaN", "inf",
    "-Infinity", "2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "1" + "0" * 30, "9" * 400, "9" * 5000, "1_000", "١", "1,000",
)  # fmt: skip
"""Numbers as text that readers may take for others, or that have no room in their types."""

TEXTS = (
    "", " ", "\t", "\r", "\n", "\n\n", "\0", "\x1b[31m", "\x07", "\u202e", "\ufeff", "\ud800", "é", "𝔊", '"', "'", '""',
    ",", ";", "\\", "/", "../../x", "~", "=cmd()", "@SUM(A1)", "-", "null", "true", "[", "]", "{", "}", "[[[[", "<x>",
    "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/hostname'>]>", "&b;", "helper:Pool", "%s%n", "a" * 3000, "C" * 3000,
    "C1" * 200, "(" * 2000, "x" * 100_000,
)  # fmt: skip
"""Texts that mean something to some parser, terminal, spreadsheet or shell."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 1.5, -0.0, 1e300, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 10**400, [], {},
    [None], [[]], {"a": 1}, [1, 2, 3], ["a"], "", "1", "x" * 5000, "\x1b[31m", "\ud800", "../..", "=cmd()", "cpu",
    float("nan"), float("inf"),
)  # fmt: skip
"""Values of JSON, and some that are none."""


def pick(rng: Rng, options: Any) -> Any:
    """One of several."""
    return options[int(rng.integers(len(options)))]


def flip(rng: Rng, content: bytes) -> bytes:
    """A few flipped bits, mostly one."""
    if not content:
        return b"\1"
    changed = bytearray(content)
    for _ in range(int(pick(rng, (1, 1, 1, 2, 8)))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def tear(rng: Rng, content: bytes) -> bytes:
    """Bytes cut off, left out, repeated, zeroed, replaced or put in."""
    size = len(content)
    first, last = sorted(int(place) for place in rng.integers(0, size + 1, 2))
    short = min(last, first + int(rng.integers(1, 9)))
    noise = rng.bytes(int(rng.integers(1, 64)))
    return pick(
        rng,
        (
            content[:first],
            content[:first] + content[last:],
            content[:first] + content[short:],
            content[:last] + content[first:last] + content[last:],
            content[:first] + bytes(last - first) + content[last:],
            content[:first] + noise + content[first:],
            content[:first] + noise + content[first + len(noise) :],
            content + noise,
            b"",
        ),
    )


def raw(rng: Rng, content: bytes) -> bytes:
    """Damage that knows nothing about the format."""
    return flip(rng, content) if rng.random() < 0.6 else tear(rng, content)


TOKEN = re.compile(rb"[-+]?\d+(?:\.\d+)?|[A-Za-z_]+|[^\sA-Za-z0-9_]")


def text(rng: Rng, content: bytes) -> bytes:
    """Lines and tokens replaced, left out, doubled or put in; sometimes other line ends or another encoding."""
    for _ in range(int(pick(rng, (1, 1, 2, 4)))):
        content = _text_once(rng, content)
    return content


def _text_once(rng: Rng, content: bytes) -> bytes:
    choice = rng.random()
    if choice < 0.5 and (tokens := list(TOKEN.finditer(content))):
        token = pick(rng, tokens)
        word = pick(rng, NUMBERS if rng.random() < 0.5 else TEXTS).encode("utf-8", "surrogatepass")
        return content[: token.start()] + word + content[token.end() :]
    lines = content.split(b"\n")
    place, other = (int(rng.integers(len(lines))) for _ in range(2))
    if choice < 0.9:
        changed = pick(
            rng,
            (
                lines[:place] + lines[place + 1 :],
                [*lines[:place], lines[other], *lines[place:]],
                [*lines[:place], pick(rng, TEXTS).encode("utf-8", "surrogatepass"), *lines[place:]],
                [*lines[:place], lines[place] * 3, *lines[place + 1 :]],
                lines[:place],
                lines[::-1],
            ),
        )
        return b"\n".join(changed)
    return pick(
        rng,
        (
            content.replace(b"\n", b"\r\n"),
            content.replace(b"\n", b"\r"),
            content.decode("utf-8", "replace").encode("utf-16"),
            content.decode("utf-8", "replace").encode("cp1252", "replace") + b"\xe9\n",
            b"\xef\xbb\xbf" + content,
            content.rstrip(b"\n"),
            raw(rng, content),
        ),
    )


def value(rng: Rng, plain: Any) -> Any:
    """Plain values with one of them, somewhere inside, replaced, renamed, left out or nested."""
    places = list(_places(plain, ()))
    path = pick(rng, places)
    if not path:
        return pick(rng, VALUES)
    inner = plain
    for step in path[:-1]:
        inner = inner[step]
    last, choice = path[-1], rng.random()
    if choice < 0.6:
        inner[last] = pick(rng, VALUES)
    elif choice < 0.7:
        del inner[last]
    elif choice < 0.8 and isinstance(inner, dict):
        inner[pick(rng, (f"{last}x", last.upper(), "", "format", "sha256"))] = inner.pop(last)
    elif choice < 0.9:
        inner[last] = [inner[last]]
    elif isinstance(inner, list):
        inner.extend(inner[:3] or [0])
    else:
        inner[pick(rng, ("new", "sha256", "__class__"))] = pick(rng, VALUES)
    return plain


def _places(plain: Any, path: tuple[Any, ...]) -> Any:
    yield path
    if len(path) < 6:
        inner = list(plain.items()) if isinstance(plain, dict) else []
        inner = list(enumerate(plain)) if isinstance(plain, list) else inner
        for name, part in inner[:40]:
            yield from _places(part, (*path, name))


def json_text(rng: Rng, content: bytes) -> bytes:
    """A JSON file with other values, or damaged as text."""
    choice = rng.random()
    if choice < 0.25:
        return flip(rng, content)
    if choice < 0.4:
        return text(rng, content)
    if choice < 0.45:
        return pick(rng, (b"[" * 100_000, b'{"a":' * 100_000, b"[" + b"9" * 5000 + b"]", b"null", b"[]", b"{}", b'"a"'))
    changed = json.loads(content)
    for _ in range(int(pick(rng, (1, 1, 3)))):
        changed = value(rng, changed)
    return json.dumps(changed).encode()


def archive(inside: Callable[[Rng, bytes], bytes]) -> Callable[[Rng, bytes], bytes]:
    """Zip archives: members changed by `inside`, left out, doubled, renamed or enormous, or the whole damaged."""

    def change(rng: Rng, content: bytes) -> bytes:
        if rng.random() < 0.2:
            return raw(rng, content)
        with zipfile.ZipFile(io.BytesIO(content)) as held:
            members = [(info.filename, held.read(info)) for info in held.infolist()]
        place, choice = int(rng.integers(len(members))), rng.random()
        name, inner = members[place]
        if choice < 0.8:
            members[place] = name, inside(rng, inner)
        elif choice < 0.85:
            del members[place]
        elif choice < 0.9:
            members.append((name, inside(rng, inner)))
        elif choice < 0.97:
            other = pick(
                rng, ("", "/", f"../{name}", name.upper(), f"x/{name}", "a" * 300, "\x1b[31m_A.txt", "é", name)
            )
            members[place] = other, inner
        else:
            members[place] = name, pick(rng, (b"1\n", b"1, 1\n", b"\n", b"1")) * int(pick(rng, (10**5, 10**6, 2**23)))
        return packed(members)

    return change


def packed(members: list[tuple[str, bytes]]) -> bytes:
    """A zip archive."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for name, inner in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, inner)
    return held.getvalue()


def array(rng: Rng, content: bytes) -> bytes:
    """An .npy file: its header edited, its values replaced, or damaged as bytes."""
    choice = rng.random()
    if choice < 0.4:
        return raw(rng, content)
    size = struct.unpack("<H", content[8:10])[0]
    header, body = content[10 : 10 + size], content[10 + size :]
    if choice < 0.6:
        header = _same_length(text(rng, header.rstrip()), size)
        return content[:10] + header + body
    values = np.frombuffer(body[: len(body) // 4 * 4], np.int32).copy()
    if len(values):
        place = int(rng.integers(len(values)))
        values[place] = pick(rng, (0, 1, -1, 2**31 - 1, -(2**31), 1000))
    return content[: 10 + size] + values.tobytes() + body[len(body) // 4 * 4 :]


def _same_length(header: bytes, size: int) -> bytes:
    return header[:size].ljust(size)


def tensors(rng: Rng, content: bytes) -> bytes:
    """A safetensors file: its header edited as JSON, or damaged as bytes."""
    if rng.random() < 0.5:
        return raw(rng, content)
    size = struct.unpack("<Q", content[:8])[0]
    header = json_text(rng, content[8 : 8 + size])
    claimed = int(pick(rng, (len(header), len(header), len(header), 2**40, 0)))
    return struct.pack("<Q", claimed) + header + content[8 + size :]
