#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""probes.py BIN_DIR --programs FILE --image TAR [--json FILE] [--pods N] [--stock N,N] [--seconds S]: pods with a probe each
second, a quarter of them each by exec, HTTP, TCP and gRPC. Ours with as many as --stock says and with --pods; a kubelet and
containerd with as many as --stock says, in the same run; a program that does nothing else, on our pods without probes, is the
limit. Neither has an API server. Started by run, in namespaces of its own.

And the agent (the kubelet) is killed and started again while the most pods of --stock are there and ready: until it shows all of them
ready, how many it showed not ready after that, how many containers had started again.

For each kind: how late a probe came, by what the probed program saw; what the nodes' own metrics say an answer took. For all:
how many of those that were due came, processor time of the node's programs, and of the whole machine."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kube"), str(HERE.parents[1] / "kube"), str(HERE.parents[1] / "support")]
from alone import Ours, Stock  # noqa: E402
from asking import IMAGE  # noqa: E402
from beats import lateness, read_beats  # noqa: E402
from two_nodes import OURS, STOCK, give_images, spread, write_row  # noqa: E402

KINDS = {"e": "exec", "h": "http", "t": "tcp", "g": "grpc"}
SETTLE = 8  # seconds after the last pod is ready
WATCHED = 3  # seconds after a restart: all probes come again
TICK = os.sysconf("SC_CLK_TCK")


def probe(kind, name):
    return {"e": {"exec": {"command": ["/probed", "exec", f"/beats/{name}"]}}, "h": {"httpGet": {"path": "/", "port": 8080}},
            "t": {"tcpSocket": {"port": 8081}}, "g": {"grpc": {"port": 8082}}}[kind]


def manifest(name, beats, probed):
    kind = name[0]
    container = {"name": "c", "image": f"docker.io/library/{IMAGE}", "imagePullPolicy": "Never",
                 "command": ["/probed", "serve", f"/beats/{name}"], "volumeMounts": [{"name": "beats", "mountPath": "/beats"}]}
    if probed:
        container["readinessProbe"] = {**probe(kind, name), "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0, "containers": [container],
        "volumes": [{"name": "beats", "hostPath": {"path": str(beats), "type": "Directory"}}]}}


def is_ready(pod):
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def cpu_of(pids):
    """Seconds of processes and of their children that are gone."""
    ticks = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICK


def cpu_of_machine():
    """Seconds that its processors were not idle."""
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / TICK


def took(text):
    """Of /metrics/probes: kind -> (sum of seconds, count)."""
    sums = {kind: [0.0, 0.0] for kind in KINDS}
    for part, pod, value in re.findall(r'^prober_probe_duration_seconds_(sum|count)\{.*?pod="(\w)[^}]*\} (\S+)$', text, re.M):
        sums[pod][part == "count"] += float(value)
    return sums


class Figures:
    """Of one span: what is measured of it."""

    def __init__(self):
        self.late = {}  # kind -> [seconds]
        self.took = {}  # kind -> mean seconds
        self.came = 0.0  # of those due
        self.cpu = {}  # part -> % of a core
        self.machine = 0.0
        self.failed = 0


def span(node, names, beats, seconds):
    """Watches a node whose pods are all ready for a while."""
    figures = Figures()
    metrics, began = took(node.probe_metrics()), time.monotonic_ns()
    machine, parts = cpu_of_machine(), {part: (pids, cpu_of(pids)) for part, pids in node.pids().items()}
    time.sleep(seconds)
    ended = time.monotonic_ns()
    length = (ended - began) / 1e9
    figures.machine = 100 * (cpu_of_machine() - machine) / length
    figures.cpu = {part: 100 * (cpu_of(pids) - before) / length for part, (pids, before) in parts.items()}
    text = node.probe_metrics()
    for kind, (total, count) in took(text).items():
        figures.took[kind] = (total - metrics[kind][0]) / max(count - metrics[kind][1], 1)
    figures.failed = sum(float(v) for v in re.findall(r'^prober_probe_total\{[^}]*result="failed"[^}]*\} (\S+)$', text, re.M))
    count_beats(figures, names, beats, began, ended)
    return figures


def count_beats(figures, names, beats, began, ended):
    figures.late = {kind: [] for kind in KINDS}
    came = 0
    for name in names:
        times = read_beats(beats / name, began, ended)
        came += len(times)
        figures.late[name[0]] += lateness(times)
    figures.came = 100 * came * 1e9 / (ended - began) / len(names)


def life_of(pods):
    """What a restart is not to change: name -> whether it is ready, since when, how often its container started again."""
    return {name: [(c["status"], c.get("lastTransitionTime")) for c in pod["status"]["conditions"] if c["type"] == "Ready"] +
                  [c["restartCount"] for c in pod["status"]["containerStatuses"]] for name, pod in pods.items()}


class Restarts:
    """Of one node: milliseconds until it shows all pods ready, pods that it showed otherwise than before, and containers that
    started again."""

    def __init__(self):
        self.times, self.changed, self.started_again = [], 0, 0

    def once(self, node, count):
        before = life_of(node.pods())
        began = time.monotonic()
        node.restart()
        changed = set()
        while True:
            try:
                pods = node.pods()
            except (OSError, RuntimeError, ValueError):
                pods = {}
            if sum(map(is_ready, pods.values())) == count:
                break
            changed |= {name for name, pod in pods.items() if not is_ready(pod)}
            if time.monotonic() - began > 120:
                raise TimeoutError(f"after a restart not all of {count} pods are ready")
            time.sleep(0.01)
        self.times.append(time.monotonic() - began)
        until_then = time.monotonic() + WATCHED
        while time.monotonic() < until_then:
            after = life_of(node.pods())
            changed |= {name for name, life in before.items() if after.get(name) != life}
            time.sleep(0.2)
        self.changed += len(changed)
        self.started_again += sum(before[name][-1] != after[name][-1] for name in before)


class Bench:
    def __init__(self, args, programs, top):
        self.args = args
        self.programs = programs
        self.top = top
        self.out = open(args.json, "a", encoding="utf-8")

    def say(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)

    def fill(self, node, names, probed=True):
        beats = self.top / "beats"
        shutil.rmtree(beats, ignore_errors=True)
        beats.mkdir()
        began = time.monotonic()
        for name in names:
            new = node.manifests / f".{name}"
            new.write_text(json.dumps(manifest(name, beats, probed)))
            new.rename(node.manifests / f"{name}.json")
        self.wait_for(node, lambda pods: sum(map(is_ready, pods.values())) == len(names))
        self.say(f"{len(names)} pods ready after {time.monotonic() - began:.1f} s")
        time.sleep(SETTLE)
        return beats

    def measure(self, node, count):
        names = self.names(count)
        figures = span(node, names, self.fill(node, names), self.args.seconds)
        parts = {part: round(percent, 1) for part, percent in figures.cpu.items()}
        if len(parts) > 8:
            parts = {"all": round(sum(parts.values()), 1)}
        self.say(f"{node.title}, {count} pods: {parts} % of a core, {figures.failed:.0f} failed since their start")
        return figures

    def restarts(self, node):
        """Of a node with its pods."""
        count, done = len(node.pods()), Restarts()
        for _ in range(self.args.restarts):
            done.once(node, count)
        self.say(f"{node.title}, {count} pods, {self.args.restarts} restarts: {done.changed} changed, "
                 f"{done.started_again} started again")
        return done

    @staticmethod
    def names(count):
        return [f"{'ehtg'[i % 4]}{i}" for i in range(count)]

    @staticmethod
    def wait_for(node, ready, seconds=400):
        """Seldom: each look at so many pods costs the node."""
        deadline = time.monotonic() + seconds
        while not ready(node.pods()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{node.title}: its pods are not what they are to be after {seconds} s")
            time.sleep(1)

    def empty(self, node):
        for file in node.manifests.glob("*.json"):
            file.unlink()
        self.wait_for(node, lambda pods: not pods)

    def limit(self, node, count):
        """The same probes by a program that does nothing else, on pods without any."""
        names = self.names(count)
        beats = self.fill(node, names, probed=False)
        processes = node.processes()
        targets = []
        for name, pod in node.pods().items():
            run = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("holdfast://")
            targets.append(f"{name[0]} {pod['status']['podIP']} {processes[run]} /beats/{name}")
        figures = Figures()
        seconds = self.args.seconds + 4
        began, before, machine = time.monotonic_ns(), os.times(), cpu_of_machine()
        done = subprocess.run([self.args.bin / "bench_probes_limit", str(seconds)], input="\n".join(targets), text=True,
                              check=True, capture_output=True)
        after, ended = os.times(), time.monotonic_ns()
        length = (ended - began) / 1e9
        figures.cpu = {"limit": 100 * (after.children_user + after.children_system - before.children_user
                                       - before.children_system) / length}
        figures.machine = 100 * (cpu_of_machine() - machine) / length
        begun, _, figures.failed = map(int, done.stdout.split())
        self.say(f"limit, {count} pods: {begun} begun, {figures.failed} failed, {figures.cpu['limit']:.1f} % of a core")
        count_beats(figures, names, beats, began + 2_000_000_000, ended - 2_000_000_000)
        self.empty(node)
        return figures

    def rows(self, count, ours, stock=None, limit=None):
        row = lambda name, unit, of: write_row(
            self.out, f"probes.{name}.{count}", unit, int(self.args.seconds),
            {OURS: of(ours), **({STOCK: of(stock)} if stock else {})}, of(limit) if limit and of(limit) else None)
        for kind, name in KINDS.items():
            row(f"late.{name}", "ms", lambda f, kind=kind: spread(f.late[kind]))
            row(f"took.{name}", "ms, mean", lambda f, kind=kind: {"p50": 1000 * f.took[kind]} if f.took else None)
        row("came", "% of those due", lambda f: {"p50": f.came})
        row("cpu", "% of a core", lambda f: {"p50": sum(f.cpu.values())})
        row("cpu_machine", "% of a core", lambda f: {"p50": f.machine})

    def run(self):
        sizes = [int(size) for size in self.args.stock.split(",")]
        figures, limits, theirs, restarted = {}, {}, {}, {}
        archives = self.run_ours(sizes, figures, limits, restarted)
        if self.args.peer:
            self.run_stock(sizes, archives, theirs, restarted)
        for size, mine in figures.items():
            self.rows(size, mine, theirs.get(size), limits.get(size))
        self.restart_rows(max(sizes), restarted)

    def run_ours(self, sizes, figures, limits, restarted):
        """Returns the archives of the images."""
        ours = Ours(self.args.bin, self.top / "ours", "probes")
        with contextlib.ExitStack() as after:
            after.callback(ours.stop)
            ours.start()
            archives = give_images(ours, self.programs, self.top, self.args.image)
            for size in sorted({*sizes, self.args.pods}):
                if self.args.limit:
                    limits[size] = self.limit(ours, size)
                figures[size] = self.measure(ours, size)
                if size == max(sizes):
                    restarted[OURS] = self.restarts(ours)
                self.empty(ours)
            return archives

    def run_stock(self, sizes, archives, theirs, restarted):
        stock = Stock(self.programs, self.top / "stock", archives)
        with contextlib.ExitStack() as after:
            after.callback(stock.stop)
            stock.start()
            for size in sizes:
                self.empty(stock)
                theirs[size] = self.measure(stock, size)
            restarted[STOCK] = self.restarts(stock)

    def restart_rows(self, count, restarted):
        row = lambda name, unit, of, aim: write_row(
            self.out, f"probes.restart.{name}.{count}", unit, self.args.restarts,
            {node: of(done) for node, done in restarted.items()}, aim=aim)
        row("ready", "ms", lambda done: spread(done.times), "<= 1000")
        row("changed", "pods, in all", lambda done: {"p50": done.changed}, "0")
        row("started_again", "containers, in all", lambda done: {"p50": done.started_again}, "0")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--image", help="of another benchmark; not used")
    parser.add_argument("--json", default="/dev/stdout")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--stock", default="40,110", help="how many pods the kubelet has, and ours beside --pods")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True, help="no: ours alone")
    parser.add_argument("--restarts", type=int, default=20, help="with the most pods of --stock")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--limit", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    programs = dict(line.split("=", 1) for line in pathlib.Path(args.programs).read_text().split())
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-probes-"))
    args.image = top / "probed.tar"
    root = top / "image"
    root.mkdir()
    shutil.copy(args.bin / "bench_probed", root / "probed")
    subprocess.run(["tar", "--owner=0", "--group=0", "-cf", args.image, "-C", root, "."], check=True)
    try:
        Bench(args, programs, top).run()
    finally:
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    main()
