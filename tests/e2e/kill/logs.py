# SPDX-License-Identifier: Apache-2.0
"""CRI log files: read in order, rotated and compressed ones too, and followed from the first line on."""
import gzip
import re
import threading
import time

CRI = re.compile(rb"^\S+ (stdout|stderr) ([PF]) (.*)$")
FILLER = rb"0123456789 0123456789 0123456789 0123456789"
WHOLE_RECORD = re.compile(rb"^\S{30} stdout F n (\d+) " + FILLER + rb"$", re.MULTILINE)
LINES = {"writer": re.compile(rb"n (\d+) " + FILLER), "partial": re.compile(rb"n (\d+) middle end")}
# So far may a writer be ahead of its reader, for each MiB of a log's size. Of the files that are kept (4 beside the
# current one, 11,000 lines for each MiB) the newest is left until it is certain that it is finished.
WINDOW_OF_MEBIBYTE = 33_000


def order(stem):
    parts = stem.split(".")
    return (int(parts[0]), parts[2] if len(parts) > 2 else "99999999-999999",
            int(parts[3]) if len(parts) > 3 else 0)


def files_in_order(folder):
    """<n>.log.<timestamp>[.<k>][.gz], oldest first; <n>.log is the newest. A file that is there
    compressed and plain (its logger died between the two) counts once."""
    stems = {}
    for path in folder.iterdir():
        if not path.name.endswith(".tmp"):
            stem = path.name.removesuffix(".gz")
            if stem not in stems or path.suffix == ".gz":
                stems[stem] = path
    return [stems[stem] for stem in sorted(stems, key=order)]


def content(path):
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        return file.read()


class Joiner:
    """Joins partial records; a line may go on in the next file."""

    def __init__(self):
        self.pending = b""

    def lines(self, path, data):
        if data and not data.endswith(b"\n"):
            raise ValueError(f"{path}: ends in the middle of a record: {data[-120:]!r}")
        for number, record in enumerate(data.split(b"\n")[:-1], 1):
            match = CRI.match(record)
            if not match:
                raise ValueError(f"{path}:{number}: no CRI record: {record[:120]!r}")
            self.pending += match.group(3)
            if match.group(2) == b"F":
                yield self.pending
                self.pending = b""


def payload_lines(pod_log_dir, pod_uid_dir, container="main"):
    """The container's lines in order: partial records joined, oldest file first."""
    joiner = Joiner()
    for path in files_in_order(pod_log_dir / pod_uid_dir / container):
        yield from joiner.lines(path, content(path))


class Stream:
    """All lines of one writer, which counts from 1 on. Each file is read once, when it is finished."""

    def __init__(self, name, kind):
        self.name = name
        self.pattern = LINES[kind]
        self.quick = kind == "writer"
        self.joiner = Joiner()
        self.read = None  # the place in the order of the last file that was read
        self.next = 1
        self.lost = self.doubled = 0
        self.examples = []  # of what is no line of this writer

    def catch_up(self, folder, finished):
        """Reads what is new; the current file and the newest rotated one only when the writer has
        `finished`: a logger that died may still be completing them."""
        files = files_in_order(folder)
        for path in files if finished else files[:-2]:
            place = order(path.name.removesuffix(".gz"))
            if self.read is not None and place <= self.read:
                continue
            try:
                data = content(path)
            except FileNotFoundError:
                return  # compressed in this moment; read as such the next time
            self.take(path, data)
            self.read = place

    def take(self, path, data):
        if self.quick and not self.joiner.pending and data.endswith(b"\n"):
            numbers = list(map(int, WHOLE_RECORD.findall(data)))
            whole = len(numbers) == data.count(b"\n")
            if whole and numbers == list(range(self.next, self.next + len(numbers))):
                self.next += len(numbers)
                return
        for line in self.joiner.lines(path, data):
            self.account(line)

    def account(self, line):
        match = self.pattern.fullmatch(line)
        if not match:  # what it was to be is missing
            self.examples.append(line[:120])
            return
        number = int(match.group(1))
        if number < self.next:
            self.doubled += 1
            return
        self.lost += number - self.next
        self.next = number + 1

    def end(self, written):
        """`written`: how many lines the writer says it wrote."""
        self.lost += max(0, written - (self.next - 1))
        if self.next - 1 > written:
            self.examples.append(b"lines after the last one that was written")


class Follower(threading.Thread):
    """Follows the logs of the writers of `plan` while they write, and lets them write on only so far
    that nothing is rotated away unread, and no faster than `pace` lines a second where one is given
    (`go`/NAME.limit, pods.WRITER). `log_size`: MiB after which a log is rotated."""

    def __init__(self, log_dir, go, plan, log_size, pace=None):
        super().__init__(daemon=True)
        self.log_dir = log_dir
        self.go = go
        self.window = WINDOW_OF_MEBIBYTE * log_size
        self.pace = pace
        self.began = time.monotonic()
        self.limits = {}
        self.streams = [Stream(name, kind) for name, (kind, _) in plan.items() if kind in LINES]
        self.error = None
        self.ending = threading.Event()
        for stream in self.streams:
            self.allow_more(stream)

    def run(self):
        try:
            while not self.ending.is_set():
                for stream in self.streams:
                    self.catch_up(stream, False)
                    self.allow_more(stream)
                self.ending.wait(0.5 if self.pace else 0.05)
        except Exception as error:  # told by finish(), on the thread that waits
            self.error = error

    def catch_up(self, stream, finished):
        folders = list(self.log_dir.glob(f"default_{stream.name}-*/main"))
        if len(folders) > 1:
            raise ValueError(f"{stream.name} has logs of several pods: {folders}")
        for folder in folders:
            stream.catch_up(folder, finished)

    def allow_more(self, stream):
        limit = stream.next - 1 + self.window
        if self.pace:
            limit = min(limit, int(self.pace * (1 + time.monotonic() - self.began)))
        if limit != self.limits.get(stream.name):
            self.allow(stream.name, limit)

    def allow(self, name, limit):
        self.limits[name] = limit
        new = self.go / f".{name}.new"
        new.write_text(f"{limit}\n")
        new.rename(self.go / f"{name}.limit")

    def stop_writers(self):
        """Returns at once; the writers write up to their limit, then down how much that was."""
        self.ending.set()
        self.join()
        if self.error:
            raise self.error
        for stream in self.streams:
            self.allow(stream.name, "stop")

    def written(self):
        """name -> lines written, of those who have said so."""
        counts = {}
        for stream in self.streams:
            file = self.go / f"{stream.name}.count"
            if file.exists() and file.read_text().endswith("\n"):
                counts[stream.name] = int(file.read_text())
        return counts

    def finish(self):
        """When the logs are complete: reads the rest."""
        for stream in self.streams:
            self.catch_up(stream, True)
            stream.end(self.written()[stream.name])
