"""Changes that get past the first check of a reader: of JSON values, and of what containers hold.

A fuzzer that flips bits only ever meets the checksum. These take a file apart, change a part and seal it again.
"""

import copy
import io
import json
import struct
import zipfile

import numpy as np

ODD = [
    None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, -(2**63), 10**400, 0.5, 1e-320, 1e308, -1e308, 1e39, float("nan"),
    float("inf"), "", "0", "1", "a", "\0", "\ud800", "é", "x" * 600, "../x", "/", "{}", "<U9", "O", "V8", "F32", "I64",
    "F64", "BF16", [], {}, [[]], [0], [1, 2], ["a", "b"], {"a": 1}, [None], [{}], "LPPlusPlus", "ZeroShot",
    "TipAdapter", "embedded", "https://example.org/v1", {"solver": "lbfgs"}, {"foreign": "os.path"},
]  # fmt: skip
"""Values that a reader does not expect where it finds them."""


def deep(rng):
    """A value nested deeper than Python's stack, now and then; else an odd one."""
    if rng.random() > 0.01:
        return copy.deepcopy(rng.choice(ODD))  # Else a later change would change the list of odd values itself.
    value = []
    for _ in range(rng.choice((50, 900))):
        value = [value]
    return value


def _places(value, found, limit=4000):
    """Every (container, key) in a JSON value."""
    stack = [value]
    while stack and len(found) < limit:
        part = stack.pop()
        keys = part.keys() if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        for key in keys:
            found.append((part, key))
            stack.append(part[key])
    return found


def change_json(value, rng):
    """Change one to three places of a JSON value, in place; returns it, or another value."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(value, [])
        if not places or rng.random() < 0.01:
            value = deep(rng)
            continue
        part, key = rng.choice(places)
        other, its = rng.choice(places)
        action = rng.randrange(7)
        if action == 0:
            del part[key]
        elif action == 1 and isinstance(part, dict):
            part[str(rng.choice(ODD))] = part.pop(key)
        elif action == 1:
            part.append(part[key])
        elif action == 2 and its in (other if isinstance(other, dict) else range(len(other))):
            part[key] = json.loads(json.dumps(other[its]))  # A copy, or it could hold itself.
        elif action == 3 and isinstance(part[key], int | float) and not isinstance(part[key], bool):
            part[key] = rng.choice((-part[key], part[key] + 1, part[key] - 1, str(part[key]), [part[key]]))
        elif action == 4 and isinstance(part[key], str):
            at = rng.randrange(len(part[key]) + 1)
            part[key] = part[key][:at] + str(rng.choice(ODD)) + part[key][at:]
        else:
            part[key] = deep(rng)
    return value


def change_text(text, rng):
    """Some lines of a text repeated, removed, exchanged, or with an odd value inside."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        action = rng.randrange(5)
        if action == 0 and len(lines) > 1:
            del lines[at]
        elif action == 1:
            lines.insert(other, lines[at])
        elif action == 2:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            words = lines[at].split(" ")
            word = rng.randrange(len(words))
            odd = deep(rng)
            words[word] = rng.choice((json.dumps(odd), str(odd), words[word] + str(odd)))
            lines[at] = " ".join(words)
    return "\n".join(lines)


def change_bytes(data, rng):
    """Bits flipped, bytes replaced, removed, repeated or put in; any file has these."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at, length = rng.randrange(len(data) + 1), rng.choice((1, 1, 2, 4, 8, 32))
        action = rng.randrange(6)
        if action == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            data[at : at + length] = rng.randbytes(length)
        elif action == 2:
            del data[at : at + length]
        elif action == 3:
            data[at:at] = data[at : at + length] * rng.choice((1, 2, 20))
        elif action == 4:
            data[at:at] = str(rng.choice(ODD)).encode(errors="surrogatepass")
        else:
            data[at : at + length] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b'"', b",", b"\n", b"[")) * length
    return bytes(data)


def split_safetensors(content):
    """Header and data of a safetensors file."""
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def join_safetensors(header, data):
    """The file again; the data begin at a multiple of eight."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def change_safetensors(content, key, rng):
    """A safetensors file with other metadata under `key`, other entries, or other numbers."""
    header, data = split_safetensors(content)
    action = rng.randrange(8)
    if action == 0:
        data = change_bytes(data, rng)
    elif action == 1 and isinstance(header, dict):
        header = change_json(header, rng)
    elif action == 2 and data:  # One number of an array.
        at = rng.randrange(0, len(data), 4)
        odd = rng.choice((np.nan, np.inf, 1e38, -1e38, 0.0, 1e-45, 3e38))
        data = data[:at] + np.float32(odd).tobytes() + data[at + 4 :]
    else:
        inner = json.loads(header["__metadata__"][key])
        header["__metadata__"][key] = json.dumps(change_json(inner, rng))
    return join_safetensors(header, data)


def change_npz(content, rng):
    """An archive of arrays with another member, or with another header or content in one."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    names = list(members)
    name = rng.choice(names)
    action = rng.randrange(6)
    if action == 0:
        members[name] = change_bytes(members[name], rng)
    elif action == 1:
        members[rng.choice(("embeddings.npy", "labels.npy", "text.npy", "classes.npy", "x"))] = members[name]
    elif action == 2:
        del members[name]
    else:
        members[name] = change_npy(members[name], rng)
    made = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, value in members.items():
            archive.writestr(name, value)
    return made.getvalue()


def change_npy(content, rng):
    """An array with another dtype, shape or order in its header, or another number."""
    start = 10 + int.from_bytes(content[8:10], "little")
    header, data = content[10:start].decode("latin-1").rstrip(), content[start:]
    action = rng.randrange(4)
    if action == 0:
        dtype = rng.choice(
            ("<f4", "<f8", "<f2", ">f4", "<i8", "|O", "<U3", "<U500", "|S4", "<c8", "|b1", "|V4", "<M8", "")
        )
        at = header.find("'descr': ") + 9
        header = header[:at] + repr(dtype) + header[header.find(",", at) :]
    elif action == 1:
        at = header.find("'shape': ") + 9
        shape = tuple(rng.choice((0, 1, 2, 3, 4, 12, 10**6, 2**40, -1)) for _ in range(rng.randrange(4)))
        header = header[:at] + repr(shape) + header[header.find(")", at) + 1 :]
    elif action == 2:
        at = rng.randrange(len(header) + 1)
        header = header[:at] + str(rng.choice(ODD))[:100] + header[at:]
    elif data:
        at = rng.randrange(len(data))
        data = data[:at] + np.float32(rng.choice((np.nan, 1e38, -1.0))).tobytes() + data[at + 4 :]
    text = header.encode("utf-8", "replace")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return content[:8] + struct.pack("<H", len(text) & 0xFFFF) + text + data
