# SPDX-License-Identifier: Apache-2.0
"""The pause points of the source, and a sweep that kills a process at each of them.

A point is armed by a file (include/holdfast/sys/pause_point.h); who arrives there stops, and is
killed. The names come from the source, so a new point is covered, or reported, by itself. The build
writes them down beside the programs (`points.py FILE`), for a machine without the source."""
import os
import pathlib
import random
import re
import signal
import sys
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from arrivals import Arrivals  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
CALL = re.compile(r'HOLDFAST_PAUSE_POINT\("([^"]+)"\)')
ROLES = ("agent", "hold", "launch", "log")

# Beginnings of the names of points that nothing here can reach, and why. One that is reached all
# the same fails the sweep.
EXCEPTIONS = {
    "announce.": "off by default; tests/system/netproxy/announce and agent/lease kill at each",
    "agent.csi.": "storage plugins need an API server; tests/kube/storage.py kills while one hangs, tests/system/agent/csi at each",
    "agent.images.": "no registry there; tests/unit/agent/images looks at what each leaves",
    "agent.pod.pulled": "the same",
    "agent.pod.claim_grows": "claims of an API server only; cut there, the claim says still that it grows, and the next agent goes on",
    "agent.volume.content_": "objects of an API server only; tests/system/agent/volume kills at each",
    "agent.volume.persistent_placed": "claims of an API server only; tests/unit/agent/volume looks at what it leaves",
    "agent.volume.placed_saved": "the same",
    "agent.volume.local_": "the same",
    "agent.volume.nfs_": "no NFS server there; tests/vm/scenarios/nfs.sh kills the agent while a mount is under way",
    "agent.volume.device_": "the same; tests/system/agent/csi kills at each",
    "cni.": "podNetwork: built-in there; tests/system/agent/cni kills at each",
    "cluster.": "only with an API server, and there is none here",
    "gather.volume_labelled_": "no SELinux there; RelabelTest of tests/system/runtime/launch kills there",
    "identity.": "only with an API server; tests/kube/identity.py kills at each",
    "proxy.records.replaced": "after a thousand dead lines; tests/system/agent/proxy kills there",
    "report.": "pods of an API server only; tests/unit/agent/pod/execute and agent/report look at each",
    "agent.pod.volumes_released": "the same",
    "agent.volume.hugetlbfs_mounted": "no huge pages are set aside there; agent.volume.tmpfs_mounted is the same step",
    "image.uses-recorded": "each five minutes; tests/system/runtime/image/store kills there",
    "image.files-linked": "no artifacts there; tests/system/runtime/image/pull kills there",
    "image.partial-": "no registry there; tests/system/runtime/image kills at each",
    "images.archive-": "no imageDir there; tests/system/agent/image_archives kills at each",
    "image.pull-": "no registry there; tests/system/runtime/image/pull kills at each",
    "mirror.posted": "only with an API server; tests/unit/agent/report looks at what it leaves",
    "ipvs.": "no kernel has IPVS everywhere; tests/system/netproxy/services/ipvs kills at each",
}


# Passed only where sandboxes lie ready.
OF_THE_POOL = ("containers.member-", "launcher.member-", "keeper.renamed", "podnet.ready.")


def excepted(name):
    return name.startswith(tuple(EXCEPTIONS))


# Passed only by the successor of who died at another one, so it stays armed after that kill.
FOLLOWERS = {"log.written": "log.replayed"}


def names_of(bin_dir):
    """Those that came with the programs, otherwise those of the source."""
    listed = pathlib.Path(bin_dir) / "pause-points"
    names = listed.read_text().split() if listed.exists() else names_in_source()
    if not names:
        raise ValueError(f"no pause points: neither {listed} nor the source is there")
    return names


def names_in_source():
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
    for the death of any one process must hold. With a `pairs` (Pairs) another process dies with it.
    Until `born` is set nobody waits for that: the points of a first start come only once, and no pod
    is there yet."""

    def __init__(self, machine, directory, names, recovered=None, pairs=None):
        super().__init__(daemon=True)
        self.pairs = pairs
        self.machine = machine
        self.directory = directory
        self.names = names
        self.recovered = recovered
        self.killed = {}  # name -> role
        self.deaths = 0
        self.error = None
        self.born = False
        self.ending = threading.Event()
        (directory / "armed").mkdir(parents=True)
        self.arrivals = Arrivals(directory)
        for name in names:
            (directory / "armed" / name).touch()

    @staticmethod
    def environment(directory):
        return {"HOLDFAST_PAUSE_AT": "@", "HOLDFAST_PAUSE_DIR": str(directory)}

    def remaining(self):
        return [name for name in self.names if name not in self.killed]

    def owners_died(self):
        return self.pairs.owners_died() if self.pairs else 0

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
                    self.machine.ensure_agent()  # who asks one that is not there waits for seconds
                self.arrivals.wait(0.05)
        except Exception as error:  # raised by finish(), on the thread that waits, which may wait in vain until then
            traceback.print_exc()
            self.error = error
            self.ending.set()
        finally:
            self.arrivals.close()

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
            role = self.machine.role_of(int(pid))  # None: it was killed for another reason, and had arrived there
            first = role is not None and (file is files[0] or not self.born) and not self.ending.is_set()
            others = []
            if first:
                self.killed[name] = role
                if self.pairs:
                    others = self.machine.pids_of(self.pairs.choose(name, self.killed[name]))
                file.unlink()
                if FOLLOWERS.get(name) in self.remaining():
                    self.move(FOLLOWERS[name], "resting", "armed")
            else:
                file.rename(self.directory / "armed" / name)
            for one in (int(pid), *others):
                try:
                    os.kill(one, signal.SIGKILL if first else signal.SIGCONT)
                    self.deaths += first
                except ProcessLookupError:
                    pass  # killed meanwhile
                if first and one == self.machine.agent.pid:
                    self.machine.agent.wait()

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
            if self.recovered:
                self.machine.ensure_agent()
            if any(p.is_file() for p in self.directory.iterdir()):
                return  # a follower
            if self.machine.keeper_answers() and (not self.recovered or self.recovered()):
                return
            self.arrivals.wait(0.005)


class Pairs:
    """Who dies together with the process that arrived at a point: chosen by `seed` and the point."""

    def __init__(self, seed):
        self.seed = seed
        self.chosen = {}  # name -> (role that arrived, role that dies with it)

    def sample(self, names, size):
        names = sorted(name for name in names if not excepted(name))
        return sorted(random.Random(self.seed).sample(names, min(size, len(names))))

    def choose(self, name, role):
        other = random.Random(f"{self.seed} {name}").choice([r for r in ROLES if r != role])
        self.chosen[name] = (role, other)
        return other

    def owners_died(self):
        """How often both owners of something died, which no short-lived container survives unharmed:
        its exit code is known to holder or launcher, its last words are with holder or logger."""
        return sum("hold" in pair and pair != {"hold", "agent"} for pair in map(set, self.chosen.values()))


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text("".join(f"{name}\n" for name in names_in_source()))
