# SPDX-License-Identifier: Apache-2.0
"""What a journal of the agent holds (runtime/sys/journal_form.h), whoever is writing it."""
import pathlib
import struct

HEADER = 16
ENTRY = 19  # mark, state, sizes of key and value, checksum


def values(path):
    """key -> value, as bytes, of those that are not flagged; {}: there is none."""
    return {key: value for key, (state, value) in entries(path).items() if state == b"P"}


def entries(path):
    """key -> state, value"""
    path = pathlib.Path(path)
    data = path.read_bytes() if path.exists() else b""
    mark, at, found = data[4:12], HEADER, {}
    while at + ENTRY <= len(data):
        state, key_size, value_size = struct.unpack_from("<xxxxxxxxcHI", data, at)
        if data[at:at + 8] != mark:
            raise ValueError(f"{path}: no entry at {at}")
        key = data[at + ENTRY:at + ENTRY + key_size].decode()
        at += ENTRY + key_size + value_size
        if at > len(data):
            break  # is being written
        found.pop(key, None)
        if state != b"R":
            found[key] = state, data[at - value_size:at]
    return found
