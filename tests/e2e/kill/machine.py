# SPDX-License-Identifier: Apache-2.0
"""One agent and keeper with roots of their own, in a network and mount namespace of their own."""
import json
import os
import pathlib
import signal
import subprocess
import time


class Machine:
    def __init__(self, bin_dir, top):
        self.bin = pathlib.Path(bin_dir)
        self.top = pathlib.Path(top)
        self.manifests = self.top / "manifests"
        self.logs = self.top / "log/pods"
        self.run = self.top / "run"
        self.cgroup = f"/holdfast-kill-{os.getpid()}"
        self.node = "kill-node"
        for folder in (self.manifests, self.logs, self.run, self.top / "root"):
            folder.mkdir(parents=True)
        self.config = self.top / "config.yaml"
        self.config.write_text(json.dumps({
            "apiVersion": "holdfast.dev/v1", "kind": "AgentConfiguration",
            "nodeName": self.node, "rootDir": str(self.top / "root"), "runDir": str(self.run),
            "podLogDir": str(self.logs), "containerLogDir": str(self.top / "log/containers"),
            "manifestDir": str(self.manifests), "cgroupParent": self.cgroup,
            "interfacePrefix": "hk", "tableName": "holdfast-kill",
            "podCIDRs": ["10.123.0.0/24", "fd00:123::/64"],
        }))
        self.agent = None

    # --- processes ---

    def start_agent(self):
        log = open(self.top / "agent.log", "ab")
        self.agent = subprocess.Popen([self.bin / "holdfastd", "--config", self.config],
                                      stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                      start_new_session=True)

    def ensure_agent(self):
        if self.agent is None or self.agent.poll() is not None:
            self.start_agent()

    def keepers(self):
        """role -> pids, of this machine's keeper only (its run directory stands in the command line)."""
        roles = {"hold": [], "launch": [], "log": []}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state == "Z" or f"--run-dir={self.run}".encode() not in words:
                continue
            role = words[1].decode()
            if role in roles:
                roles[role].append(int(entry.name))
        return roles

    def pids_of(self, role):
        if role == "agent":
            return [self.agent.pid] if self.agent and self.agent.poll() is None else []
        return self.keepers()[role]

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

    # --- questions ---

    def ctl(self, *words, check=True, timeout=60):
        result = subprocess.run([self.bin / "holdctl", "--socket", self.run / "holdfastd.sock", *words],
                                capture_output=True, text=True, timeout=timeout)
        if check and result.returncode != 0:
            raise RuntimeError(f"holdctl {' '.join(map(str, words))}: {result.stderr.strip()}")
        return result

    def pods(self):
        items = json.loads(self.ctl("get", "pods", "-A", "-o", "json").stdout)["items"]
        return {p["metadata"]["name"].removesuffix("-" + self.node): p for p in items}

    def wait(self, what, ready, seconds=60):
        """Polls `ready` (restarting a dead agent, as systemd would) until it is true."""
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

    def process_identity(self, pod):
        """(pid, start time) of the container's first process, from the kernel's cgroup tree."""
        uid = pod["metadata"]["uid"]
        identities = set()
        for base in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
            tree = pathlib.Path(base + self.cgroup)
            if not tree.is_dir():
                continue
            for procs in tree.glob(f"**/pod{uid}/**/cgroup.procs"):
                pids = [int(p) for p in procs.read_text().split()]
                if pids:
                    pid = min(pids)
                    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    identities.add((pid, int(stat[19])))
            break
        return identities
