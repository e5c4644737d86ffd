# SPDX-License-Identifier: Apache-2.0
"""Two nodes without an API server, whose pods are files: ours, and a kubelet with containerd. Both have start(), pods(),
probe_metrics(), pids() and restart(), which kills the agent or kubelet and starts it again."""
import json
import os
import pathlib
import subprocess
import urllib.request

from asking import until
from machine import Machine
from stock_node import StockNode

MOST_PODS = 1100
READ_ONLY_PORT = 10255  # of the kubelet, without TLS
STOCK_RANGE = "10.201.0.0/20"


def fetch(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


class Ours(Machine):
    title = "ours"

    def start(self):
        authority = self.top / "authority.crt"  # the node's HTTPS port wants one; nobody has a certificate of it
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=nobody", "-keyout", "/dev/null", "-out", authority], check=True, capture_output=True)
        self.set_config(maxPods=MOST_PODS, podCIDRs=["10.123.0.0/20"], address="127.0.0.1", port=10250, anonymousAuth=True,
                        authorizationMode="AlwaysAllow", clientCAFile=str(authority))
        self.start_agent()
        self.wait("the agent answers", lambda: self.ctl("version"), 30)
        self.wait("the keeper is there", lambda: all(self.keepers().values()), 30)

    def restart(self):
        self.kill(["agent"])
        self.start_agent()

    def probe_metrics(self):
        return subprocess.run(["curl", "-sk", "https://127.0.0.1:10250/metrics/probes"], check=True, capture_output=True,
                              text=True).stdout

    def processes(self):
        """Of all containers: id -> its first process."""
        found = {}
        for folder, _, _ in os.walk(self.container_trees()[0]):
            pids = (pathlib.Path(folder) / "cgroup.procs").read_text().split()
            if pids:
                found[pathlib.Path(folder).name] = int(pids[0])
        return found

    def pids(self):
        return {"agent": [self.agent.pid], **self.keepers()}


class Stock(StockNode):
    title = "kubelet"

    def __init__(self, programs, top, images):
        super().__init__(programs, top, "s1", "127.0.0.1", (), None)
        self.manifests = pathlib.Path(top) / "manifests"
        self.images = images

    def start(self):
        self.start_containerd(self.images)
        self.write_network(STOCK_RANGE)
        self.restart()
        until("the kubelet answers", lambda: fetch(f"http://127.0.0.1:{READ_ONLY_PORT}/healthz") == "ok", 60)

    def restart(self):
        self.end("kubelet")
        self.spawn_kubelet([], {
            "maxPods": MOST_PODS, "readOnlyPort": READ_ONLY_PORT, "address": "127.0.0.1",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}})

    def pods(self):
        items = json.loads(fetch(f"http://127.0.0.1:{READ_ONLY_PORT}/pods"))["items"]
        return {p["metadata"]["name"].removesuffix(f"-{self.name}"): p for p in items or []}

    def probe_metrics(self):
        return fetch(f"http://127.0.0.1:{READ_ONLY_PORT}/metrics/probes")
