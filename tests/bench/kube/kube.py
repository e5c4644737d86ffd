#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kube.py BIN_DIR --programs FILE --image TAR [--json FILE] [--n N] [--bursts N,N] [--idle SECONDS] [--parts P,P] [--alone]
[--before BIN_DIR]: one control plane, and in turns a node of ours, if asked for one of other programs of ours, an established node
(kubelet, containerd, runc, kube-proxy), and one that does nothing, which is the limit: what the control plane takes by itself;
another one does nothing but asks for the pods' tokens.
Started by run, in namespaces of its own."""
import argparse
import datetime
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "kube"), str(HERE.parents[1] / "support")]
from asking import IMAGE, until  # noqa: E402
from control_plane import at_once  # noqa: E402
from floor_node import FloorNode  # noqa: E402
from machine import usage  # noqa: E402
from pods_watch import PodsWatch  # noqa: E402
from two_nodes import FLOOR, OURS, STOCK, TOKENS, spread, two_nodes, write_row  # noqa: E402

NAMESPACE = "bench"
CLIENTS = 8
SERVERS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler")
SETTLE = 10  # seconds until what a burst left behind is done
MANY = 500  # pods that come and go before memory is looked at
ENDS_AT_ONCE = "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"


def pod(name, node):
    return {"metadata": {"name": name}, "spec": {
        "nodeName": node, "terminationGracePeriodSeconds": 30, "containers": [{
            "name": "c", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", ENDS_AT_ONCE]}]}}


def is_write_for_a_pod(event):
    """Of an audit log: what a pod's life costs besides its events, and without what a node says of itself."""
    return event["verb"] in ("create", "update", "patch", "delete") and event["objectRef"]["resource"] in ("pods", "serviceaccounts")


def moments(event):
    """When the server had a request, and when it had answered it, of an audit log; seconds."""
    return tuple(datetime.datetime.fromisoformat(event[of]).timestamp() for of in ("requestReceivedTimestamp", "stageTimestamp"))


class Steps:
    """Where the milliseconds of lives go, by the audit log: what the node asked for them, and when."""

    def __init__(self, node):
        self.node = node
        self.spans = {}

    def add(self, name, seconds):
        self.spans.setdefault(name, []).append(1000 * seconds)

    def add_life(self, asked, created, running, deleted, gone):
        """`asked`: events of one pod; the others: when the client began to ask and when its watch told, by the wall clock."""
        def first(verb, what, last=False):
            found = [moments(e) for e in asked if e["verb"] == verb and e["objectRef"].get("subresource", "") == what]
            return found[-1 if last else 0]
        token, begun, ended, removed = (first("create", "token", True), first("patch", "status"), first("patch", "status", True),
                                        first("delete", ""))
        for name, since, until_then in (
                ("created to asking for the token", created, token[0]), ("the token", *token), ("token to patch", token[1], begun[0]),
                ("the patch", *begun), ("patch to watch", begun[1], running), ("deleted to the last patch", deleted, ended[0]),
                ("the last patch", *ended), ("patch to deletion", ended[1], removed[0]), ("the deletion", *removed),
                ("deletion to watch", removed[1], gone)):
            self.add(name, until_then - since)

    def tell(self):
        medians = ", ".join(f"{name} {statistics.median(spans):.1f}" for name, spans in self.spans.items())
        print(f"  {self.node}, ms: {medians}", file=sys.stderr)


def pod_of_token(event):
    return event.get("requestObject", {}).get("spec", {}).get("boundObjectRef", {}).get("name")


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
        before = {node: len(self.cluster.audit(node)) for node in self.real()}
        lives = {node: {} for node in self.nodes}  # name -> moments of the wall clock
        for turn in range(n + 2):
            for node in self.nodes:
                names = self.names(node, 1)
                began = time.time()
                up = self.create(names, node)
                time.sleep(0.3)  # a process that has just begun is not yet at its trap
                ends = time.time()
                down = self.delete(names)
                lives[node][names[0]] = (began, began + up, ends, ends + down)
                if turn >= 2:  # the first two warm up
                    created[node].append(up)
                    deleted[node].append(down)
        self.row("create_to_running", "ms", n, {node: spread(times) for node, times in created.items()},
                 "limit + 7 ms and <= 25 ms")
        self.row("delete_to_gone", "ms", n, {node: spread(times) for node, times in deleted.items()}, "limit + 7 ms")
        asked = {node: self.cluster.audit(node)[count:] for node, count in before.items()}
        for node in self.real():
            if node != STOCK:
                self.tell_steps(node, asked[node], lives[node])
        for name, counts in (("requests", lambda event: True), ("writes", is_write_for_a_pod)):
            self.row(f"{name}_per_pod", name, n + 2, {
                node: {"p50": sum(map(counts, events)) / (n + 2)} for node, events in asked.items()},
                "<= 4" if name == "writes" else None)

    def tell_steps(self, node, asked, lives):
        steps = Steps(node)
        for name, life in lives.items():
            of_it = [e for e in asked if is_write_for_a_pod(e) and (e["objectRef"].get("name") == name or pod_of_token(e) == name)]
            steps.add_life(of_it, *life)
        steps.tell()

    def real(self):
        return [node for node in self.nodes if node not in (FLOOR, TOKENS)]

    def memory_of(self, node, standing):
        time.sleep(SETTLE)
        parts = {part: round(usage(pids)[0], 1) for part, pids in sorted(self.nodes[node].pids().items())}
        print(f"  {node}, {standing} pods: {parts}", file=sys.stderr)
        return {"p50": sum(parts.values())}

    def processor_time(self, node):
        """Who has used how much so far: seconds. `machine`: everybody, kernel threads included."""
        fields = pathlib.Path("/proc/stat").read_text().split()[1:9]
        ticks = sum(map(int, fields)) - int(fields[3]) - int(fields[4])
        used = {"machine": ticks / os.sysconf("SC_CLK_TCK"), "client": time.process_time()}
        parts = {**self.nodes[node].pids(), **{name: [self.plane.process(name).pid] for name in SERVERS}}
        return {**used, **{part: usage(pids)[1] for part, pids in parts.items()}}

    def told(self, what, node, act):
        """act(), which returns seconds; who used the machine meanwhile goes to stderr."""
        before = self.processor_time(node)
        seconds = act()
        used = {part: round(time - before[part], 2) for part, time in self.processor_time(node).items() if part in before}
        print(f"  {what} on {node}: {seconds:.2f} s; seconds of processor time: {used}", file=sys.stderr)
        return {"p50": 1000 * seconds}

    def bursts(self, sizes, idle):
        """Each node alone: as many pods at once; its memory with them, and at rest with the most; their deletion."""
        created, deleted, memory, at_rest = {}, {}, {}, {}
        for node in self.nodes:
            real = node in self.real()
            if real:
                memory[node, 0] = self.memory_of(node, 0)
            for size in sizes:
                names = self.names(node, size)
                created[node, size] = self.told(f"create {size}", node, lambda n=node, all_of=names: self.create(all_of, n))
                if real:
                    memory[node, size] = self.memory_of(node, size)
                if real and size == max(sizes):
                    at_rest[node] = {"p50": self.at_rest(node, idle)}
                deleted[node, size] = self.told(f"delete {size}", node, lambda all_of=names: self.delete(all_of))
        for size in sizes:
            self.row(f"create_{size}", "ms", 1, {node: created[node, size] for node in self.nodes},
                     "<= 1000 ms" if size == 100 else None)
            self.row(f"delete_{size}", "ms", 1, {node: deleted[node, size] for node in self.nodes})
        for size in (0, *sizes):
            self.row(f"pss_{size}", "MiB", 1, {node: memory[node, size] for node in self.real()},
                     "agent <= 24 MiB" if size == 0 else None)
        self.row(f"idle_cpu_{max(sizes)}", "% of a core", idle, at_rest, "<= 0.3")

    def after_many(self):
        """What pods that came and went leave in the memory of what runs on our node."""
        for count in range(0, MANY, 50):
            names = self.names(OURS, 50)
            self.create(names, OURS)
            self.delete(names)
        self.row(f"pss_after_{MANY}", "MiB", 1, {OURS: self.memory_of(OURS, f"after {MANY}")})

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
    parser.add_argument("--parts", default="one,bursts,many", help="of the benchmark")
    parser.add_argument("--alone", action="store_true", help="without an established node")
    parser.add_argument("--before", type=pathlib.Path, help="other programs of ours, in turns")
    args = parser.parse_args()
    programs = dict(line.split("=", 1) for line in pathlib.Path(args.programs).read_text().split())
    parts = args.parts.split(",")
    with two_nodes(args.bin, programs, args.image, args.alone, args.before) as world, open(args.json, "a", encoding="utf-8") as out:
        floors = {FLOOR: FloorNode(world.cluster.plane, FLOOR), TOKENS: FloorNode(world.cluster.plane, TOKENS, tokens=True)}
        bench = Bench(world.cluster, {**world.nodes, **floors}, out)
        if "one" in parts:
            bench.one_at_a_time(args.n)
        if "bursts" in parts:
            bench.bursts([int(size) for size in args.bursts.split(",")], args.idle)
        if "many" in parts:
            bench.after_many()


if __name__ == "__main__":
    main()
