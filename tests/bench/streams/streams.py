#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""streams.py BIN_DIR --programs FILE --image TAR [--json FILE] [--n N] [--mib N] [--sessions N] [--pods N]: what goes through a
node's HTTPS port, by a real kubectl and API server, of a node of ours and of an established one in turns. Started by run, in
namespaces of its own."""
import argparse
import contextlib
import json
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kube"), str(HERE.parents[1] / "kube"), str(HERE.parents[1] / "support")]
from asking import get, pod, until  # noqa: E402
from machine import usage  # noqa: E402
from two_nodes import OURS, STOCK, spread, two_nodes, write_row  # noqa: E402

ROUNDS = 3  # of what moves many bytes
SCRAPED = ("metrics", "metrics/cadvisor", "metrics/resource", "metrics/probes", "stats/summary")
# Serves /www and then stays; /data is a file of `mib` zeros.
SERVE = "mkdir /www; head -c {bytes} /dev/zero > /www/data; ln -s /www/data /data; httpd -p 80 -h /www; while :; do sleep 3600 & wait; done"

# Does what it is told over its own stdin; /text has lines of 100 bytes.
OBEY = ("yes $(printf %099d 0) | head -c {bytes} > /text; "
        "while read way; do case $way in ping) echo pong;; down) cat /text;; up) head -c {bytes} | wc -c;; esac; done")


class Streams:
    def __init__(self, world, args, out):
        self.cluster = world.cluster
        self.nodes = world.nodes
        self.args = args
        self.out = out
        self.kubectl_words = [json.loads(world.cluster.record.read_text())["kubectl"], "--kubeconfig", world.cluster.admin]
        for node in self.nodes:
            self.start([f"x-{node}"], node, SERVE.format(bytes=args.mib << 20))
            self.start([f"a-{node}"], node, OBEY.format(bytes=args.mib << 20), stdin=True)

    def row(self, name, unit, n, figures, limit=None, aim=None):
        write_row(self.out, f"streams.{name}", unit, n, figures, limit, aim)

    def start(self, names, node, script, **of_container):
        made = [pod(name, script, nodeName=node) for name in names]
        for each in made:
            each["spec"]["containers"][0].update(of_container)
        self.cluster.plane.create_all([("/api/v1/namespaces/default/pods", each) for each in made])
        until("pods run", lambda: all(p["status"].get("phase") == "Running" for p in get(self.cluster, "pods")["items"]), 300)

    def kubectl(self, *words, **more):
        done = subprocess.run([*self.kubectl_words, *words], check=False, stderr=subprocess.PIPE, **more)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.returncode}: {done.stderr.decode(errors='replace')[:500]}")

    def timed(self, *words, **more):
        began = time.monotonic()
        self.kubectl(*words, **{"stdout": subprocess.DEVNULL, **more})
        return time.monotonic() - began

    def rate(self, *words, **more):
        """MiB per second of a command that moves the file."""
        return self.args.mib / self.timed(*words, **more)

    # --- what is measured ---

    def exec_of_nothing(self):
        took, alone = {node: [] for node in self.nodes}, []
        for turn in range(self.args.n + 1):
            for node in self.nodes:
                seconds = self.timed("exec", f"x-{node}", "--", "true")
                if turn:  # the first one fills caches
                    took[node].append(seconds)
            alone.append(self.timed("get", "pod", f"x-{OURS}"))
        self.row("kubectl_exec", "ms", self.args.n, {node: spread(times) for node, times in took.items()},
                 spread(alone[1:]), "<= 50 (limit: `kubectl get pod`)")
        machine = self.cluster.nodes[OURS]
        done = subprocess.run([*machine.inside, machine.bin / "bench_exec", machine.run / "holdfastd.sock", "default",
                               f"x-{OURS}", str(self.args.n * 5)], check=True, capture_output=True, text=True)
        self.row("grpc_exec", "ms", self.args.n * 5, {OURS: json.loads(done.stdout)}, aim="<= 3")

    def bytes_per_second(self):
        zeros = pathlib.Path("/run/zeros")
        with open(zeros, "wb") as file:
            file.truncate(self.args.mib << 20)

        # What counts is what arrives: not each node waits for all of it.
        def up(node):
            with open(zeros, "rb") as file, tempfile.TemporaryFile() as counted:
                took = self.timed("exec", "-i", f"x-{node}", "--", "wc", "-c", stdin=file, stdout=counted)
                counted.seek(0)
                arrived = int(counted.read() or 0)
            if arrived != self.args.mib << 20:
                print(f"  {node}: {arrived} bytes of {self.args.mib << 20} arrived", file=sys.stderr)
            return arrived / took / (1 << 20)

        ways = {
            "exec_down": lambda node: self.rate("exec", f"x-{node}", "--", "cat", "/data"),
            "exec_up": up,
            "attach_down": self.attach_down,
            "attach_up": self.attach_up,
            "cp_down": lambda node: self.rate("cp", f"x-{node}:www/data", "/run/copied"),
            "cp_up": lambda node: self.rate("cp", str(zeros), f"x-{node}:copied"),
            "port_forward": self.forwarded}
        for name, way in ways.items():
            rates, failed = {node: [] for node in self.nodes}, {}
            for _ in range(ROUNDS):
                for node in self.nodes:
                    try:
                        rates[node].append(way(node))
                    except RuntimeError as error:  # the peer's websockets end early now and then
                        failed[node] = str(error)
            if OURS in failed:
                raise RuntimeError(failed[OURS])
            self.row(name, "MiB/s", ROUNDS, {node: {"p50": sorted(r)[len(r) // 2], "p99": min(r)} if r else failed[node]
                                             for node, r in rates.items()})

    @contextlib.contextmanager
    def forward(self, node):
        """A port of ours that is the pod's 80."""
        process = subprocess.Popen([*self.kubectl_words, "port-forward", f"x-{node}", ":80"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        try:
            yield re.search(r":(\d+) ->", process.stdout.readline())[1]
        finally:
            process.kill()
            process.wait()

    def forwarded(self, node):
        with self.forward(node) as port:
            began = time.monotonic()
            subprocess.run(["wget", "-q", "-O", "/dev/null", f"http://127.0.0.1:{port}/data"], check=True)
            return self.args.mib / (time.monotonic() - began)

    @contextlib.contextmanager
    def attached(self, node):
        """A client of the program's own streams, which have answered it."""
        process = subprocess.Popen([*self.kubectl_words, "attach", "-i", f"a-{node}"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        try:
            asked = 0
            while not select.select([process.stdout], [], [], 0.5)[0]:  # what is answered before it is attached, it misses
                process.stdin.write(b"ping\n")
                asked += 1
                if asked > 60:
                    raise RuntimeError(f"kubectl attach of a-{node}: no answer")
            while select.select([process.stdout], [], [], 0.5)[0]:  # the answers to the other pings
                if not process.stdout.read(4096):
                    raise RuntimeError(f"kubectl attach of a-{node} has ended")
            yield process
        finally:
            process.kill()
            process.wait()

    def attach_down(self, node):
        with self.attached(node) as client:
            began, left = time.monotonic(), self.args.mib << 20
            client.stdin.write(b"down\n")
            while left > 0:
                got = len(client.stdout.read(1 << 20))
                if got == 0:
                    raise RuntimeError(f"kubectl attach of a-{node} ended {left} bytes early")
                left -= got
            return self.args.mib / (time.monotonic() - began)

    def attach_up(self, node):
        zeros = bytes(1 << 20)
        with self.attached(node) as client:
            began = time.monotonic()
            client.stdin.write(b"up\n")
            for _ in range(self.args.mib):
                left = memoryview(zeros)
                while left:
                    left = left[client.stdin.write(left):]
            if client.stdout.readline().strip() != str(self.args.mib << 20).encode():
                raise RuntimeError(f"kubectl attach of a-{node}: not all arrived")
            return self.args.mib / (time.monotonic() - began)

    def daemons(self, node):
        """What serves the streams; not what stands beside each pod."""
        return [pid for part, pids in self.nodes[node].pids().items() if part not in ("shims", "pauses") for pid in pids]

    def idle_sessions(self):
        figures = {}
        for node in self.nodes:
            before = usage(self.daemons(node))[0]
            sessions = [subprocess.Popen([*self.kubectl_words, "exec", "-i", f"x-{node}", "--", "cat"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(self.args.sessions)]
            for session in sessions:
                session.stdin.write(b"x\n")
                session.stdin.flush()
                session.stdout.readline()
            figures[node] = {"p50": 1024 * (usage(self.daemons(node))[0] - before) / self.args.sessions}
            for session in sessions:
                session.stdin.close()
                session.wait()
        self.row("memory_per_idle_session", "KiB", self.args.sessions, figures)

    def scrapes(self):
        """Through the API server's proxy; the same way for both."""
        for node in self.nodes:
            self.start([f"s-{node}-{i}" for i in range(self.args.pods - 1)], node, "while :; do sleep 3600 & wait; done")
        for path in SCRAPED:
            took, cost = {node: [] for node in self.nodes}, {}
            for node in self.nodes:
                before = usage(self.daemons(node))[1]
                for _ in range(self.args.n):
                    began = time.monotonic()
                    self.cluster.plane.exchange("GET", f"/api/v1/nodes/{node}/proxy/{path}", None, "text/plain")
                    took[node].append(time.monotonic() - began)
                cost[node] = {"p50": 1000 * (usage(self.daemons(node))[1] - before) / self.args.n}
            name = path.replace("/", "_")
            self.row(f"scrape_{name}", "ms", self.args.n, {node: spread(times) for node, times in took.items()})
            self.row(f"scrape_{name}_cpu", "ms of a core", self.args.n, cost)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--image", required=True)
    parser.add_argument("--json", default="/dev/stdout")
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--pods", type=int, default=100, help="that stand while it is scraped")
    args = parser.parse_args()
    programs = dict(line.split("=", 1) for line in pathlib.Path(args.programs).read_text().split())
    with two_nodes(args.bin, programs, args.image) as world, open(args.json, "a", encoding="utf-8") as out:
        streams = Streams(world, args, out)
        streams.exec_of_nothing()
        streams.bytes_per_second()
        streams.idle_sessions()
        streams.scrapes()


if __name__ == "__main__":
    main()
