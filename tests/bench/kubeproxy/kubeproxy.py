#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kubeproxy.py BIN_DIR --json FILE --peers FILE [--sizes N,N] [--changes N]: Services end to end, our
agent fed with files beside kube-proxy fed by a real API server. In network and mount namespaces of
its own. Rows, in milliseconds: start, answer, sync, cpu, service, connect; and MB: memory."""
import argparse
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from contenders import (SERVICE_RANGE, SERVICES, SLICES, KubeProxy, Ours, cluster_ip, far_endpoints, processor_milliseconds,
                        pss_megabytes, register_node, service, slice_of, sync_seconds)
from probe import EARLY_CLIENT, ENDPOINTS, NODE, Probe, prepare_network

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from control_plane import ControlPlane  # noqa: E402

CONNECTIONS = 1000
PATIENCE = 600  # for a start with many Services
# kube-proxy collects changes for a second after the last one; each of ours comes after that.
REST = 1.3


def p50_p99(samples):
    ordered = sorted(samples)
    return {"p50": round(ordered[len(ordered) // 2], 4), "p99": round(ordered[len(ordered) * 99 // 100], 4)}


def measure(contender, probe, count, changes):
    """{row: samples}."""
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
        out["answer"].append(probe.milliseconds_until(address, n % 2, began, 60))
        time.sleep(0.2)  # what the change leaves to do is part of its cost
        now, total = sync_seconds()
        if total > syncs:
            out["sync"].append((now - seconds) * 1000 / (total - syncs))
        out["cpu"].append(processor_milliseconds(contender.pid) - spent)
    for n in range(changes // 2):
        time.sleep(REST)
        began = time.perf_counter()
        contender.add(count + n, 0)
        out["service"].append(probe.milliseconds_until(cluster_ip(count + n), 0, began, 60))
    out["connect"] = [probe.connect(address, 1)[1] for _ in range(CONNECTIONS)]
    out["memory"].append(pss_megabytes(contender.pid))
    for n in range(changes // 2):
        contender.remove(count + n)
    return out


def rows(count, measured):
    """`measured`: {contender: {row: samples}}, ours first."""
    units = {"memory": "MB"}
    for row, ours in measured["ours"].items():
        peers = {name: p50_p99(them[row]) for name, them in measured.items() if name != "ours" and them[row]}
        yield {"row": f"kubeproxy.{row}.{count}", "unit": units.get(row, "ms"), "n": len(ours),
               "ours": p50_p99(ours), "peers": peers}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--json", required=True)
    parser.add_argument("--peers", required=True, help="what the program of that name printed")
    parser.add_argument("--sizes", default="1000,5000")
    parser.add_argument("--changes", type=int, default=10)
    args = parser.parse_args()
    programs = dict(line.split("=", 1) for line in pathlib.Path(args.peers).read_text().split())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # cleans up on its way
    prepare_network()
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-kubeproxy-"))
    probe = Probe()
    control_plane = None
    try:
        (top / "control-plane").mkdir()
        control_plane = ControlPlane(programs, top / "control-plane", NODE, SERVICE_RANGE)
        control_plane.wait_until_ready()
        register_node(control_plane)
        there = 0
        with open(args.json, "w", encoding="utf-8") as file:
            for count in map(int, args.sizes.split(",")):
                began = time.monotonic()
                objects = ((path, body) for i in range(there, count) for path, body in (
                    (SERVICES, service(i)), (SLICES, slice_of(i, far_endpoints(i)))))
                control_plane.create_all(objects)
                there = count
                print(f"{count} services are in the API server, {time.monotonic() - began:.0f} s", flush=True)
                measured = {}
                for contender in contenders(args.bin, programs, control_plane, top / str(count), count):
                    contender.change(count // 2, 0)
                    try:
                        measured[contender.name] = measure(contender, probe, count, args.changes)
                    finally:
                        contender.stop()
                    print(contender.name, {r: p50_p99(s) for r, s in measured[contender.name].items() if s}, flush=True)
                control_plane.request("PATCH", f"{SLICES}/{slice_of(count // 2, [])['metadata']['name']}",
                                      {"endpoints": slice_of(0, far_endpoints(count // 2))["endpoints"]})
                for row in rows(count, measured):
                    file.write(json.dumps(row) + "\n")
                file.flush()
    finally:
        if control_plane:
            control_plane.stop()
        shutil.rmtree(top, ignore_errors=True)


def contenders(bin_dir, programs, control_plane, top, count):
    top.mkdir()
    yield Ours(bin_dir, top / "ours", count)
    for mode, kind in (("nftables", None), ("iptables", "legacy"), ("iptables", "nft")):
        folder = top / f"{mode}-{kind}"
        folder.mkdir()
        yield KubeProxy(programs["kube-proxy"], control_plane, folder, mode, kind)


main()
