# SPDX-License-Identifier: Apache-2.0
"""A node whose agent lacks something: the verbs that take it away and give it back."""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pods"))
from node import IMAGE, Node, status  # noqa: E402, F401
from suite import check  # noqa: E402

MANY = 1_000_000


class ScarceNode(Node):
    """`root` is a tmpfs of `megabytes`."""
    EVICTION_HARD = None

    def __init__(self, bin_dir, top, name, megabytes):
        super().__init__(bin_dir, top, name)
        self.root = self.top / "root"
        self.plan = self.top / "refuse-threads"
        self.environment |= {"LD_PRELOAD": str(self.bin / "librefuse_threads.so"),
                             "HOLDFAST_REFUSE_THREADS": str(self.plan)}
        self.cut_off = None  # the pids cgroup of the agent
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,nr_inodes=6000,mode=0711", "root", self.root], check=True)

    def stop(self):
        self.give_processes()
        super().stop()
        subprocess.run(["umount", "-l", self.root], capture_output=True, check=False)

    # --- the agent ---

    def answers(self):
        return self.ctl("version", check=False, timeout=20).returncode == 0

    def until_it_answers(self, why, seconds=30):
        self.wait(f"the agent answers: {why}", self.answers, seconds)

    def terminate(self, why, seconds=25):
        """SIGTERM, and the agent's exit code."""
        os.kill(self.agent.pid, signal.SIGTERM)
        try:
            return self.agent.wait(timeout=seconds * self.patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{why}: SIGTERM has no effect for {seconds} s:\n{self.stacks()}") from None

    def stacks(self):
        found = []
        for task in sorted(pathlib.Path(f"/proc/{self.agent.pid}/task").iterdir()):
            try:
                found.append(f"{(task / 'comm').read_text().strip()}: {(task / 'wchan').read_text()}")
            except OSError:
                pass  # it has just ended
        return "\n".join(found)

    def alive(self):
        return self.agent.poll() is None

    def log_lines(self):
        return (self.top / "agent.log").read_text(errors="replace").splitlines()

    # --- threads ---

    def starts_of_threads(self):
        """Since refuse_threads() or give_threads()."""
        return self.plan.with_name(self.plan.name + ".starts").stat().st_size

    def refuse_threads(self, first, count):
        """Of the starts from now on."""
        self.plan.with_name(self.plan.name + ".starts").unlink(missing_ok=True)
        new = self.plan.with_suffix(".new")
        new.write_text(f"{first} {count}")
        new.rename(self.plan)

    def give_threads(self):
        self.plan.unlink(missing_ok=True)
        self.plan.with_name(self.plan.name + ".starts").unlink(missing_ok=True)

    def names_of_threads(self):
        return [line.split(":")[0] for line in self.stacks().splitlines()]

    def has_grpc(self):
        return any(name.startswith("grpc_") for name in self.names_of_threads())

    def is_at_rest(self):
        return "api-accept" in self.names_of_threads() and not self.has_grpc()

    def tasks_at_rest(self):
        """How many threads the agent has once none has begun or ended for 2 s: some begin after its first answer."""
        tasks, since = 0, time.monotonic()

        def at_rest():
            nonlocal tasks, since
            now = len(os.listdir(f"/proc/{self.agent.pid}/task"))
            if now != tasks:
                tasks, since = now, time.monotonic()
            return time.monotonic() - since > 2

        self.wait_alone("the agent's threads have begun", at_rest)
        return tasks

    def start_attempts_that_failed(self):
        """Of all agents so far."""
        return sum("trying again in" in line for line in self.log_lines())

    def times_begun_anew(self):
        """Of all agents so far: each executed itself, under the same pid."""
        return sum("beginning anew" in line for line in self.log_lines())

    def cgroup_of_the_agent(self):
        root = pathlib.Path("/sys/fs/cgroup")
        mount = root if (root / "cgroup.controllers").exists() else root / "pids"
        folder = mount / f"{self.cgroup.strip('/')}-agent"
        folder.mkdir(exist_ok=True)
        self.cut_off = (folder, mount)
        return folder

    def start_agent_within(self, tasks):
        """A new agent that may have so many threads and processes, from its first moment on."""
        folder = self.cgroup_of_the_agent()
        (folder / "pids.max").write_text(str(tasks))
        before, self.inside = self.inside, ("sh", "-c", 'echo $$ > "$0" && exec "$@"', folder / "cgroup.procs")
        try:
            self.start_agent()
        finally:
            self.inside = before

    def keep_from_processes(self, more):
        """The agent, and it alone, may start `more` threads or processes and no further one."""
        folder = self.cgroup_of_the_agent()
        (folder / "cgroup.procs").write_text(str(self.agent.pid))
        tasks = int((folder / "pids.current").read_text())
        (folder / "pids.max").write_text(str(tasks + more))

    def give_processes(self):
        """All it wants again; the cgroup is removed."""
        if self.cut_off is None:
            return
        folder, mount = self.cut_off
        for pid in (folder / "cgroup.procs").read_text().split():
            try:
                (mount / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                folder.rmdir()
                break
            except OSError:
                time.sleep(0.05)
        self.cut_off = None

    # --- descriptors ---

    def limit_files(self, soft):
        hard = resource.prlimit(self.agent.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(self.agent.pid, resource.RLIMIT_NOFILE, (min(soft, hard), hard))

    def open_files(self):
        return len(os.listdir(f"/proc/{self.agent.pid}/fd"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.agent.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # --- disk ---

    def fill_disk(self):
        with open(self.root / "fill", "wb") as file:
            try:
                while True:
                    os.write(file.fileno(), b"\0" * 65536)
            except OSError:
                pass
        # And every inode: on this file system a directory takes no block.
        try:
            for number in range(1_000_000):
                (self.root / f"fill.{number}").touch()
        except OSError:
            pass
        stat = os.statvfs(self.root)
        check((stat.f_bavail, stat.f_favail) == (0, 0), f"{stat.f_bavail} blocks and {stat.f_favail} inodes are free")

    def free_disk(self):
        for file in self.root.glob("fill*"):
            file.unlink()

    def make_disk(self, how):
        """`ro` or `rw`."""
        subprocess.run(["mount", "-o", f"remount,{how}", self.root], check=True)
