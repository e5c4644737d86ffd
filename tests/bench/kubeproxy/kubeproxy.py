#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubeproxy.py BIN_DIR --json FILE --peers FILE [--sizes N,N] [--shape clusterip|lb] [--modes MODE,MODE] [--rounds N]
[--changes N] [--patience SECONDS]: Services end to end, our agent fed with files beside kube-proxy fed by a real API server, in turns: in each round
each of them starts, gets its changes, and ends. In network and mount namespaces of its own.
Rows, in milliseconds: start, answer, sync, cpu, service, connect; and MB: memory."""
import argparse
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from contenders import (SERVICE_RANGE, SLICES, KubeProxy, Ours, cluster_ip, create_service, far_endpoints,
                        processor_milliseconds, pss_megabytes, register_node, slice_of, sync_seconds)
from probe import EARLY_CLIENT, ENDPOINTS, NODE, Probe, prepare_network

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from control_plane import ControlPlane, at_once  # noqa: E402

CONNECTIONS = 300  # per round
PATIENCE = 600  # for a start with many Services
# Name of a mode: kube-proxy's, and which iptables it finds.
MODES = {"nftables": ("nftables", None), "iptables-legacy": ("iptables", "legacy"), "iptables-nft": ("iptables", "nft"),
         "ipvs": ("ipvs", "legacy")}
# kube-proxy collects changes for a second after the last one; each of ours comes after that.
REST = 1.3


def p50_p99(samples):
    ordered = sorted(samples)
    return {"p50": round(ordered[len(ordered) // 2], 4), "p99": round(ordered[len(ordered) * 99 // 100], 4)}


def measure(contender, probe, count, changes, patience):
    """{row: samples} of one round."""
    middle = count // 2
    address = cluster_ip(middle)
    out = {"start": [], "answer": [], "sync": [], "cpu": [], "service": [], "connect": [], "memory": []}
    began = time.perf_counter()
    contender.start()
    out["start"].append(probe.milliseconds_until(address, 0, began, PATIENCE, EARLY_CLIENT))
    time.sleep(REST)
    for n in range(1, changes + 1):
        time.sleep(REST)
        spent, (seconds, syncs) = processor_milliseconds(contender.pid), sync_seconds()
        began = time.perf_counter()
        contender.change(middle, n % 2)
        out["answer"].append(probe.milliseconds_until(address, n % 2, began, patience))
        time.sleep(0.2)  # what the change leaves to do is part of its cost
        now, total = sync_seconds()
        if total > syncs:
            out["sync"].append((now - seconds) * 1000 / (total - syncs))
        out["cpu"].append(processor_milliseconds(contender.pid) - spent)
    for n in range(changes // 2):
        time.sleep(REST)
        began = time.perf_counter()
        contender.add(count + n, 0)
        out["service"].append(probe.milliseconds_until(cluster_ip(count + n), 0, began, patience))
    out["connect"] = [probe.connect(address, 1)[1] for _ in range(CONNECTIONS)]
    out["memory"].append(pss_megabytes(contender.pid))
    for n in range(changes // 2):
        contender.remove(count + n)
    return out


def rows(name, measured, out):
    """`measured`: {contender: {row: samples}, or why there are none}."""
    units = {"memory": "MB"}
    ours = measured.pop("ours")
    for row, samples in ours.items():
        peers = {who: them if isinstance(them, str) else p50_p99(them[row])
                 for who, them in measured.items() if isinstance(them, str) or them[row]}
        out.write(json.dumps({"row": f"kubeproxy.{row}.{name}", "unit": units.get(row, "ms"), "n": len(samples),
                              "ours": p50_p99(samples), "peers": peers}) + "\n")
    out.flush()


class World:
    """An API server with Services, and who serves them, one after the other."""

    def __init__(self, args, programs, top):
        self.args, self.programs, self.top = args, programs, top
        self.probe = Probe()
        (top / "control-plane").mkdir()
        self.control_plane = ControlPlane(programs, top / "control-plane", NODE, SERVICE_RANGE)
        self.control_plane.wait_until_ready(args.patience)
        register_node(self.control_plane)
        self.there = 0

    def grow(self, count):
        began = time.monotonic()
        at_once(range(self.there, count), lambda i: create_service(self.control_plane, i, self.args.shape))
        self.control_plane.create_all((SLICES, slice_of(i, far_endpoints(i))) for i in range(self.there, count))
        self.there = count
        print(f"{count} services are in the API server, {time.monotonic() - began:.0f} s", flush=True)

    def contender(self, name, count):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.top))
        if name == "ours":
            return Ours(self.args.bin, folder / "ours", count, self.args.shape, self.args.mode)
        mode, kind = MODES[name]
        return KubeProxy(self.programs["kube-proxy"], self.control_plane, folder, mode, kind, self.args.shape)

    def turn(self, name, count):
        contender = self.contender(name, count)
        contender.change(count // 2, 0)
        try:
            found = measure(contender, self.probe, count, self.args.changes, self.args.patience)
        finally:
            contender.stop()
        print(contender.name, {r: p50_p99(s) for r, s in found.items() if s}, flush=True)
        return contender.name, found

    def measure(self, count):
        """{contender: {row: samples}}; who does not come to an end once has no more turns."""
        measured, left_out = {}, set()
        for _ in range(self.args.rounds):
            for name in ("ours", *self.args.modes.split(",")):
                if name in left_out:
                    continue
                try:
                    who, found = self.turn(name, count)
                except TimeoutError as error:
                    if name == "ours":
                        raise
                    left_out.add(name)
                    measured[f"kube-proxy {name}"] = str(error)
                    continue
                for row, samples in found.items():
                    measured.setdefault(who, {}).setdefault(row, []).extend(samples)
        middle = count // 2
        self.control_plane.request("PATCH", f"{SLICES}/{slice_of(middle, [])['metadata']['name']}",
                                   {"endpoints": slice_of(0, far_endpoints(middle))["endpoints"]})
        return measured


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--json", required=True)
    parser.add_argument("--peers", required=True, help="what the program of that name printed")
    parser.add_argument("--sizes", default="1000,5000")
    parser.add_argument("--shape", default="clusterip", choices=("clusterip", "lb"))
    parser.add_argument("--mode", default="nftables", help="ours")
    parser.add_argument("--modes", default="nftables,iptables-legacy,iptables-nft", help=f"kube-proxy's: {', '.join(MODES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--changes", type=int, default=4, help="per round")
    parser.add_argument("--patience", type=int, default=60, help="seconds until the API server answers, and a change is in force")
    args = parser.parse_args()
    programs = dict(line.split("=", 1) for line in pathlib.Path(args.peers).read_text().split())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # cleans up on its way
    prepare_network()
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-kubeproxy-"))
    world = None
    try:
        world = World(args, programs, top)
        with open(args.json, "a", encoding="utf-8") as out:
            for count in map(int, args.sizes.split(",")):
                world.grow(count)
                rows(str(count) if args.shape == "clusterip" else f"{args.shape}.{count}", world.measure(count), out)
    finally:
        if world:
            world.control_plane.stop()
        shutil.rmtree(top, ignore_errors=True)


main()
