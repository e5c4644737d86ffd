# SPDX-License-Identifier: Apache-2.0
"""The idle pods that are counted, their processes, and the agent that runs ours."""
import argparse
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support"), str(pathlib.Path(__file__).resolve().parents[1])]
from machine import Machine
from sleepers import PROGRAM, manifest

TOP = pathlib.Path(__file__).resolve().parents[3]

# Seconds of rest before daemons are looked at: threads end after 5 without work, and after 10 an agent gives back what only
# its start used.
CALM = 15


def arguments(**counts):
    """BIN --json FILE, and `counts` with what they are otherwise."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--json", required=True)
    for name, otherwise in counts.items():
        parser.add_argument(f"--{name}", type=int, default=otherwise)
    return parser.parse_args()


def add_rows(path, rows):
    with open(path, "a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def sleepers():
    """The pods' processes, of whoever started them."""
    wanted = "\0".join(PROGRAM).encode() + b"\0"
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == wanted:
                found.append(int(entry.name))
        except OSError:
            pass
    return found


class Ours:
    """Pods of a real agent."""

    def __init__(self, machine):
        self.machine = machine
        self.names = []

    def daemons(self):
        return {"agent": [self.machine.agent.pid],
                "keeper": [p for pids in self.machine.keepers().values() for p in pids]}

    def start(self, count):
        self.names = [f"p{i}" for i in range(count)]
        for name in self.names:
            (self.machine.manifests / f"{name}.json").write_text(json.dumps(manifest(name)))
        self.machine.wait("all pods run", lambda: sum(
            p["status"].get("phase") == "Running" for p in self.machine.pods().values()) == count, 180)

    def stop(self):
        for name in self.names:
            (self.machine.manifests / f"{name}.json").unlink()
        self.machine.wait("all pods are gone", lambda: not self.machine.pods(), 180)


@contextlib.contextmanager
def machine_for_pods(bin_dir, name, pods):
    """An agent and a keeper that answer, for so many pods, and what gives them the pods' image."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    top = pathlib.Path(tempfile.mkdtemp(prefix=f"holdfast-{name}-"))
    image = top / "busybox.tar"
    subprocess.run([TOP / "packaging/make-image", "busybox", image], check=True)
    machine = Machine(bin_dir, top, name)
    machine.set_config(maxPods=pods)
    try:
        machine.start_agent()
        machine.wait("the agent answers", lambda: machine.ctl("version"), 30)
        machine.wait("the keeper is there", lambda: all(machine.keepers().values()), 30)
        yield machine, lambda: machine.ctl("image", "import", image, "--name", "test/busybox:latest")
    finally:
        machine.stop()
        shutil.rmtree(top, ignore_errors=True)
