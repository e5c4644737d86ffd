#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kube.py BIN_DIR --programs FILE --image TAR [--json FILE] [--n N] [--bursts N,N] [--idle SECONDS]: one control plane, and
in turns a node of ours, an established node (kubelet, containerd, runc, kube-proxy) and one that does nothing, which is the
limit: what the control plane takes by itself. Started by run, in namespaces of its own."""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "kube"), str(HERE.parents[1] / "support")]
from asking import IMAGE, until  # noqa: E402
from control_plane import at_once  # noqa: E402
from floor_node import FloorNode  # noqa: E402
from pods_watch import PodsWatch  # noqa: E402
from two_nodes import OURS, STOCK, spread, two_nodes, usage, write_row  # noqa: E402

NAMESPACE = "bench"
FLOOR = "floor"
CLIENTS = 8
SETTLE = 10  # seconds until what a burst left behind is done
ENDS_AT_ONCE = "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"


def pod(name, node):
    return {"metadata": {"name": name}, "spec": {
        "nodeName": node, "terminationGracePeriodSeconds": 30, "containers": [{
            "name": "c", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", ENDS_AT_ONCE]}]}}


def is_write_for_a_pod(event):
    """Of an audit log: what a pod's life costs besides its events, and without what a node says of itself."""
    return event["verb"] in ("create", "update", "patch", "delete") and event["objectRef"]["resource"] in ("pods", "serviceaccounts")


class Bench:
    def __init__(self, cluster, nodes, out):
        self.cluster = cluster
        self.plane = cluster.plane
        self.nodes = nodes  # name -> what has pids()
        self.out = out
        self.made = 0
        self.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        until("its account", lambda: self.plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
        self.watch = PodsWatch(self.plane, NAMESPACE)

    def row(self, name, unit, n, figures, aim=None):
        write_row(self.out, f"kube.{name}", unit, n, figures, figures.get(FLOOR), aim)

    def names(self, node, count):
        self.made += count
        return [f"{node}-{self.made - i}" for i in range(count)]

    def create(self, names, node):
        """Seconds until the last one runs."""
        began = time.monotonic()
        at_once(names, lambda name: self.plane.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod(name, node)), CLIENTS)
        return self.watch.wait(names, "Running") - began

    def delete(self, names):
        began = time.monotonic()
        at_once(names, lambda name: self.plane.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"), CLIENTS)
        return self.watch.wait(names, "gone") - began

    def one_at_a_time(self, n):
        created, deleted = {node: [] for node in self.nodes}, {node: [] for node in self.nodes}
        before = {node: len(self.cluster.audit(node)) for node in (OURS, STOCK)}
        for turn in range(n + 2):
            for node in self.nodes:
                names = self.names(node, 1)
                up = self.create(names, node)
                time.sleep(0.3)  # a process that has just begun is not yet at its trap
                down = self.delete(names)
                if turn >= 2:  # the first two warm up
                    created[node].append(up)
                    deleted[node].append(down)
        self.row("create_to_running", "ms", n, {node: spread(times) for node, times in created.items()},
                 "limit + 7 ms and <= 25 ms")
        self.row("delete_to_gone", "ms", n, {node: spread(times) for node, times in deleted.items()}, "limit + 7 ms")
        asked = {node: self.cluster.audit(node)[count:] for node, count in before.items()}
        for name, counts in (("requests", lambda event: True), ("writes", is_write_for_a_pod)):
            self.row(f"{name}_per_pod", name, n + 2, {
                node: {"p50": sum(map(counts, events)) / (n + 2)} for node, events in asked.items()},
                "<= 4" if name == "writes" else None)

    def memory_of(self, node, standing):
        time.sleep(SETTLE)
        parts = {part: round(usage(pids)[0], 1) for part, pids in sorted(self.nodes[node].pids().items())}
        print(f"  {node}, {standing} pods: {parts}", file=sys.stderr)
        return {"p50": sum(parts.values())}

    def bursts(self, sizes, idle):
        """Each node alone: as many pods at once; its memory with them, and at rest with the most; their deletion."""
        created, deleted, memory, at_rest = {}, {}, {}, {}
        for node in self.nodes:
            if node != FLOOR:
                memory[node, 0] = self.memory_of(node, 0)
            for size in sizes:
                names = self.names(node, size)
                created[node, size] = {"p50": 1000 * self.create(names, node)}
                if node != FLOOR:
                    memory[node, size] = self.memory_of(node, size)
                if node != FLOOR and size == max(sizes):
                    at_rest[node] = {"p50": self.at_rest(node, idle)}
                deleted[node, size] = {"p50": 1000 * self.delete(names)}
        for size in sizes:
            self.row(f"create_{size}", "ms", 1, {node: created[node, size] for node in self.nodes},
                     "<= 1000 ms" if size == 100 else None)
            self.row(f"delete_{size}", "ms", 1, {node: deleted[node, size] for node in self.nodes})
        for size in (0, *sizes):
            self.row(f"pss_{size}", "MiB", 1, {node: memory[node, size] for node in (OURS, STOCK)},
                     "agent <= 24 MiB" if size == 0 else None)
        self.row(f"idle_cpu_{max(sizes)}", "% of a core", idle, at_rest, "<= 0.3")

    def at_rest(self, node, seconds):
        pids = [pid for part in self.nodes[node].pids().values() for pid in part]
        before = usage(pids)[1]
        time.sleep(seconds)
        return 100 * (usage(pids)[1] - before) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--json", default="/dev/stdout")
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--bursts", default="30,100")
    parser.add_argument("--idle", type=int, default=60)
    args = parser.parse_args()
    programs = dict(line.split("=", 1) for line in pathlib.Path(args.programs).read_text().split())
    with two_nodes(args.bin, programs, args.image) as world, open(args.json, "a", encoding="utf-8") as out:
        floor = FloorNode(world.cluster.plane, FLOOR)
        bench = Bench(world.cluster, {**world.nodes, FLOOR: floor}, out)
        bench.one_at_a_time(args.n)
        bench.bursts([int(size) for size in args.bursts.split(",")], args.idle)


if __name__ == "__main__":
    main()
