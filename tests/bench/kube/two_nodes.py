# SPDX-License-Identifier: Apache-2.0
"""The world of the benchmarks that have an API server: one control plane, a node of ours and an established one, which have
the same images. What is measured of them, and how a row is written."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
from typing import NamedTuple

from asking import IMAGE, are_ready, until
from kube_cluster import DNS, POD_RANGE, Cluster
from stock_node import PAUSE, StockNode

OURS, STOCK = "n1", "s1"
STOCK_ADDRESS = "10.200.0.51"
STOCK_NAME = "kubelet 1.36.3 + containerd 2.4.2"


class World(NamedTuple):
    cluster: Cluster
    nodes: dict  # OURS and STOCK -> what has pids(): part -> processes


class Ours:
    def __init__(self, machine):
        self.machine = machine

    def pids(self):
        return {"agent": [self.machine.agent.pid], **self.machine.keepers()}


@contextlib.contextmanager
def two_nodes(bin_dir, programs, image):
    """`image`: a root tar, IMAGE on both nodes."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-kube-"))
    cluster = Cluster(top / "cluster", bin_dir)
    stock = None
    try:
        cluster.up(programs, 1)
        until("our node is ready", lambda: are_ready(cluster))
        archives = give_images(cluster.nodes[OURS], programs, top, image)
        stock = StockNode(programs, top / STOCK, STOCK, STOCK_ADDRESS, cluster.join(STOCK, STOCK_ADDRESS), cluster)
        stock.start(archives, POD_RANGE, DNS)
        yield World(cluster, {OURS: Ours(cluster.nodes[OURS]), STOCK: stock})
    finally:
        if stock is not None:
            stock.stop()
        cluster.down()
        shutil.rmtree(top, ignore_errors=True)


def give_images(node, programs, top, image):
    """To our node; as it exports them, so that both run the same bytes, they are OCI archives."""
    root, pause = top / "pause", top / "pause.tar"
    root.mkdir()
    shutil.copy(programs["pause"], root / "pause")
    subprocess.run(["tar", "--owner=0", "--group=0", "-cf", pause, "-C", root, "."], check=True)
    name = f"docker.io/library/{IMAGE}"
    node.ctl("image", "import", image, "--name", name, "--cmd", "/bin/sh")
    node.ctl("image", "import", pause, "--name", PAUSE, "--entrypoint", "/pause")
    archives = []
    for number, exported in enumerate((name, PAUSE)):
        archives.append(top / f"image{number}.oci.tar")
        with open(archives[-1], "wb") as file:
            subprocess.run([*node.inside, node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "image", "export",
                            exported], stdout=file, check=True)
    return archives


def spread(seconds):
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    return {"p50": 1000 * statistics.median(ordered), "p99": 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]}


def usage(pids):
    """(proportional share of memory in MiB, seconds of processor time)"""
    memory = ticks = 0
    for pid in pids:
        try:
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        memory += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
        ticks += int(fields[11]) + int(fields[12])
    return memory / 1024, ticks / os.sysconf("SC_CLK_TCK")


def write_row(out, name, unit, n, figures, limit=None, aim=None):
    """`figures`: OURS, and STOCK if it has one, -> figure."""
    row = {"row": name, "unit": unit, "n": n, "ours": figures[OURS]}
    if STOCK in figures:
        row["peers"] = {STOCK_NAME: figures[STOCK]}
    if limit:
        row["limit"] = limit
    if aim:
        row["aim"] = aim
    out.write(json.dumps(row) + "\n")
    out.flush()
