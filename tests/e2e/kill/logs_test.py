#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The counting of the kill test itself: what it must find in a log, and that it reads no file twice."""
import gzip
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import logs
from suite import check, equal, run_tests

STAMP = "2026-11-21T08:00:00.123456789Z"


def record(text, tag="F"):
    return f"{STAMP} stdout {tag} {text}\n"


def written(numbers):
    return "".join(record(f"n {n} {logs.FILLER.decode()}") for n in numbers)


class Folder:
    def __init__(self):
        self.holder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.holder.name)

    def put(self, name, text):
        data = text.encode()
        (self.path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def counted(folder, lines, kind="writer"):
    """(lost, doubled, what is no line) when the writer says it wrote `lines`."""
    stream = logs.Stream("writer-0", kind)
    stream.catch_up(folder.path, False)
    stream.catch_up(folder.path, True)
    stream.end(lines)
    return stream.lost, stream.doubled, len(stream.examples)


def in_files(*parts):
    folder = Folder()
    for i, part in enumerate(parts[:-1]):
        folder.put(f"0.log.20261121-08000{i}" + (".gz" if i % 2 == 0 else ""), part)
    folder.put("0.log", parts[-1])
    return folder


def test_all_lines_from_the_first_on(_):
    equal(counted(in_files(written(range(1, 5)), written(range(5, 9)), written(range(9, 11))), 10),
          (0, 0, 0), "complete")
    equal(counted(in_files(written(range(3, 5)), written(range(5, 11))), 10), (2, 0, 0), "the first are missing")
    equal(counted(in_files(written(range(1, 5)), written(range(6, 11))), 10), (1, 0, 0), "between files")
    equal(counted(in_files(written([1, 2, 4]), written([5])), 5), (1, 0, 0), "within a file")
    equal(counted(in_files(written(range(1, 9))), 10), (2, 0, 0), "the last are missing")
    equal(counted(in_files(written([1, 2, 3]), written([3, 4])), 4), (0, 1, 0), "one twice")
    equal(counted(in_files(written([1, 3, 2, 4])), 4), (1, 1, 0), "in another order")
    equal(counted(in_files(written([1, 2, 3])), 2)[2], 1, "one that nobody wrote")


def test_lines_in_pieces(_):
    pieces = written([1]) + record("n 2 0123456789 01234", "P") + record("56789 0123456789 0123456789") + written([3])
    equal(counted(in_files(pieces), 3), (0, 0, 0), "joined")
    half = written([1, 2])[:-1] + "\n" + record("n 3 0123")
    equal(counted(in_files(half), 3), (1, 0, 1), "a broken line is lost")
    equal(counted(in_files(record("n 1 middle end") + record("n 2 middle") + record("n 3 middle end")), 3, "partial"),
          (1, 0, 1), "a part is missing")
    try:
        counted(in_files(written([1])[:-1]), 1)
        check(False, "a record without its end passed")
    except ValueError:
        pass


def test_the_newest_rotated_file_waits(_):
    folder = in_files(written([1]), written([2]), written([3]))
    stream = logs.Stream("writer-0", "writer")
    stream.catch_up(folder.path, False)
    equal(stream.next, 2, "the oldest only")
    # It is packed meanwhile, and another one comes.
    folder.put("0.log.20261121-080001.gz", written([2]))
    (folder.path / "0.log.20261121-080001").unlink()
    (folder.path / "0.log").rename(folder.path / "0.log.20261121-080002")
    folder.put("0.log", written([4]))
    stream.catch_up(folder.path, False)
    equal((stream.next, stream.lost, stream.doubled), (3, 0, 0), "the second, once")


def main():
    return 1 if run_tests(None, [(n, t) for n, t in globals().items() if n.startswith("test_")]) else 0


if __name__ == "__main__":
    sys.exit(main())
