# SPDX-License-Identifier: Apache-2.0
"""The node that is attacked: real agent and keeper, on a disk and below a cgroup of their own, so that an
attack that succeeds harms only them."""
import os
import pathlib
import re
import shutil
import subprocess
import time

from images import Image, Member, tar
from node import Node
from oracle import Oracle

BASE = "attack/base:1"
DISK_MIB = 3072
SETTLING = 60
QUIET = 0.4
MOST_PIDS = 5000
MOST_MEMORY = 4 << 30
UP = "/.." * 16
MARK = "mark-of-the-agents-environment"


def programs(bin_dir):
    """The members of an image with a shell, the attacker and the image's own proof."""
    busybox = pathlib.Path(shutil.which("busybox") or "/bin/busybox").read_bytes()
    applets = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    folders = [Member(f, "dir") for f in ("bin", "etc", "proc", "sys", "dev", "var")] + [
        Member("tmp", "dir", mode=0o1777)]
    return folders + [
        Member("bin/busybox", content=busybox),
        *[Member(f"bin/{a}", "symlink", link="busybox") for a in applets if a != "busybox"],
        Member("bin/attacker", content=(bin_dir / "security-attacker").read_bytes()),
        Member("bin/proof", content=(bin_dir / "security-proof-image").read_bytes()),
        Member("etc/passwd", content=b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n"
               b"nobody:x:65534:65534::/:/bin/false\n", mode=0o644),
        Member("etc/group", content=b"root:x:0:\nuser:x:1000:\nextra:x:50000:user\nnobody:x:65534:\n",
               mode=0o644)]


class Target(Node):
    """Counts how often the agent had to be started. Has a disk of its own."""
    EVICTION_HARD = None

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.starts = 0

    def start_agent(self):
        self.starts += 1
        super().start_agent()

    def limit(self):
        """Limits of everything that runs in pods; False where the kernel took none."""
        limited = 0
        for tree in self.cgroup_trees():
            for name, value in (("pids.max", MOST_PIDS), ("memory.max", MOST_MEMORY),
                                ("memory.limit_in_bytes", MOST_MEMORY)):
                if (tree / name).exists():
                    (tree / name).write_text(str(value))
                    limited += name == "pids.max"
        return limited > 0


class Kit:
    """One target after the other; attacks use its verbs. `whole`: the long form. `patience`: as Machine's."""

    def __init__(self, bin_dir, programs_dir, whole, patience=1):
        self.bin = bin_dir
        self.programs = programs_dir
        self.whole = whole
        self.patience = patience
        self.top = pathlib.Path(os.environ["KIT_TOP"])
        self.canary = self.top / "canary"
        self.outside = UP + str(self.canary)
        self.names = 0
        self.targets = 0
        self.node = None
        Oracle.plant(self.canary, programs_dir / "security-proof-node")
        self.base_members = programs(programs_dir)
        self.base_layer = tar(self.base_members)
        self.secrets = ()

    # --- life of a target ---

    def start(self, **config):
        """A new agent on an empty disk."""
        self.targets += 1
        self.disk = self.top / f"disk{self.targets}"
        self.disk.mkdir()
        image = self.top / f"disk{self.targets}.ext4"
        with open(image, "wb") as file:
            file.truncate(DISK_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        if subprocess.run(["mount", "-o", "loop", image, self.disk], capture_output=True, check=False).returncode != 0:
            # A machine without loop devices: memory, of the same size.
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=755", "kit", self.disk], check=True)
        image.unlink()
        self.node = Target(self.bin, self.disk / "node", "kit" + self.top.name.rpartition("-")[2], patience=self.patience,
                           environment={"KIT_MARK": MARK})
        if config:
            self.node.set_config(**config)
        self.node.start_agent()
        self.node.wait("the agent answers", lambda: self.node.ctl("version").returncode == 0)
        if not self.node.limit():
            raise RuntimeError("no limit on the processes of pods: attacks could take this machine")
        self.oracle = Oracle(self.canary, self.bin, self.node)
        self.import_image(BASE, Image([self.base_layer]))
        self.pod("first", [self.container("main", ["/bin/true"])])  # what only a first pod brings along
        self.finished("first")
        self.clear()
        self.baseline = self.oracle.look(), self.oracle.held()

    def stop(self):
        if self.node is None:
            return
        self.node.stop()
        # The disk goes as a whole: what an attack left on it need not be removable.
        subprocess.run(["umount", "-R", "-l", self.disk], check=False, capture_output=True)
        self.node = None

    def begin(self):
        if self.node is None:
            self.start()
        self.starts = self.node.starts

    def end(self):
        """Removes the attack's pods; what is not as before it. A target that was harmed is replaced."""
        found = []
        try:
            self.clear()
        except Exception as error:
            found.append(f"pods cannot be removed: {str(error)[:200]}")
        if self.died():
            found.append("the agent died")
        found += self.oracle.differences(*self.baseline, patience=(2 if found else 15) * self.patience)
        if found:
            self.stop()
        return found

    def clear(self):
        """Removes all pods. The agent is not started again for that: its end is the attack's success."""
        for file in self.node.manifests.glob("*.json"):
            file.unlink()
        deadline = time.monotonic() + SETTLING * self.patience
        while self.node.pods():
            if time.monotonic() > deadline:
                raise TimeoutError(f"still there after {SETTLING * self.patience} s: {list(self.node.pods())}")
            time.sleep(0.1)

    def died(self):
        """Whether the agent ended since the attack began."""
        return self.node.starts != self.starts or self.node.agent.poll() is not None

    # --- verbs of attacks ---

    def size(self, short, whole):
        return whole if self.whole else short

    def new_name(self, stem):
        self.names += 1
        return f"{stem}-{self.names}"

    def import_image(self, name, image, *flags, form="oci", timeout=120):
        """holdctl's result; `image`: an Image, or an archive's bytes."""
        archive = self.disk / "import.tar"
        archive.write_bytes(image if isinstance(image, bytes) else getattr(image, form)())
        try:
            return self.node.ctl("image", "import", archive, "--name", name, *flags, check=False,
                                 timeout=timeout)
        finally:
            archive.unlink()

    def image(self, stem, *layers, **more):
        """Imports the base image with more layers (lists of members); its name."""
        name = f"attack/{self.new_name(stem)}:1"
        result = self.import_image(name, Image([self.base_layer, *[tar(m) for m in layers]], **more))
        if result.returncode != 0:
            raise RuntimeError(f"import of {name}: {result.stderr.strip()}")
        return name

    @staticmethod
    def container(name, command=None, image=BASE, add=(), drop=(), security=None, mounts=None, **more):
        context = {**(security or {})}
        if add or drop:
            context["capabilities"] = {"add": list(add), "drop": list(drop)}
        container = {"name": name, "image": image, "imagePullPolicy": "Never", **more}
        if command is not None:
            container["command"] = command
        if context:
            container["securityContext"] = context
        if mounts:
            container["volumeMounts"] = [{"name": v, "mountPath": p} for v, p in mounts.items()]
        return container

    def pod(self, name, containers, **spec):
        self.node.pod(name, containers=containers,
                      **{"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec})

    def finished(self, name, seconds=60):
        """The pod, when every container has ended or cannot start."""
        def over(status):
            waiting = status["state"].get("waiting", {}).get("reason", "")
            return "terminated" in status["state"] or waiting.startswith(("Err", "CreateContainer"))
        pod = self.node.until("is over", name, lambda p: p["status"].get("containerStatuses") and all(
            over(s) for s in p["status"]["containerStatuses"]), seconds)
        self.quiet(name)
        return pod

    def quiet(self, name):
        """Waits for the last lines: an end and a last line come from different processes (docs/logs.md)."""
        while True:
            newest = max((f.lstat().st_mtime for f in self.log_files(name, "*")), default=0)
            if not 0 <= time.time() - newest < QUIET:
                return
            time.sleep(0.05)

    def running(self, name, seconds=30):
        """The pod when it runs; None if it was refused or ended."""
        def decided(pod):
            if pod["status"]["phase"] != "Pending":
                return True
            states = pod["status"].get("containerStatuses", [])
            return any(s["state"].get("waiting", {}).get("reason", "").startswith(
                ("Err", "CreateContainerE", "CreateContainerC")) for s in states)
        pod = self.node.until("is decided", name, decided, seconds)
        return pod if pod["status"]["phase"] == "Running" else None

    def log_files(self, name, container):
        return sorted(self.node.logs.glob(f"default_{name}-{self.node.node}_*/{container}/*.log"))

    def output(self, name, container="main"):
        """What a container wrote, of all its runs, from the log files."""
        text = ""
        for file in self.log_files(name, container):
            for line in file.read_text(errors="replace").splitlines():
                parts = line.split(" ", 3)
                text += parts[3] + "\n" if len(parts) == 4 else ""
        return text

    def run(self, command, seconds=60, image=BASE, pod=None, **container):
        """Runs one container to its end; what it wrote. `pod`: fields of the pod's spec."""
        name = self.new_name("run")
        self.pod(name, [self.container("main", command, image, **container)], **(pod or {}))
        self.finished(name, seconds)
        text = self.output(name)
        (self.node.manifests / f"{name}.json").unlink()
        return text

    def complete(self, command, seconds=60, **more):
        """As run, of a verb of the attacker: it must have come to its end. Its findings."""
        text = self.run(command, seconds, **more)
        lines = text.splitlines()
        if not lines or not lines[-1].startswith("done"):
            raise RuntimeError(f"{' '.join(command)}: cut short: {text[-300:]!r}")
        return lines[:-1]

    def exec(self, name, *command, container="main", timeout=30):
        result = self.node.ctl("exec", f"{name}-{self.node.node}", "-c", container, "--", *command,
                               check=False, timeout=timeout)
        return result.stdout + result.stderr

    def gateway(self):
        """The link address that a pod sees as its way out."""
        return re.search(r"link/ether (\S+)", subprocess.run(
            ["ip", "link"], capture_output=True, text=True, check=True).stdout)
