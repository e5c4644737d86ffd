#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""images.py BIN_DIR --programs FILE --images FILE --work DIR [--json FILE] [--n N] [--only ROW[,ROW]]: run by `run`, which makes
the namespaces and says what --only may name.

A pull ends when its command does: ours has synced then, the others have not, so that there is a row for the time with a
syncfs(2) after it too. MB/s are of the layers' tars (what is unpacked), 10^6 bytes. Memory is anonymous memory of all
processes of a contender, daemon and client, of their cgroup, looked at each 20 ms: no page cache. CPU is that of the same
processes; the kernel's write-back is nobody's."""
import argparse
import ctypes
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))
from machine import Machine  # noqa: E402
from registry import RealRegistry  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)
CGROUPS = pathlib.Path("/sys/fs/cgroup")
TOKEN = secrets.token_hex(4)  # in a pid namespace all have one pid
V2 = (CGROUPS / "cgroup.controllers").exists()


def sync(folder):
    fd = os.open(folder, os.O_RDONLY)
    if libc.syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), "syncfs")
    os.close(fd)


class Group:
    """What a contender's processes cost."""

    def __init__(self, name):
        hierarchies = [CGROUPS] if V2 else [CGROUPS / "memory", CGROUPS / "cpuacct"]
        self.folders = [base / f"holdfast-bench-{name}-{TOKEN}" for base in hierarchies]
        for folder in self.folders:
            folder.mkdir()
        enter = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in self.folders)
        self.words = ["sh", "-c", enter + 'exec "$@"', "sh"]

    def cpu(self):
        if V2:
            return int((self.folders[0] / "cpu.stat").read_text().split()[1]) / 1e6
        return int((self.folders[1] / "cpuacct.usage").read_text()) / 1e9

    def memory(self):
        stat = dict(line.split() for line in (self.folders[0] / "memory.stat").read_text().splitlines())
        return int(stat["anon" if V2 else "total_rss"]) / 1e6

    def remove(self):
        for folder in self.folders:
            for _ in range(100):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.05)


class Watched:
    """Time, processor time and highest memory of what happens within it."""

    def __init__(self, group):
        self.group = group

    def look(self):
        while not self.ended.wait(0.02):
            self.memory = max(self.memory, self.group.memory())

    def __enter__(self):
        self.memory, self.ended = self.group.memory(), threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        self.cpu, self.seconds = self.group.cpu(), time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.seconds
        self.cpu = self.group.cpu() - self.cpu
        self.ended.set()
        self.thread.join()


def run(*words, **options):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr[-2000:] or done.stdout[-2000:]}")
    return done.stdout


class Ours:
    name = "ours"

    def __init__(self, args, world, folder):
        self.group = Group("ours")
        self.machine = Machine(args.bin, folder / "ours", "images", inside=self.group.words)
        self.machine.set_config(registryConfigPath=str(world.hosts), imageGCHighThresholdPercent=100)
        self.machine.start_agent()
        self.machine.wait("the agent answers", lambda: self.machine.ctl("version"), 30)
        self.machine.wait("the keeper is there", lambda: all(self.machine.keepers().values()), 30)

    def pull(self, reference):
        self.machine.ctl("image", "pull", reference, timeout=600)

    def remove(self, reference):
        self.machine.ctl("image", "rm", reference)

    def run_absent(self, number, reference):
        name = f"absent-{number}"
        manifest = self.machine.top / "pod.json"
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": reference}]}}))
        began = time.monotonic()
        self.machine.ctl("apply", "-f", manifest)
        self.machine.ctl("wait", "--for=condition=Ready", "--timeout=60s", f"pod/{name}-{self.machine.node}")
        took = time.monotonic() - began
        self.machine.ctl("delete", "pod", f"{name}-{self.machine.node}")
        self.machine.wait("the pod is gone", lambda: not self.machine.pods())
        return took

    def stop(self):
        self.machine.stop()
        self.group.remove()


class Podman:
    def __init__(self, world, folder):
        self.name = "podman pull " + run("podman", "--version").split()[-1]
        self.certificates = world.top / "certificates"
        self.group = Group("podman")
        self.words = [*self.group.words, "podman", "--root", folder / "podman", "--runroot", world.top / "podman-run", "--tmpdir",
                      world.top / "podman-tmp", "--cgroup-manager", "cgroupfs", "--runtime", "crun", "--storage-driver",
                      "overlay", "--network-config-dir", world.top / "podman-networks"]

    def pull(self, reference):
        run(*self.words, "pull", "-q", "--cert-dir", self.certificates, reference)

    def remove(self, _):
        run(*self.words, "rmi", "-a", "-f")

    def run_absent(self, number, reference):
        name = f"absent-{number}"
        began = time.monotonic()
        run(*self.words, "pull", "-q", "--cert-dir", self.certificates, reference)
        run(*self.words, "run", "-d", "--name", name, "--ulimit", f"nofile=1024:{resource_limit('nofile')}", "--ulimit",
            f"nproc=1024:{resource_limit('nproc')}", reference)
        took = time.monotonic() - began
        run(*self.words, "rm", "-f", "-t", "0", name)
        return took

    def stop(self):
        self.group.remove()


def resource_limit(name):
    import resource
    return resource.getrlimit({"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}[name])[1]


class Containerd:
    def __init__(self, world, folder):
        self.programs = world.programs
        self.name = "ctr pull " + run(self.programs["ctr"], "--version").split()[-1]
        self.hosts = world.hosts
        self.group = Group("containerd")
        state = world.top / f"containerd-{folder.name}"
        state.mkdir()
        self.socket = state / "containerd.sock"
        config = state / "config.toml"
        config.write_text(f"version = 3\nroot = '{folder}/containerd'\nstate = '{state}'\n[grpc]\naddress = '{self.socket}'\n")
        with open(state / "log", "ab") as log:
            self.daemon = subprocess.Popen([*self.group.words, self.programs["containerd"], "--config", config], stdout=log, stderr=log)
        self.words = [*self.group.words, self.programs["ctr"], "--address", self.socket]
        for _ in range(200):
            if subprocess.run([*self.words, "version"], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError("containerd does not answer: " + (state / "log").read_text()[-2000:])

    def pull(self, reference):
        run(*self.words, "images", "pull", "--hosts-dir", self.hosts, reference)

    def remove(self, reference):
        run(*self.words, "images", "rm", "--sync", reference)

    def stop(self):
        self.daemon.terminate()
        self.daemon.wait()
        self.group.remove()


class Limit:
    """Fetch, inflate and untar, with nothing around it (limit.cc)."""
    name = "limit"

    def __init__(self, args, world, folder):
        self.program = pathlib.Path(args.bin) / "bench_images_limit"
        self.world, self.folder = world, folder / "limit"
        self.group = Group("limit")

    def pull(self, reference):
        self.folder.mkdir()
        image = reference.rpartition("/")[2].partition(":")[0]
        layout = pathlib.Path(self.world.images[image])
        index = json.loads((layout / "index.json").read_text())
        manifest = json.loads((layout / "blobs/sha256" / index["manifests"][0]["digest"][7:]).read_text())
        run(*self.group.words, self.program, self.world.authority, self.folder,
            *(f"https://{self.world.name}/v2/{image}/blobs/{layer['digest']}" for layer in manifest["layers"]))

    def remove(self, _):
        shutil.rmtree(self.folder)

    def stop(self):
        self.group.remove()


class World:
    """The registry, on a tmpfs, and what trusts it."""

    def __init__(self, args):
        self.top = pathlib.Path(args.work) / "world"
        self.top.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3g", "none", self.top], check=True)
        lines = lambda path: dict(line.split("=", 1) for line in pathlib.Path(path).read_text().split())
        self.programs, self.images = lines(args.programs), lines(args.images)
        self.authority = self.top / "ca.crt"
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", self.top / "key", "-out", self.authority)
        self.registry = RealRegistry(self.top / "registry", http={"tls": {"certificate": str(self.authority), "key": str(self.top / "key")}})
        self.name = self.registry.name
        (self.top / "certificates").mkdir()
        shutil.copy(self.authority, self.top / "certificates/ca.crt")
        self.hosts = self.top / "hosts"
        (self.hosts / self.name).mkdir(parents=True)
        (self.hosts / self.name / "hosts.toml").write_text(
            f'server = "https://{self.name}"\n[host."https://{self.name}"]\ncapabilities = ["pull", "resolve"]\nca = "{self.authority}"\n')
        for name, layout in self.images.items():
            self.registry.push(f"oci:{layout}", f"{name}:1")

    def reference(self, image):
        return f"{self.name}/{image}:1"

    def unpacked(self, image):
        return int((pathlib.Path(self.images[image]) / "unpacked-bytes").read_text()) / 1e6

    def stop(self):
        self.registry.stop()
        subprocess.run(["umount", "-l", self.top], check=False)


class Disk:
    """A journaled ext4 of its own in a file beside TMPDIR, or a tmpfs. What is written there goes to the disk as it does
    on a node's own: a loop device would keep it in memory until the next flush."""

    def __init__(self, kind, work):
        self.top = pathlib.Path(work) / kind
        self.top.mkdir()
        if kind == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", "size=8g", "none", self.top)
            return
        file = pathlib.Path(work) / "disk"
        run("fallocate", "-l", 16 << 30, file)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", file)
        device = run("losetup", "--find", "--show", "--direct-io=on", file).strip()
        run("mount", device, self.top)
        run("losetup", "--detach", device)  # goes with the mount
        file.unlink()

    def stop(self):
        subprocess.run(["umount", "-l", self.top], check=False)
        self.top.rmdir()


def percentiles(samples, low_is_bad=False):
    ordered = sorted(samples)
    worst = ordered[len(ordered) // 100] if low_is_bad else ordered[len(ordered) * 99 // 100]
    return {"p50": round(ordered[len(ordered) // 2], 2), "p99": round(worst, 2)}


def row(name, unit, samples, aim="-", rate=False):
    """`samples`: contender -> figures."""
    shown = {who: percentiles(of, rate) for who, of in samples.items() if of}
    return {"row": name, "unit": unit, "n": len(samples["ours"]), "ours": shown.pop("ours"), "aim": aim,
            **({"limit": shown.pop("limit")} if "limit" in shown else {}), "peers": shown}


def pulls(args, world, kind, image, with_limit=True):
    disk = Disk(kind, args.work)
    contenders = []
    try:
        contenders = [Ours(args, world, disk.top), Podman(world, disk.top), Containerd(world, disk.top)]
        if with_limit:
            contenders.append(Limit(args, world, disk.top))
        reference, size = world.reference(image), world.unpacked(image)
        kinds = ("rate", "synced", "cpu", "memory")
        samples = {what: {one.name: [] for one in contenders} for what in kinds}
        for _ in range(args.n):
            for one in contenders:
                sync(disk.top)
                with Watched(one.group) as watched:
                    one.pull(reference)
                began = time.monotonic()
                sync(disk.top)
                synced = watched.seconds + time.monotonic() - began
                for what, figure in zip(kinds, (size / watched.seconds, size / synced, watched.cpu, watched.memory)):
                    samples[what][one.name].append(figure)
                one.remove(reference)
    finally:
        for one in contenders:
            one.stop()
        disk.stop()
    where = f"{image}.{kind}"
    return [row(f"images.pull.{where}", "MB/s", samples["rate"], ">= 230, >= 1.8 x the fastest peer" if kind == "ext4" else "-", True),
            row(f"images.pull_synced.{where}", "MB/s", samples["synced"], rate=True),
            row(f"images.pull_cpu.{where}", "s", samples["cpu"]),
            row(f"images.pull_memory.{where}", "MB", samples["memory"])]


def memory_by_size(args, world):
    """Is it flat? Ours alone: images of 10 MB, 100 MB, 1 GB."""
    disk, rows = Disk("tmpfs", args.work), []
    ours = Ours(args, world, disk.top)
    try:
        for image in ("small", "middle", "gzip"):
            samples = []
            for _ in range(args.n):
                with Watched(ours.group) as watched:
                    ours.pull(world.reference(image))
                samples.append(watched.memory)
                ours.remove(world.reference(image))
            rows.append(row(f"images.memory.{round(world.unpacked(image))}MB", "MB", {"ours": samples}, "flat"))
    finally:
        ours.stop()
        disk.stop()
    return rows


def absent(args, world):
    disk = Disk("ext4", args.work)
    contenders = [Ours(args, world, disk.top), Podman(world, disk.top)]
    samples = {one.name: [] for one in contenders}
    try:
        for number in range(5 * args.n):
            for one in contenders:
                samples[one.name].append(1000 * one.run_absent(number, world.reference("small")))
                one.remove(world.reference("small"))
    finally:
        for one in contenders:
            one.stop()
        disk.stop()
    named = {name.replace("podman pull", "podman pull, run"): of for name, of in samples.items()}
    return [row("images.apply_absent", "ms", named)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    for name in ("programs", "images", "work"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--json", default="/dev/stdout")
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--only", default="ext4,zstd,tmpfs,memory,absent")
    args = parser.parse_args()
    world = World(args)
    benches = {"ext4": lambda: pulls(args, world, "ext4", "gzip"), "tmpfs": lambda: pulls(args, world, "tmpfs", "gzip"),
               "zstd": lambda: pulls(args, world, "ext4", "zstd", False),
               "memory": lambda: memory_by_size(args, world), "absent": lambda: absent(args, world)}
    try:
        for name in args.only.split(","):
            for one in benches[name]():
                with open(args.json, "a", encoding="utf-8") as out:
                    out.write(json.dumps(one) + "\n")
    finally:
        world.stop()


main()
