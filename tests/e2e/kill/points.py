# SPDX-License-Identifier: Apache-2.0
"""The pause points of the source, and a sweep that kills a process at each of them.

A point is armed by a file (include/holdfast/sys/pause_point.h); who arrives there stops, and is
killed. The names come from the source, so a new point is covered, or reported, by itself."""
import os
import pathlib
import re
import signal
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
CALL = re.compile(r'HOLDFAST_PAUSE_POINT\("([^"]+)"\)')
ROLES = ("agent", "hold", "launch", "log")

# Beginnings of the names of points that nothing here can reach, and why. One that is reached all
# the same fails the sweep.
EXCEPTIONS = {
    "announce.": "off by default; tests/system/netproxy/announce and agent/lease kill at each",
    "proxy.records.replaced": "after a thousand dead lines; tests/system/agent/proxy kills there",
    "ipvs.": "no kernel has IPVS everywhere; tests/system/netproxy/services/ipvs kills at each",
}


def excepted(name):
    return name.startswith(tuple(EXCEPTIONS))


# Passed only by the successor of who died at another one, so it stays armed after that kill.
FOLLOWERS = {"log.written": "log.replayed"}


def names_in_source():
    """Empty where the programs came without their source (the VM tier's guests)."""
    found = []
    for folder in ("agent", "runtime", "netproxy"):
        for file in (ROOT / folder).rglob("*.cc"):
            found += CALL.findall(file.read_text())
    doubled = {name for name in found if found.count(name) > 1}
    if doubled:
        raise ValueError(f"pause points with the same name: {sorted(doubled)}")
    return sorted(found)


class Sweep(threading.Thread):
    """Arms all of `names`; kills the first process that arrives at each, one at a time: after a kill
    nothing is armed until the keeper answers again and `recovered()` is true. So what is promised
    for the death of any one process must hold. Until `born` is set nobody waits for that: the points
    of a first start come only once, and no pod is there yet."""

    def __init__(self, machine, directory, names, recovered=lambda: True):
        super().__init__(daemon=True)
        self.machine = machine
        self.directory = directory
        self.names = names
        self.recovered = recovered
        self.killed = {}  # name -> role
        self.error = None
        self.born = False
        self.ending = threading.Event()
        (directory / "armed").mkdir(parents=True)
        for name in names:
            (directory / "armed" / name).touch()

    @staticmethod
    def environment(directory):
        return {"HOLDFAST_PAUSE_AT": "@", "HOLDFAST_PAUSE_DIR": str(directory)}

    def remaining(self):
        return [name for name in self.names if name not in self.killed]

    def finish(self):
        """Disarms what is left; whoever stopped in the last moment goes on."""
        self.ending.set()
        self.join()
        while list((self.directory / "armed").iterdir()):
            for file in (self.directory / "armed").iterdir():
                file.unlink(missing_ok=True)
            self.kill_stopped()
        (self.directory / "armed").rmdir()
        if self.error:
            raise self.error

    def run(self):
        try:
            while not self.ending.is_set():
                if any(p.is_file() for p in self.directory.iterdir()):
                    if self.born:
                        self.kill_and_settle()
                    else:
                        self.kill_stopped()
                time.sleep(0.001)
        except Exception as error:  # told by finish(), on the thread that waits
            self.error = error
            self.ending.set()

    def kill_and_settle(self):
        (self.directory / "armed").rename(self.directory / "resting")
        (self.directory / "armed").mkdir()
        self.kill_stopped()
        self.settle()
        for name in os.listdir(self.directory / "armed"):
            self.move(name, "armed", "resting")
        (self.directory / "armed").rmdir()
        (self.directory / "resting").rename(self.directory / "armed")

    def kill_stopped(self):
        """Kills the first of those that stopped; others in the same moment go on, and their points
        stay to be visited."""
        files = sorted((p for p in self.directory.iterdir() if p.is_file()),
                       key=lambda p: p.stat().st_ctime_ns)
        for file in files:
            name, pid = file.name.rsplit(".", 1)
            self.wait_stopped(int(pid))
            first = (file is files[0] or not self.born) and not self.ending.is_set()
            if first:
                self.killed[name] = self.machine.role_of(int(pid))
                file.unlink()
                if FOLLOWERS.get(name) in self.remaining():
                    self.move(FOLLOWERS[name], "resting", "armed")
            else:
                file.rename(self.directory / "armed" / name)
            try:
                os.kill(int(pid), signal.SIGKILL if first else signal.SIGCONT)
            except ProcessLookupError:
                pass  # it was killed for another reason, and had arrived there

    def move(self, name, here, there):
        try:
            (self.directory / here / name).rename(self.directory / there / name)
        except FileNotFoundError:
            pass  # somebody arrived there in this moment

    def again(self):
        """Arms those a second time whose followers were missed."""
        for leader, follower in FOLLOWERS.items():
            if leader in self.killed and follower not in self.killed:
                try:
                    (self.directory / "armed" / leader).touch()
                except FileNotFoundError:
                    pass  # at rest just now; the next call arms it

    @staticmethod
    def wait_stopped(pid):
        """The file appears just before the process stops itself."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                return
            if stat.rpartition(")")[2].split()[0] in "TZX":
                return
            time.sleep(0.001)

    def settle(self):
        deadline = time.monotonic() + 60 * self.machine.patience
        while time.monotonic() < deadline and not self.ending.is_set():
            self.machine.ensure_agent()
            if any(p.is_file() for p in self.directory.iterdir()):
                return  # a follower
            if self.machine.keeper_answers() and self.recovered():
                return
            time.sleep(0.005)
