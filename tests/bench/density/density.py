#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""density.py BIN_DIR --json FILE [--pods N]: what N idle pods cost, everything counted: PSS and
anonymous memory of agent and keeper, memory of everything (MemAvailable of the machine, so it wants a
quiet one: the row "given_back" is the same again while the pods go, and close to it when nothing else
disturbed), descriptors, host mounts. "idle" is an agent that has started and never had a pod or image;
before the N pods it has had some, so that what the first ones leave behind (heap, the kernel's caches)
is not charged to them."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from machine import Machine

TOP = pathlib.Path(__file__).resolve().parents[3]
WARM_UP = 50


def memory(pids):
    """Sums of smaps_rollup in MB."""
    sums = {"Pss": 0, "Pss_Anon": 0, "Rss": 0}
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            key = line.split(":")[0]
            if key in sums:
                sums[key] += int(line.split()[1])
    return {k: round(v / 1024, 2) for k, v in sums.items()}


def descriptors(pids):
    return sum(len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def available_mb():
    """Settled MemAvailable: the same to 2 MB three times in a row."""
    seen = []
    while len(seen) < 60:
        text = pathlib.Path("/proc/meminfo").read_text()
        seen.append(int(next(l for l in text.splitlines() if l.startswith("MemAvailable")).split()[1]) / 1024)
        if len(seen) >= 3 and max(seen[-3:]) - min(seen[-3:]) < 2:
            break
        time.sleep(0.5)
    return seen[-1]


def host_mounts():
    return len(pathlib.Path("/proc/self/mounts").read_text().splitlines())


def snapshot(machine):
    keeper = [p for pids in machine.keepers().values() for p in pids]
    return {"agent": memory([machine.agent.pid]), "keeper": memory(keeper),
            "fds": descriptors([machine.agent.pid, *keeper]), "mounts": host_mounts(),
            "available": available_mb()}


def manifest(name):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "test/busybox:latest", "imagePullPolicy": "Never",
                        "command": ["/bin/sleep", "100000"]}]}}


def start_pods(machine, names):
    for name in names:
        (machine.manifests / f"{name}.json").write_text(json.dumps(manifest(name)))
    machine.wait("all pods run", lambda: sum(
        p["status"].get("phase") == "Running" for p in machine.pods().values()) == len(names), 180)


def remove_pods(machine, names):
    for name in names:
        (machine.manifests / f"{name}.json").unlink()
    machine.wait("all pods are gone", lambda: not machine.pods(), 180)


def row(name, unit, value, aim):
    return {"row": name, "unit": unit, "n": 1, "ours": {"p50": value}, "aim": aim}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--json", required=True)
    parser.add_argument("--pods", type=int, default=200)
    args = parser.parse_args()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    top = tempfile.mkdtemp(prefix="holdfast-density-")
    image = pathlib.Path(top) / "busybox.tar"
    subprocess.run([TOP / "packaging/make-image", "busybox", image], check=True)
    machine = Machine(args.bin, top, "density")
    machine.set_config(maxPods=args.pods + WARM_UP)
    try:
        machine.start_agent()
        machine.wait("the agent answers", lambda: machine.ctl("version"), 30)
        machine.wait("the keeper is there", lambda: all(machine.keepers().values()), 30)
        idle = snapshot(machine)
        machine.ctl("image", "import", image, "--name", "test/busybox:latest")
        first = [f"first{i}" for i in range(WARM_UP)]
        start_pods(machine, first)
        remove_pods(machine, first)
        before = available_mb()
        names = [f"p{i}" for i in range(args.pods)]
        start_pods(machine, names)
        full = snapshot(machine)
        remove_pods(machine, names)
        per_pod = (before - full["available"]) / args.pods
        given_back = (available_mb() - full["available"]) / args.pods
        ours = lambda s, who, key: s[who][key]
        rows = [
            row("density.agent.idle.pss", "MB", ours(idle, "agent", "Pss"), "<= 24"),
            row("density.agent.idle.anonymous", "MB", ours(idle, "agent", "Pss_Anon"), "<= 8"),
            row("density.keeper.idle.pss", "MB", ours(idle, "keeper", "Pss"), "-"),
            row("density.keeper.idle.anonymous", "MB", ours(idle, "keeper", "Pss_Anon"), "-"),
            row(f"density.agent.{args.pods}pods.pss", "MB", ours(full, "agent", "Pss"), "-"),
            row(f"density.agent.{args.pods}pods.anonymous", "MB", ours(full, "agent", "Pss_Anon"), "-"),
            row(f"density.keeper.{args.pods}pods.pss", "MB", ours(full, "keeper", "Pss"), "-"),
            row(f"density.keeper.{args.pods}pods.anonymous", "MB", ours(full, "keeper", "Pss_Anon"), "-"),
            row("density.per_pod.all_in", "MB", round(per_pod, 3), "<= 0.35"),
            row("density.per_pod.given_back", "MB", round(given_back, 3), "-"),
            row("density.fds_per_pod", "fds", (full["fds"] - idle["fds"]) / args.pods, "-"),
            row("density.host_mounts.idle", "mounts", idle["mounts"], "-"),
            row(f"density.host_mounts.{args.pods}pods", "mounts", full["mounts"], "= idle"),
        ]
        with open(args.json, "w", encoding="utf-8") as file:
            for r in rows:
                file.write(json.dumps(r) + "\n")
    finally:
        machine.stop()
        shutil.rmtree(top, ignore_errors=True)


main()
