#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""density.py BIN_DIR --json FILE [--pods N]: what N idle pods cost, everything counted, ours and the limit program's by turns:
objects, page tables and stacks of the kernel (memory.py), pages of tmpfs, memory of the pods' own processes, and what
agent and keeper grow by. Besides: PSS and anonymous memory of agent and keeper, descriptors, host mounts.
"idle" is an agent that has started and never had a pod or image; before the N pods it has had some, so that
what the first ones leave behind is not charged to them. Wants a quiet machine: "given_back" is what went with the
pods again, and close to "kernel" when nothing else disturbed."""
import os
import pathlib
import statistics
import subprocess
import sys
import time

import alike
import memory
from pods import CALM, Ours, add_rows, arguments, machine_for_pods, sleepers
from sleepers import make_layer

WARM_UP = 50
ROUNDS = 2
SHOWN_CACHES = 12
KERNEL = ("slab", "page tables", "stacks", "per CPU")


def descriptors(pids):
    return sum(len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def host_mounts():
    return len(pathlib.Path("/proc/self/mounts").read_text().splitlines())


class Limit:
    """Pods of tests/bench/limit: the same objects of the kernel, and nobody who keeps them."""

    def __init__(self, bin_dir, folder):
        self.command = [pathlib.Path(bin_dir) / "bench_start_limit", folder, f"/holdfast-density-{os.getpid()}", "net"]
        make_layer(folder)
        self.process = None

    def daemons(self):
        return {}

    def start(self, count):
        self.process = subprocess.Popen([*self.command, f"hold={count}"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the limit program could not start its pods")

    def stop(self):
        self.process.communicate()


def snapshot(who):
    daemons = who.daemons()
    if daemons:
        time.sleep(CALM)
    return {**{name: memory.of_processes(pids) for name, pids in daemons.items()},
            "fds": descriptors(p for pids in daemons.values() for p in pids), "mounts": host_mounts()}


def turn(who, count):
    """MB per pod by kind, and a snapshot of the daemons while the pods stand."""
    before, own_before = memory.reading(), snapshot(who)
    who.start(count)
    after, own = memory.reading(), snapshot(who)
    cost = memory.between(before, after, count)
    cost["processes"] = memory.of_processes(sleepers())["Pss"] / count
    cost["daemons"] = sum(own[name]["Pss_Anon"] - own_before[name]["Pss_Anon"] for name in who.daemons()) / count
    who.stop()
    given_back = memory.between(memory.reading(), after, count)
    cost["kernel"] = sum(cost[kind] for kind in KERNEL)
    cost["all_in"] = cost["kernel"] + cost["tmpfs"] + cost["processes"] + cost["daemons"]
    cost["given_back"] = sum(given_back[kind] for kind in KERNEL)
    return cost, own


def row(name, unit, value, aim="-", limit=None, n=1):
    found = {"row": f"density.{name}", "unit": unit, "n": n, "ours": {"p50": value}, "aim": aim}
    return found if limit is None else {**found, "limit": {"p50": limit}}


def middle_of(costs):
    """{who: {kind: median of its rounds}}; `costs`: {who: [cost of each round]}."""
    return {who: {kind: round(statistics.median(c[kind] for c in all_of), 4) for kind in all_of[0]}
            for who, all_of in costs.items()}


def tell_caches(middle):
    """On stderr, the kernel's caches in which a pod of ours and one of the limit program differ most."""
    ours, limit = middle["ours"], middle["limit"]
    caches = [kind for kind in ours if kind.startswith("slab ")]
    for cache in sorted(caches, key=lambda kind: -abs(ours[kind] - limit[kind]))[:SHOWN_CACHES]:
        print(f"{cache.removeprefix('slab ')}: {ours[cache] * 1024:.1f} KiB a pod, limit {limit[cache] * 1024:.1f}", file=sys.stderr)


def per_pod(middle):
    """Rows of all kinds, ours beside the limit."""
    for kind in ("all_in", "kernel", "given_back", *KERNEL, "tmpfs", "processes", "daemons"):
        yield row(f"per_pod.{kind.replace(' ', '_')}", "MB", middle["ours"][kind],
                  "1.15 x limit" if kind == "all_in" else "-", middle["limit"][kind], ROUNDS)


def of_daemons(when, seen, aims):
    for name in ("agent", "keeper"):
        for key, what in (("Pss", "pss"), ("Pss_Anon", "anonymous")):
            yield row(f"{name}.{when}.{what}", "MB", round(seen[name][key], 2), aims.get(f"{name}.{what}", "-"))


def main():
    args = arguments(pods=200)
    with machine_for_pods(args.bin, "density", args.pods + WARM_UP) as (machine, import_image):
        ours, limit = Ours(machine), Limit(args.bin, machine.top / "limit")
        idle = snapshot(ours)
        import_image()
        costs, full = {"ours": [], "limit": []}, None
        seen = []
        for who in (ours, limit):
            who.start(WARM_UP)
            seen.append(alike.of(sleepers()[0]))
            who.stop()
        alike.check(*seen)
        for _ in range(ROUNDS):
            cost, full = turn(ours, args.pods)
            costs["ours"].append(cost)
            costs["limit"].append(turn(limit, args.pods)[0])
        middle = middle_of(costs)
        tell_caches(middle)
        rows = [
            *of_daemons("idle", idle, {"agent.pss": "<= 16", "agent.anonymous": "<= 3"}),
            *of_daemons(f"{args.pods}pods", full, {"agent.pss": "<= 22", "agent.anonymous": "<= 8"}),
            *per_pod(middle),
            row("fds_per_pod", "fds", (full["fds"] - idle["fds"]) / args.pods, "<= 11"),
            row("host_mounts.idle", "mounts", idle["mounts"]),
            row(f"host_mounts.{args.pods}pods", "mounts", full["mounts"], "= idle"),
        ]
        add_rows(args.json, rows)


main()
