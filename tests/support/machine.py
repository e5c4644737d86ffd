# SPDX-License-Identifier: Apache-2.0
"""One agent and keeper with roots of their own, in a network and mount namespace of their own."""
import datetime
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import threading
import time


# What an agent raises of the machine's (docs/cgroups.md).
COUNTS = [pathlib.Path("/proc/sys/fs", name) for name in ("file-max", "inotify/max_user_instances", "inotify/max_user_watches",
                                                          "epoll/max_user_watches")]
IPVS = pathlib.Path("/proc/net/ip_vs")
# Factor on the deadlines that only guard against hanging, for an emulated machine.
PATIENCE = int(os.environ.get("HOLDFAST_PATIENCE", "1"))


def has_ipvs():
    subprocess.run(["modprobe", "--quiet", "ip_vs"], check=False)
    return IPVS.exists()


def trees_of(cgroup):
    """The directories of a cgroup, in each hierarchy that has it."""
    root = pathlib.Path("/sys/fs/cgroup")
    return [base / cgroup.strip("/") for base in [root, *root.glob("*")] if (base / cgroup.strip("/")).is_dir()]


def cgroups_in(tree):
    """A cgroup and all below it, parents first. What goes meanwhile is left out; glob() fails then."""
    return [pathlib.Path(folder) for folder, _, _ in os.walk(tree)]


def cgroups_of_pod(tree, uid):
    """Its own and all below it."""
    return [cgroup for cgroup in cgroups_in(tree) if f"pod{uid}" in cgroup.parts]


def pids_in(cgroup):
    try:
        return [int(pid) for pid in (cgroup / "cgroup.procs").read_text().split()]
    except OSError:
        return []  # it has just gone


def remove_cgroups(find, seconds=10):
    """Ends what is in the cgroups that `find` names, and removes them."""
    deadline = time.monotonic() + seconds
    while (trees := find()) and time.monotonic() < deadline:
        for tree in trees:
            folders = cgroups_in(tree)
            for pid in (pid for folder in folders for pid in pids_in(folder)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for folder in reversed(folders):
                try:
                    folder.rmdir()
                except OSError:
                    pass  # its processes are just ending


def usage(pids):
    """(proportional share of memory in MiB, seconds of processor time)"""
    memory = ticks = 0
    for pid in pids:
        try:
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        memory += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
        ticks += int(fields[11]) + int(fields[12])
    return memory / 1024, ticks / os.sysconf("SC_CLK_TCK")


def may_be_unknown(end, kills):
    """How a container ended whose agent and holder died together (docs/keeper.md), where nobody keeps their descriptors
    meanwhile, as systemd does. `kills`: when, and of which role."""
    ended = datetime.datetime.fromisoformat(end["finishedAt"]).timestamp()
    died = {role for at, role in kills if abs(at - ended) < 5}
    return end.get("reason") == "ContainerStatusUnknown" and died >= {"agent", "hold"}


class Machine:
    """`bin_dir`: the programs. `top`: a new folder for all roots. `name`: cgroup, node and interface
    names of this machine derive from it. `patience`: as PATIENCE. `environment`: added to the agent's, whose keeper inherits it.
    `inside`: words before each command, to run it in other namespaces.
    Not started by the constructor. Threads may share it."""

    # What must stay free. Small, since `top` lies on this machine's disk, which may be fuller than a node's
    # should be; None for a machine with a disk of its own: the agent's defaults.
    EVICTION_HARD = {"imagefs.available": "100Mi", "nodefs.available": "100Mi", "memory.available": "100Mi"}

    def __init__(self, bin_dir, top, name="kill", patience=PATIENCE, environment=None, inside=()):
        self.inside = inside
        self.patience = patience
        self.bin = pathlib.Path(bin_dir)
        self.top = pathlib.Path(top)
        self.manifests = self.top / "manifests"
        self.logs = self.top / "log/pods"
        self.run = self.top / "run"
        # The same number may be another process' in another namespace, beside which we run.
        self.cgroup = f"/holdfast-{name}-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}"
        self.node = f"{name}-node"
        self.table = f"holdfast-{name}"
        for folder in (self.manifests, self.logs, self.run, self.top / "root"):
            folder.mkdir(parents=True)
        self.config = self.top / "config.yaml"
        self.config.write_text(json.dumps({
            "apiVersion": "holdfast.dev/v1", "kind": "AgentConfiguration",
            "nodeName": self.node, "rootDir": str(self.top / "root"), "runDir": str(self.run),
            "podLogDir": str(self.logs), "containerLogDir": str(self.top / "log/containers"),
            "manifestDir": str(self.manifests), "cgroupParent": self.cgroup,
            "interfacePrefix": "hk", "tableName": self.table,
            "podCIDRs": ["10.123.0.0/22", "fd00:123::/64"],
            "healthzBindAddress": "", "metricsBindAddress": "",
            **({"evictionHard": self.EVICTION_HARD} if self.EVICTION_HARD else {}),
        }))
        self.counts = {path: path.read_text() for path in COUNTS}
        self.agent = None
        self.environment = {**os.environ, **(environment or {})}
        self.starting = threading.Lock()

    # --- processes ---

    def start_agent(self):
        log = open(self.top / "agent.log", "ab")
        self.agent = subprocess.Popen([*self.inside, self.bin / "holdfastd", "--config", self.config],
                                      stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                      env=self.environment, start_new_session=True)

    def set_config(self, **fields):
        """Changes the configuration file; a running agent reads it at SIGHUP, a new one at its start."""
        new = self.config.with_suffix(".new")
        new.write_text(json.dumps({**json.loads(self.config.read_text()), **fields}))
        new.rename(self.config)

    def hang_up(self):
        """SIGHUP to the agent; False when there is none, or one that is only just starting: without
        its handler the signal would end it."""
        pids = [pid for pid in self.pids_of("agent") if self.catches(pid, signal.SIGHUP)]
        for pid in pids:
            os.kill(pid, signal.SIGHUP)
        return bool(pids)

    def set_mode(self, mode):
        """Of the Services' rules; the agent takes it over a little later."""
        self.set_config(proxyMode=mode)
        self.hang_up()

    @staticmethod
    def catches(pid, number):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return False
        caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE).group(1), 16)
        return caught >> (number - 1) & 1 == 1

    def ensure_agent(self):
        with self.starting:
            if self.agent is None or self.agent.poll() is not None:
                self.start_agent()

    def role_of(self, pid):
        """agent, hold, launch, log; None for any other process."""
        if self.agent and pid == self.agent.pid:
            return "agent"
        return next((role for role, pids in self.keepers().items() if pid in pids), None)

    def keeper_sockets(self):
        """Those of holder, newest launcher and logger."""
        launchers = sorted(self.run.glob("launch.*.sock"), key=lambda p: int(p.name.split(".")[1]))
        return [self.run / "keeper.sock", *launchers[-1:], self.run / "log.sock"]

    def ask_keeper(self, path, message, files=()):
        """One packet of runtime/keeper/common/wire.h, answered by kOk; returns the answering process."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.settimeout(20)
            peer.connect(str(path))
            socket.send_fds(peer, [struct.pack("<IHHI", 0x504b4648, 1, message, 0)],
                            [f.fileno() for f in files])
            answer = peer.recv(65536)
            if len(answer) < 12 or struct.unpack("<IHHI", answer[:12])[2] != 1:
                raise RuntimeError(f"{path.name}: {answer!r}")
            return struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def keeper_answers(self):
        """Holder, newest launcher and logger serve, and no launch that was cut short is left."""
        try:
            sockets = self.keeper_sockets()
            for path in sockets:
                self.ask_keeper(path, 10)
        except OSError:
            return False
        return len(sockets) == 3 and not any(
            self.before_exec(pid) for pids in self.keepers().values() for pid in pids)

    @staticmethod
    def before_exec(pid):
        """A child of the launcher that is not yet the container's program (PF_FORKNOEXEC)."""
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        return int(fields[6]) & 0x40 != 0

    def upgrade_keeper(self):
        """Gives holder, launcher and logger the keeper's binary anew; each executes it in place.
        Returns their pids."""
        with open(self.bin / "holdfast-keeper", "rb") as binary:
            return [self.ask_keeper(path, 11, [binary]) for path in self.keeper_sockets()]

    def keepers(self):
        """role -> pids, of this machine's keeper only, and of the launcher's children that are not yet a container's program."""
        roles = {"hold": [], "launch": [], "log": []}
        for pid in (int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()):
            if (role := self.role_by_command_line(pid)) in roles:
                roles[role].append(pid)
        return roles

    def role_by_command_line(self, pid):
        """The run directory of this machine stands in it; None for anybody else, and for who has ended."""
        process = pathlib.Path(f"/proc/{pid}")
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return None
        return words[1].decode() if state != "Z" and f"--run-dir={self.run}".encode() in words else None

    def keepers_alone(self):
        """Without those children, who may be a container's program by the time they are killed: who has executed something, and
        has that command line afterwards, is none of them."""
        return {role: [pid for pid in pids if not self.before_exec(pid) and self.role_by_command_line(pid) == role]
                for role, pids in self.keepers().items()}

    def pids_of(self, role):
        if role == "agent":
            return [self.agent.pid] if self.agent and self.agent.poll() is None else []
        return self.keepers_alone()[role]

    def kill(self, roles):
        killed = 0
        for pid in [p for role in roles for p in self.pids_of(role)]:
            try:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        if "agent" in roles and self.agent:
            self.agent.wait()
        return killed

    def end_all(self):
        """Ends agent, holder, launcher and logger, none of which starts another meanwhile. Until wait()
        or ensure_agent() is called nobody of ours lives. Returns how many were ended."""
        with self.starting:
            ended = self.kill(("agent",))
            while any(self.keepers().values()):
                keepers = [pid for pids in self.keepers_alone().values() for pid in pids]
                for number in (signal.SIGSTOP, signal.SIGKILL):
                    for pid in keepers:
                        try:
                            os.kill(pid, number)
                            ended += number == signal.SIGKILL
                        except ProcessLookupError:
                            pass
                while any(self.is_alive(pid) for pid in keepers):
                    time.sleep(0.001)
        return ended

    def anybody(self):
        """role -> pids of all that live."""
        return {role: pids for role, pids in {**self.keepers(), "agent": self.pids_of("agent")}.items()
                if pids}

    @staticmethod
    def is_alive(pid):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZX"

    def stop(self):
        """Ends agent and keeper, and every container that still runs, and removes the cgroups."""
        self.kill(("agent", "hold", "launch", "log"))
        self.kill(("hold", "launch", "log"))  # what a dying holder had just restarted
        # All below, too: on a tmpfs (Debian 13's /tmp) the run directory itself is no mount.
        for mount in (self.run, self.run / "pods", self.run / "volumes"):
            subprocess.run(["umount", "-l", mount], capture_output=True, check=False)
        remove_cgroups(self.cgroup_trees)
        for path, count in self.counts.items():
            path.write_text(count)

    def cgroup_trees(self):
        return trees_of(self.cgroup)

    def container_trees(self):
        """Those of cgroup_trees() in which containers have directories of their own (docs/cgroups.md);
        in the other v1 hierarchies they are in their pod's."""
        limited = {"cgroup", "memory", "cpu", "cpuacct", "cpu,cpuacct", "pids", "devices", "hugetlb"}
        own = len(pathlib.Path(self.cgroup.strip("/")).parts)
        return [tree for tree in self.cgroup_trees() if tree.parents[own - 1].name in limited]

    # --- questions ---

    def ctl(self, *words, check=True, timeout=60):
        result = subprocess.run([*self.inside, self.bin / "holdctl", "--socket", self.run / "holdfastd.sock", *words],
                                capture_output=True, text=True, timeout=timeout * self.patience)
        if check and result.returncode != 0:
            raise RuntimeError(f"holdctl {' '.join(map(str, words))}: {result.stderr.strip()}")
        return result

    def pods(self):
        items = json.loads(self.ctl("get", "pods", "-A", "-o", "json").stdout)["items"]
        return {p["metadata"]["name"].removesuffix("-" + self.node): p for p in items}

    def patient_pods(self):
        """pods(), also while the agent is being killed."""
        seen = {}
        def look():
            seen.update(self.pods())
            return True
        self.wait("the agent shows its pods", look, 120)
        return seen

    def wait(self, what, ready, seconds=60):
        """Polls `ready` (restarting a dead agent, as systemd would) until it is true."""
        seconds *= self.patience
        deadline = time.monotonic() + seconds
        last = None
        while time.monotonic() < deadline:
            self.ensure_agent()
            try:
                if ready():
                    return
            except (RuntimeError, ValueError, OSError, KeyError, subprocess.TimeoutExpired) as error:
                last = error
            time.sleep(0.05)
        raise TimeoutError(f"{what}: not within {seconds} s ({last})")

    def wait_alone(self, what, ready, seconds=60):
        """As wait(), but a dead agent stays dead."""
        deadline = time.monotonic() + seconds * self.patience
        while not ready():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {seconds * self.patience} s")
            time.sleep(0.05)

    def first_process(self, pod, container):
        """Pid of a running container's first process."""
        status = next(s for s in pod["status"]["containerStatuses"] if s["name"] == container)
        name = status["containerID"].removeprefix("holdfast://")
        cgroup, = (c for c in cgroups_in(self.container_trees()[0]) if c.name == name)
        return self.first_of(cgroup)[0]

    def process_identity(self, pod):
        """(pid, start time) of each container's first process, from the kernel's cgroup tree. What is executed in it, by
        a probe perhaps, comes and goes."""
        uid = pod["metadata"]["uid"]
        identities = set()
        for tree in self.container_trees()[:1]:
            for cgroup in cgroups_of_pod(tree, uid):
                if cgroup.name.startswith("exec-"):
                    continue
                if first := self.first_of(cgroup):
                    identities.add(first)
        return identities

    @staticmethod
    def first_of(cgroup):
        """(pid, start time) of the process of a cgroup that started first; None of an empty one."""
        started = {}  # its number need not be the lowest
        for pid in pids_in(cgroup):
            try:
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue  # a child that just ended
            started[pid] = int(stat.rpartition(")")[2].split()[19])
        first = min(started, key=lambda pid: (started[pid], pid), default=None)
        return None if first is None else (first, started[first])
