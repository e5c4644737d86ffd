# SPDX-License-Identifier: Apache-2.0
"""Who serves Services in this network namespace: our agent with files, kube-proxy with an API
server. Both: start(), change(), add(), stop(); pid, sync_seconds()."""
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from machine import Machine  # noqa: E402

from probe import ENDPOINTS, NODE, PORT  # noqa: E402

NODE_NAME = "bench-node"
METRICS = "127.0.0.1:10249"
SERVICE_RANGE = "10.96.0.0/12"
PER_FILE = 200  # Services; the one that changes has a file of its own
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICES = "/api/v1/namespaces/default/services"


def name_of(i):
    return f"s{1000000 + i}"


def cluster_ip(i):
    return f"10.{97 + i // 60000}.{i // 250 % 240}.{1 + i % 250}"


def service(i, shape="clusterip"):
    """`shape`: "clusterip", or "lb", which also has two addresses of a load balancer."""
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name_of(i)},
            "spec": {"clusterIP": cluster_ip(i), "ports": [{"port": 80, "targetPort": PORT}]}}
    if shape == "lb":
        body["spec"] |= {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}
        body |= balanced(i)
    return body


def balanced(i):
    return {"status": {"loadBalancer": {"ingress": [{"ip": f"198.{51 + k}.{i // 250}.{1 + i % 250}"} for k in range(2)]}}}


def endpoints(addresses):
    return [{"addresses": [a], "conditions": {"ready": True}, "nodeName": "elsewhere"}
            for a in addresses]


def slice_of(i, addresses):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": f"{name_of(i)}-1",
                         "labels": {"kubernetes.io/service-name": name_of(i)}},
            "ports": [{"name": "", "port": PORT, "protocol": "TCP"}],
            "endpoints": endpoints(addresses)}


def far_endpoints(i):
    """Two that nobody connects to."""
    return [f"10.{128 + i // 30000}.{i % 30000 // 120}.{i % 120 * 2 + k}" for k in (1, 2)]


def sync_seconds():
    """Sum and count of the syncs so far, as kube-proxy's metrics and ours tell them for IPv4 (an
    older kube-proxy: for both families)."""
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for line in lines:
        key, _, value = line.rpartition(" ")
        for what in ("sum", "count"):
            if key.startswith(f"kubeproxy_sync_proxy_rules_duration_seconds_{what}") and "IPv6" not in key:
                found[what] = float(value)
    return found["sum"], found["count"]


def processor_milliseconds(pid):
    """Of the process and the children that it has waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * 1000 / os.sysconf("SC_CLK_TCK")


def pss_megabytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0


def flush_rules():
    """Of this namespace: whoever comes next has none to begin with."""
    if pathlib.Path("/proc/net/ip_vs").exists():
        subprocess.run(["ipvsadm", "-C"], check=True)
        subprocess.run(["ip", "link", "delete", "kube-ipvs0"], check=False, capture_output=True)
    for command in (["nft", "flush", "ruleset"],
                    *([f"{tool}-legacy", "-t", table, flag] for tool in ("iptables", "ip6tables")
                      for table in ("nat", "filter", "mangle") for flag in ("-F", "-X"))):
        subprocess.run(command, check=True)


class Ours:
    """holdfastd without a control plane: Services and EndpointSlices are files."""
    name = "ours"

    def __init__(self, bin_dir, folder, count, shape="clusterip", mode="nftables"):
        self.shape = shape
        self.machine = Machine(bin_dir, folder, "kubeproxy")
        self.machine.set_config(metricsBindAddress=METRICS, proxyMode=mode, serviceCIDRs=[SERVICE_RANGE])
        middle = count // 2
        todo = [i for i in range(count) if i != middle]
        for start in range(0, len(todo), PER_FILE):
            documents = ["---\n" + json.dumps(d) for i in todo[start:start + PER_FILE]
                         for d in (service(i, shape), slice_of(i, far_endpoints(i)))]
            (self.machine.manifests / f"crowd{start}.yaml").write_text("\n".join(documents))
        self.write(f"{name_of(middle)}", service(middle, shape))
        self.change(middle, 0)

    @property
    def pid(self):
        return self.machine.agent.pid

    def start(self):
        self.machine.start_agent()

    def write(self, name, body):
        new = self.machine.manifests / f".{name}.new"
        new.write_text(json.dumps(body))
        new.rename(self.machine.manifests / f"{name}.json")

    def change(self, i, endpoint):
        self.write(f"{name_of(i)}-slice", slice_of(i, [ENDPOINTS[endpoint]]))

    def add(self, i, endpoint):
        self.change(i, endpoint)
        self.write(name_of(i), service(i, self.shape))

    def remove(self, i):
        for suffix in ("", "-slice"):
            (self.machine.manifests / f"{name_of(i)}{suffix}.json").unlink()

    def stop(self):
        self.machine.stop()
        flush_rules()


class KubeProxy:
    """`kind`: "nft" or "legacy", which iptables it finds; None in nftables mode."""

    def __init__(self, program, control_plane, folder, mode, kind=None, shape="clusterip"):
        self.name = f"kube-proxy {mode}" + (f" ({kind})" if kind else "")
        self.shape = shape
        self.control_plane = control_plane
        self.folder = pathlib.Path(folder)
        self.log = self.folder / "kube-proxy.log"
        self.environment = dict(os.environ)
        if kind:
            tools = self.folder / f"iptables-{kind}"
            tools.mkdir()
            for family in ("iptables", "ip6tables"):
                for verb in ("", "-save", "-restore"):
                    found = subprocess.run(["which", f"{family}-{kind}{verb}"], capture_output=True,
                                           text=True, check=True).stdout.strip()
                    (tools / f"{family}{verb}").symlink_to(found)
            self.environment["PATH"] = f"{tools}:{self.environment['PATH']}"
        self.command = [
            program, f"--kubeconfig={control_plane.kubeconfig()}", f"--proxy-mode={mode}",
            f"--hostname-override={NODE_NAME}", "--cluster-cidr=10.123.0.0/22",
            "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0", "--oom-score-adj=0",
            "--healthz-bind-address=127.0.0.1:10256", f"--metrics-bind-address={METRICS}"]
        self.process = None

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.environment)

    def change(self, i, endpoint):
        self.control_plane.request("PATCH", f"{SLICES}/{name_of(i)}-1",
                                   {"endpoints": endpoints([ENDPOINTS[endpoint]])})

    def add(self, i, endpoint):
        self.control_plane.request("POST", SLICES, slice_of(i, [ENDPOINTS[endpoint]]))
        create_service(self.control_plane, i, self.shape)

    def remove(self, i):
        self.control_plane.request("DELETE", f"{SLICES}/{name_of(i)}-1")
        self.control_plane.request("DELETE", f"{SERVICES}/{name_of(i)}")

    def stop(self):
        self.process.kill()
        self.process.wait()
        flush_rules()


def create_service(control_plane, i, shape):
    control_plane.request("POST", SERVICES, service(i, shape))
    if shape == "lb":  # the API server takes no status with a new object
        control_plane.request("PATCH", f"{SERVICES}/{name_of(i)}/status", balanced(i))


def register_node(control_plane):
    """The Node that kube-proxy looks for."""
    control_plane.request("POST", "/api/v1/nodes", {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE_NAME}})
    control_plane.request("PATCH", f"/api/v1/nodes/{NODE_NAME}/status", {
        "status": {"addresses": [{"type": "InternalIP", "address": NODE}]}})
