# SPDX-License-Identifier: Apache-2.0
"""The world of the benchmarks that have an API server: one control plane, a node of ours and an established one, which have
the same images. What is measured of them, and how a row is written."""
import contextlib
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
from typing import NamedTuple

from asking import IMAGE, are_ready, until
from kube_cluster import DNS, POD_RANGE, Cluster
from stock_node import PAUSE, StockNode

OURS, BEFORE, STOCK = "n1", "n2", "s1"
FLOOR, TOKENS = "floor", "tokens"  # floor_node.py
BEFORE_ADDRESS = "10.200.0.12"
STOCK_ADDRESS = "10.200.0.51"
NAMES = {TOKENS: "limit with tokens", BEFORE: "ours before", STOCK: "kubelet 1.36.3 + containerd 2.4.2"}


class World(NamedTuple):
    cluster: Cluster
    nodes: dict  # OURS, and BEFORE and STOCK if they are wanted, -> what has pids(): part -> processes


class Ours:
    def __init__(self, machine):
        self.machine = machine

    def pids(self):
        return {"agent": [self.machine.agent.pid], **self.machine.keepers()}


@contextlib.contextmanager
def two_nodes(bin_dir, programs, image, alone=False, before=None):
    """`image`: a root tar, IMAGE on all nodes. `alone`: without the established one. `before`: another folder of programs of ours,
    for a node beside."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-kube-"))
    cluster = Cluster(top / "cluster", bin_dir)
    stock = None
    try:
        cluster.up(programs, 1)
        until("our node is ready", lambda: are_ready(cluster))
        nodes = {OURS: Ours(cluster.nodes[OURS])}
        archives = give_images(cluster.nodes[OURS], programs, top, image)
        if before:
            cluster.bin = before
            nodes[BEFORE] = Ours(cluster.start_node(BEFORE, BEFORE_ADDRESS))
            give_images(cluster.nodes[BEFORE], programs, top / BEFORE, image)
            until("it is ready", lambda: are_ready(cluster))
        if alone:
            yield World(cluster, nodes)
            return
        stock = StockNode(programs, top / STOCK, STOCK, STOCK_ADDRESS, cluster.join(STOCK, STOCK_ADDRESS), cluster)
        stock.start(archives, POD_RANGE, DNS)
        yield World(cluster, {**nodes, STOCK: stock})
    finally:
        if stock is not None:
            stock.stop()
        cluster.down()
        shutil.rmtree(top, ignore_errors=True)


def give_images(node, programs, top, image):
    """To our node; as it exports them, so that both run the same bytes, they are OCI archives."""
    root, pause = top / "pause", top / "pause.tar"
    root.mkdir(parents=True)
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


def write_row(out, name, unit, n, figures, limit=None, aim=None):
    """`figures`: OURS, and BEFORE and STOCK if they have one, -> figure."""
    row = {"row": name, "unit": unit, "n": n, "ours": figures[OURS]}
    if peers := {what: figures[node] for node, what in NAMES.items() if node in figures}:
        row["peers"] = peers
    if limit:
        row["limit"] = limit
    if aim:
        row["aim"] = aim
    out.write(json.dumps(row) + "\n")
    out.flush()
