# SPDX-License-Identifier: Apache-2.0
"""A node below a cgroup with limits, and a process beside its pods that goes on with its work."""
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pods"))
from node import Node  # noqa: E402

ROOT = pathlib.Path("/sys/fs/cgroup")
PIDS = 2400
MEMORY = 1536 << 20
CPUS = 1.5


class BoundedNode(Node):
    """This process joins the cgroup `node` beside kubepods, and so does all that it starts. Limits:
    PIDS, MEMORY and CPUS for agent, keeper, pods and this process together."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.unified = (ROOT / "cgroup.controllers").exists()
        self.home = {}  # where this process was
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            self.home[controllers] = path

    def hierarchies(self):
        """controller -> mount point"""
        names = ("pids", "memory", "cpu")
        return {n: ROOT if self.unified else ROOT / n for n in names}

    def bound(self):
        limits = {"pids": {"pids.max": PIDS}}
        if self.unified:
            limits["memory"] = {"memory.max": MEMORY}
            limits["cpu"] = {"cpu.max": f"{int(CPUS * 100000)} 100000"}
        else:
            limits["memory"] = {"memory.limit_in_bytes": MEMORY}
            limits["cpu"] = {"cpu.cfs_quota_us": int(CPUS * 100000)}
        for controller, mount in self.hierarchies().items():
            outer = mount / self.cgroup.strip("/")
            (outer / "node").mkdir(parents=True, exist_ok=True)
            for file, value in limits[controller].items():
                (outer / file).write_text(str(value))
            (outer / "node/cgroup.procs").write_text(str(os.getpid()))

    def leave(self):
        """Back to where this process came from."""
        for controller, mount in self.hierarchies().items():
            key = "" if self.unified else next(k for k in self.home if controller in k.split(","))
            (mount / self.home[key].strip("/") / "cgroup.procs").write_text(str(os.getpid()))

    def stop(self):
        """Without a process allowed nothing forks any more, so that one round of killing ends all in the node's cgroups."""
        self.leave()
        mount = self.hierarchies()["pids"]
        for file in (mount / self.cgroup.strip("/")).glob("**/pids.max"):
            file.write_text("0")
        super().stop()

    def read(self, controller, path, v1, v2):
        """The file of the cgroup `path` below this node's parent."""
        mount = self.hierarchies()[controller]
        return (mount / self.cgroup.strip("/") / path / (v2 if self.unified else v1)).read_text().strip()

    def restart(self, **config):
        self.set_config(**config)
        self.restart_agent()
        self.wait("the agent answers", lambda: self.ctl("version").returncode == 0)


class Shell:
    """Somebody's work on the node: a program is started again and again."""

    def __init__(self, node):
        self.node = node
        self.runs = self.failures = 0
        self.slowest = 0.0
        self.slowest_answer = 0.0
        self.errors = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.work), threading.Thread(target=self.ask)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def work(self):
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                subprocess.run(["/bin/true"], check=True, timeout=60)
                self.runs += 1
            except (OSError, subprocess.SubprocessError) as error:
                self.failures += 1
                self.errors.append(str(error))
                time.sleep(0.05)
            self.slowest = max(self.slowest, time.monotonic() - began)

    def ask(self):
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self.node.ctl("get", "pods", "-A")
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                self.failures += 1
                self.errors.append(str(error))
            self.slowest_answer = max(self.slowest_answer, time.monotonic() - began)
            time.sleep(0.1)
