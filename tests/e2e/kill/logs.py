# SPDX-License-Identifier: Apache-2.0
"""Reads CRI log files, rotated and compressed ones too, and counts lines lost or doubled."""
import gzip
import re

CRI = re.compile(rb"^\S+ (stdout|stderr) ([PF]) (.*)$")


def files_in_order(folder):
    """<n>.log.<timestamp>[.<k>][.gz], oldest first; <n>.log is the newest. A file that is there
    compressed and plain (its logger died between the two) counts once."""
    stems = {}
    for path in folder.iterdir():
        if not path.name.endswith(".tmp"):
            stem = path.name.removesuffix(".gz")
            if stem not in stems or path.suffix == ".gz":
                stems[stem] = path
    def order(stem):
        parts = stem.split(".")
        return (int(parts[0]), parts[2] if len(parts) > 2 else "99999999-999999",
                int(parts[3]) if len(parts) > 3 else 0)
    return [stems[stem] for stem in sorted(stems, key=order)]


def payload_lines(pod_log_dir, pod_uid_dir, container="main"):
    """The container's lines in order: partial records joined, oldest file first."""
    pending = b""
    for path in files_in_order(pod_log_dir / pod_uid_dir / container):
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            for number, line in enumerate(file, 1):
                match = CRI.match(line.rstrip(b"\n")) if line.endswith(b"\n") else None
                if not match:
                    raise ValueError(f"{path}:{number}: no CRI record: {line[:120]!r}")
                pending += match.group(3)
                if match.group(2) == b"F":
                    yield pending
                    pending = b""


def count_writer(lines):
    """(lines, lost, doubled) of a stream 'n 1 …', 'n 2 …'; the oldest files may be rotated away."""
    previous = None
    total = lost = doubled = 0
    for line in lines:
        number = int(line.split()[1])
        total += 1
        if previous is not None:
            if number > previous + 1:
                lost += number - previous - 1
            elif number <= previous:
                doubled += previous - number + 1
        previous = number
    return total, lost, doubled


def count_partial(lines):
    """As count_writer, and every line has all its pieces; a broken one counts as lost. Nothing of
    these is rotated away, so the first is number 1."""
    def checked():
        yield b"n 0"
        for line in lines:
            if re.fullmatch(rb"n \d+ middle end", line):
                yield line
    total, lost, doubled = count_writer(checked())
    return total - 1, lost, doubled
