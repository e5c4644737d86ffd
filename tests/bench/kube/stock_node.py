# SPDX-License-Identifier: Apache-2.0
"""An established node: kubelet, containerd, runc, the bridge plugin and kube-proxy as they are released, with roots of
its own, in a network namespace of its own. It wants a mount namespace whose root is shared, and no other kubelet here."""
import json
import os
import pathlib
import signal
import subprocess

from asking import condition, get, until
from machine import remove_cgroups, trees_of

CGROUP = "/kubepods"  # a kubelet's own
PAUSE = "holdfast.test/pause:1"

CONTAINERD = """version = 3
root = '{top}/containerd'
state = '{run}/containerd'
[grpc]
  address = '{run}/containerd.sock'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE runc may not lower oom_score_adj.
  restrict_oom_score_adj = true
  max_container_log_line_size = 16384
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{runc}'
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{cni}']
    conf_dir = '{top}/net.d'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{pause}'
[plugins.'io.containerd.nri.v1.nri']
  disable = true
"""


class StockNode:
    """`inside`: words that run a command in its network namespace. `config`: its kubeconfig; `proxy_config`: kube-proxy's."""

    def __init__(self, programs, top, name, address, inside, cluster):
        if trees_of(CGROUP):
            raise RuntimeError(f"a kubelet's cgroup {CGROUP} is here already")
        self.programs = programs
        self.top = pathlib.Path(top)
        self.name = name
        self.address = address
        self.inside = inside
        self.cluster = cluster
        self.run = pathlib.Path("/run") / f"hf-{name}"
        self.processes = {}
        for folder in (self.top / "net.d", self.top / "manifests", self.run):
            folder.mkdir(parents=True)
        self.environment = {**os.environ, "PATH": f"{pathlib.Path(programs['containerd']).parent}:{os.environ['PATH']}"}

    def spawn(self, name, *flags):
        with open(self.top / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [*self.inside, self.programs[name], *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True, env=self.environment)

    def start(self, images, service_range, dns):
        """`images`: [(archive, …)], OCI archives whose names are in them."""
        self.start_containerd(images)
        self.start_kubelet(dns)
        self.start_kube_proxy(service_range)
        self.write_network(get(self.cluster, "node", self.name)["spec"]["podCIDR"])
        until(f"{self.name} is ready", lambda: condition(self.cluster, self.name, "Ready") == "True", 120)

    def ctr(self, *words):
        subprocess.run([self.programs["ctr"], "--address", self.run / "containerd.sock", "--namespace", "k8s.io", *words],
                       check=True, capture_output=True)

    def start_containerd(self, images):
        config = self.top / "containerd.toml"
        config.write_text(CONTAINERD.format(top=self.top, run=self.run, runc=self.programs["runc"],
                                            cni=pathlib.Path(self.programs["bridge"]).parent, pause=PAUSE))
        self.spawn("containerd", "--config", config)
        until("containerd answers", lambda: self.ctr("version") is None
              if (self.run / "containerd.sock").exists() else False, 30)
        for archive in images:
            self.ctr("images", "import", archive)

    def start_kubelet(self, dns):
        self.spawn_kubelet(["--kubeconfig", self.cluster.credentials(self.name)], {
            "clusterDomain": "cluster.local", "clusterDNS": [dns],
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": str(self.cluster.plane.folder / "ca.crt")}},
            "authorization": {"mode": "Webhook"}})
        until("it has a range for pods", lambda: "podCIDR" in get(self.cluster, "node", self.name)["spec"], 120)

    def spawn_kubelet(self, flags, fields):
        """With `fields` of its configuration besides those that every node here has."""
        config = self.top / "kubelet.json"
        (self.top / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        config.write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False,
            "cgroupDriver": "cgroupfs", "oomScoreAdj": 0, "maxPods": 250,
            "containerRuntimeEndpoint": f"unix://{self.run}/containerd.sock", "staticPodPath": str(self.top / "manifests"),
            "podLogsDir": str(self.top / "logs"), "resolvConf": str(self.top / "resolv.conf"),
            "evictionHard": {"memory.available": "100Mi"}, **fields}))
        self.spawn("kubelet", "--config", config, *flags, "--root-dir", self.top / "kubelet",
                   "--hostname-override", self.name, "--node-ip", self.address)

    def start_kube_proxy(self, service_range):
        config = self.top / "kube-proxy.json"
        config.write_text(json.dumps({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
            "hostnameOverride": self.name, "oomScoreAdj": 0, "clusterCIDR": service_range,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "clientConnection": {"kubeconfig": str(self.cluster.plane.kubeconfig("kube-proxy", "/CN=system:kube-proxy"))}}))
        self.spawn("kube-proxy", "--config", config)

    def write_network(self, pod_range):
        (self.top / "net.d/10-bridge.conflist").write_text(json.dumps({
            "cniVersion": "1.0.0", "name": "stock", "plugins": [
                {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True,
                 "ipam": {"type": "host-local", "dataDir": str(self.run / "ipam"), "routes": [{"dst": "0.0.0.0/0"}],
                          "ranges": [[{"subnet": pod_range}]]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}))

    def pids(self):
        """part -> processes: the daemons, and what stands beside each pod."""
        found = {name: [process.pid] for name, process in self.processes.items()}
        for entry in filter(lambda e: e.name.isdigit(), pathlib.Path("/proc").iterdir()):
            try:
                name, words = (entry / "comm").read_text().strip(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if name.startswith("containerd-shim") and str(self.run).encode() in words:
                found.setdefault("shims", []).append(int(entry.name))
            elif name == "pause" and words.startswith(b"/pause"):
                found.setdefault("pauses", []).append(int(entry.name))
        return found

    def stop(self):
        for name in ("kubelet", "kube-proxy"):
            self.end(name)
        for pid in self.pids().get("shims", []):
            os.kill(pid, signal.SIGKILL)
        self.end("containerd")
        remove_cgroups(lambda: trees_of(CGROUP))
        mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in reversed([m for m in mounts if m.startswith((f"{self.top}/", f"{self.run}/", "/run/netns/cni-"))]):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)

    def end(self, name):
        process = self.processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()
