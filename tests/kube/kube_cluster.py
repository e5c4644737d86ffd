# SPDX-License-Identifier: Apache-2.0
"""A cluster of a real control plane and nodes on one machine (tests/kube/cluster), made and taken away.

Its programs have its folder in their environment: that is how a later command finds them again."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

from control_plane import ControlPlane
from machine import COUNTS, PATIENCE, Machine, remove_cgroups, trees_of

BRIDGE, BRIDGE_ADDRESS = "hfk0", "10.200.0.254"
SERVER = "10.200.0.1"
SERVICE_RANGE, DNS = "10.96.0.0/16", "10.96.0.10"
POD_RANGE = "10.244.0.0/16"
SECOND_RANGES = "fd00:10:96::/112", "fd00:10:244::/56"  # of Services and of pods
READY = 90 * PATIENCE  # s: for an API server
MARK = "HOLDFAST_CLUSTER"
HOLLOW = "holdfast.dev/hollow"  # a taint: pods there only pretend

BUILD = pathlib.Path(__file__).resolve().parent / "programs/build"
RBAC = "rbac.authorization.k8s.io"
# What a cluster needs for nodes of ours; kubeadm binds all but the first.
PACKAGING = pathlib.Path(__file__).resolve().parents[2] / "packaging"
PACKAGED, MAKE_IMAGE = PACKAGING / "kubernetes", PACKAGING / "make-image"
RIGHTS = ("node-proxier", "bootstrap", "csr-approval", "server-to-node")
# What a node sends, whole; decoded, whatever it was sent as.
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "RequestResponse", "userGroups": ["system:nodes"], "verbs": ["create", "update", "patch", "delete"]},
    {"level": "Metadata", "userGroups": ["system:nodes"]}, {"level": "None"}]}
DNS_RIGHTS = [{"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
              {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}]
DNS_PORTS = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]


def run(*words):
    subprocess.run(words, check=True)


def second(address):
    """The IPv6 address of who has this IPv4 address."""
    *network, host = address.split(".")
    return f"fd00:{':'.join(network)}::{host}"


def programs(*names):
    """name -> path, of those that programs/build knows; built if they are not there yet."""
    lines = subprocess.run([BUILD, *names], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return dict(line.split("=", 1) for line in lines)


class Node(Machine):
    """An agent of ours in namespaces of its own, a node of the cluster."""

    def __init__(self, bin_dir, top, name, kubeconfig, environment, inside):
        super().__init__(bin_dir, top, name, environment=environment, inside=inside)
        self.node = name
        self.set_config(nodeName=name, kubeconfig=str(kubeconfig or ""), podCIDRs=[], clusterDNS=[DNS],
                        clientCAFile=str(pathlib.Path(top).parent / "plane/ca.crt"))

    def kill_agent(self):
        """Another one goes on, with the configuration as it is by now."""
        self.kill(("agent",))
        self.start_agent()
        self.wait("the agent answers", lambda: self.ctl("version", check=False).returncode == 0)


class Cluster:
    """`folder`: holds everything of it. Verbs may come from different processes. `settings`: more of its agents'
    configuration. `dual`: of IPv4 and IPv6, else of IPv4 alone."""

    def __init__(self, folder, bin_dir, settings=None, dual=False):
        self.folder = pathlib.Path(folder)
        self.bin = bin_dir
        self.dual = dual
        self.service_ranges = [SERVICE_RANGE, SECOND_RANGES[0]] if dual else [SERVICE_RANGE]
        self.pod_ranges = [POD_RANGE, SECOND_RANGES[1]] if dual else [POD_RANGE]
        self.settings = {"serviceCIDRs": self.service_ranges, **(settings or {})}
        self.record = self.folder / "cluster.json"
        self.admin = self.folder / "plane/admin.kubeconfig"
        self.environment = {**os.environ, MARK: str(self.folder)}
        self.plane = None
        self.nodes = {}
        self.anchors = {}  # name -> the process that holds its mount namespace

    def is_up(self):
        return self.record.exists()

    def up(self, programs, nodes, hollow=0):
        if self.folder.exists():
            raise RuntimeError(f"{self.folder} is there already: cluster down")
        self.folder.mkdir(mode=0o700)
        self.record.write_text(json.dumps({"kubectl": programs["kubectl"], "counts": {str(p): p.read_text() for p in COUNTS}}))
        try:
            self.add_segment(BRIDGE, BRIDGE_ADDRESS)
            self.start_control_plane(programs)
            for n in range(1, nodes + 1):
                self.start_node(f"n{n}", f"10.200.0.{10 + n}")
            for n in range(1, hollow + 1):
                self.start_hollow_node(programs, f"h{n}", f"10.200.0.{100 + n}")
        except BaseException:
            self.down()
            raise

    # --- network ---

    def add_segment(self, bridge, address):
        """A link of its own, on which the caller's network namespace has `address`."""
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "address", "add", f"{address}/24", "dev", bridge)
        if self.dual:
            run("ip", "address", "add", f"{second(address)}/64", "dev", bridge, "nodad")
        run("ip", "link", "set", bridge, "up")

    def join(self, name, address, segment=(BRIDGE, BRIDGE_ADDRESS)):
        """A network namespace on the bridge of a segment, whose address is the way out; the words that run a command there."""
        bridge, gateway = segment
        run("ip", "netns", "add", f"hfk-{name}")
        run("ip", "link", "add", f"hfk-{name}", "type", "veth", "peer", "name", "eth0", "netns", f"hfk-{name}")
        run("ip", "link", "set", f"hfk-{name}", "master", bridge, "up")
        # Not `ip netns exec`: that hides the cgroup tree.
        inside = ["nsenter", f"--net=/run/netns/hfk-{name}"]
        run(*inside, "sh", "-ec", f"ip link set lo up; ip address add {address}/24 dev eth0; ip link set eth0 up; "
                                  f"ip route add default via {gateway}; echo 1 > /proc/sys/net/ipv4/ip_forward")
        if self.dual:
            run(*inside, "sh", "-ec", f"ip address add {second(address)}/64 dev eth0 nodad; "
                                      f"ip route add default via {second(gateway)}; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
        return inside

    # --- parts ---

    def start_control_plane(self, programs):
        folder = self.folder / "plane"
        folder.mkdir()
        inside = self.join("cp", SERVER)
        (folder / "audit.json").write_text(json.dumps(AUDIT))
        self.plane = ControlPlane(programs, folder, SERVER, ",".join(self.service_ranges),
                                  [f"--bind-address={SERVER}", "--allow-privileged", "--enable-aggregator-routing",
                                   f"--audit-policy-file={folder}/audit.json", f"--audit-log-path={folder}/audit.log"],
                                  inside, self.environment)
        self.plane.kubeconfig()
        self.plane.wait_until_ready(READY)
        self.grant()
        self.plane.start_controllers(",".join(self.pod_ranges))
        self.start_dns()

    def grant(self):
        for name in RIGHTS:
            self.kubectl("apply", "-f", str(PACKAGED / f"{name}.yaml"))
        self.plane.create_all([
            (f"/apis/{RBAC}/v1/clusterroles", {"metadata": {"name": "holdfast:dns"}, "rules": DNS_RIGHTS}),
            (f"/apis/{RBAC}/v1/clusterrolebindings", {
                "metadata": {"name": "holdfast:dns"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "holdfast:dns"},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "system:coredns"}]})])

    def start_dns(self):
        """A process beside the server, behind a Service without a selector."""
        folder = self.plane.folder
        config = self.plane.kubeconfig("coredns", "/CN=system:coredns")
        corefile = folder / "Corefile"
        corefile.write_text(f".:53 {{\n  bind {SERVER}\n  errors\n  kubernetes cluster.local in-addr.arpa ip6.arpa {{\n"
                            f"    kubeconfig {config}\n    pods insecure\n    ttl 5\n  }}\n  cache 5\n}}\n")
        self.plane.create_all([
            ("/api/v1/namespaces/kube-system/services", {
                "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}},
                "spec": {"clusterIP": DNS, "ports": DNS_PORTS}}),
            ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", {
                "metadata": {"name": "kube-dns-host", "labels": {"kubernetes.io/service-name": "kube-dns"}},
                "addressType": "IPv4", "ports": DNS_PORTS,
                "endpoints": [{"addresses": [SERVER], "conditions": {"ready": True}}]})])
        self.plane.spawn("coredns", ["-conf", corefile])

    def credentials(self, name):
        return self.plane.kubeconfig(f"node-{name}", f"/O=system:nodes/CN=system:node:{name}")

    def start_node(self, name, address, kubeconfig=None):
        """Of another cluster's identity, if `kubeconfig` is one of that."""
        node = self.make_node(name, address, kubeconfig or self.credentials(name))
        self.nodes[name] = node
        node.start_agent()
        node.wait(f"the agent of {name} answers", lambda: node.ctl("version").returncode == 0)
        return node

    def make_node(self, name, address, kubeconfig, segment=(BRIDGE, BRIDGE_ADDRESS)):
        """A machine for an agent, which is not started; without a kubeconfig it stands alone so far."""
        node = Node(self.bin, self.folder / name, name, kubeconfig, self.environment, self.join(name, address, segment))
        node.set_config(**self.settings)
        self.power_on(node)
        return node

    def power_on(self, node):
        """What the machine has of `inside` is its network namespace."""
        network = f"--net=/run/netns/hfk-{node.node}"
        # It has the node's mount namespace: that outlives the agent, whose successor finds the same.
        anchor = subprocess.Popen(["nsenter", network, "unshare", "--mount", "--propagation", "private", "sh", "-c",
                                   "echo; exec sleep infinity"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, env=self.environment, start_new_session=True)
        anchor.stdout.readline()
        self.anchors[node.node] = anchor
        node.inside = ["nsenter", f"--target={anchor.pid}", "--mount", "--net"]

    def power_off(self, node):
        anchor = self.anchors.pop(node.node)
        anchor.kill()  # with it the mounts
        anchor.wait()

    def boot(self, node):
        self.power_on(node)
        node.start_agent()

    def end_machine(self, node):
        """Agent, keepers, containers and what is in memory end, at once; disk, addresses and links of the machine stay."""
        node.end_all()
        remove_cgroups(lambda: trees_of(node.cgroup))
        self.power_off(node)
        shutil.rmtree(node.run, ignore_errors=True)
        node.run.mkdir()

    def remove_node(self, node):
        """One that make_node() made, with all that runs for it and its folder."""
        while pids := list(self.processes(f"{node.top}/".encode())):
            self.kill_all(pids)
        remove_cgroups(lambda: trees_of(node.cgroup))
        self.power_off(node)
        run("ip", "netns", "delete", f"hfk-{node.node}")
        subprocess.run(["ip", "link", "delete", f"hfk-{node.node}"], check=False, capture_output=True)
        shutil.rmtree(node.top)

    def start_hollow_node(self, programs, name, address):
        folder = self.folder / name
        folder.mkdir()
        with open(folder / "kubelet.log", "ab") as log:
            subprocess.Popen([*self.join(name, address), programs["kubemark"], "--morph=kubelet", f"--name={name}",
                              f"--kubeconfig={self.credentials(name)}", "--use-host-image-service=false",
                              "--kubelet-read-only-port=0", f"--register-with-taints={HOLLOW}=yes:NoSchedule"], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                             start_new_session=True, env={**self.environment, "TMPDIR": str(folder)})

    def apply(self, *objects):
        for one in objects:
            self.kubectl("apply", "-f", "-", text=json.dumps(one))

    @contextlib.contextmanager
    def without_api_server(self):
        """Killed; started again at the end of the block, on the same data."""
        flags = self.plane.stop_one("kube-apiserver")
        try:
            yield
        finally:
            self.plane.spawn("kube-apiserver", flags)
            self.plane.wait_until_ready(READY)

    def copy_store(self):
        """What etcd has on its disk at one instant; the folder."""
        etcd, copy = self.plane.process("etcd"), self.folder / "copy"
        etcd.send_signal(signal.SIGSTOP)
        try:
            while pathlib.Path(f"/proc/{etcd.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.01)
            shutil.copytree(self.plane.folder / "etcd", copy)
        finally:
            etcd.send_signal(signal.SIGCONT)
        return copy

    def restore_store(self, copy):
        """The cluster is what it was then, and versions count on from there. As Kubernetes' manual says, its own
        programs are started again; nodes are not."""
        names = ("coredns", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
        flags = {name: self.plane.stop_one(name) for name in names}
        shutil.rmtree(self.plane.folder / "etcd")
        copy.rename(self.plane.folder / "etcd")
        for name in reversed(names):
            self.plane.spawn(name, flags[name])
            if name == "kube-apiserver":
                self.plane.wait_until_ready(READY)

    @contextlib.contextmanager
    def supervised(self):
        """Agents that end are started again, as systemd does it."""
        end = threading.Event()

        def watch():
            while not end.wait(0.1):
                for node in self.nodes.values():
                    node.ensure_agent()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def import_image(self, archive, name):
        for node in self.nodes.values():
            node.ctl("image", "import", archive, "--name", name, "--cmd", "/bin/sh")

    def import_program(self, name, image, nodes, *flags):
        """An image with nothing but a program that programs/build knows."""
        archive = self.folder / f"{name}.tar"
        run(MAKE_IMAGE, "program", archive, programs(name)[name])
        for node in nodes:
            node.ctl("image", "import", archive, "--name", image, *flags)
        archive.unlink()

    def reach_pods(self):
        """The API server's way to pods, which it asks as a proxy."""
        for node in json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]:
            address = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
            run(*self.plane.inside, "ip", "route", "replace", node["spec"]["podCIDR"], "via", address)

    def audit(self, node):
        """What a node's identity asked and was answered, in order."""
        user = f"system:node:{node}"
        with open(self.folder / "plane/audit.log", encoding="utf-8") as log:
            return [event for event in map(json.loads, log) if event["user"]["username"] == user]

    def kubectl(self, *words, check=True, text=None):
        program = json.loads(self.record.read_text())["kubectl"]
        done = subprocess.run([program, "--kubeconfig", self.admin, *words], capture_output=True, text=True, timeout=90 * PATIENCE,
                              check=False, input=text)
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    # --- the end of it ---

    def down(self):
        if not self.folder.exists():
            return
        while pids := list(self.processes()):
            self.kill_all(pids)
        configs = [json.loads(path.read_text()) for path in self.folder.glob("*/config.yaml")]
        remove_cgroups(lambda: [tree for c in configs for tree in trees_of(c["cgroupParent"])])
        for namespace in pathlib.Path("/run/netns").glob("hfk-*"):
            run("ip", "netns", "delete", namespace.name)
        # A namespace ends a little later than its name. (Not by /sys, which may show another network namespace.)
        links = json.loads(subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, text=True).stdout)
        for name in [link["ifname"] for link in links if link["ifname"].startswith("hfk")]:
            subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)
        if self.record.exists():
            for path, count in json.loads(self.record.read_text())["counts"].items():
                pathlib.Path(path).write_text(count)
        for device in self.loop_devices():  # of pods that a failed test left
            subprocess.run(["losetup", "--detach", f"/dev/{device}"], check=False)
        shutil.rmtree(self.folder)

    def loop_devices(self, name=""):
        """Of files of this cluster, or of that of this name."""
        files = {f.parts[3]: pathlib.Path(f.read_text().strip()) for f in pathlib.Path("/sys/block").glob("loop*/loop/backing_file")}
        return [device for device, file in files.items() if file.is_relative_to(self.folder) and name in ("", file.name)]

    @staticmethod
    def kill_all(pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)

    def processes(self, named=b""):
        """Those of the cluster that live, but for what runs in pods. Keepers have no environment; their words
        name their folder. `named`: only those whose command line has this."""
        mark, keepers = f"{MARK}={self.folder}".encode(), f"--run-dir={self.folder}/".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes()
                ours = named in words and (mark in (entry / "environ").read_bytes().split(b"\0") or any(
                    word.startswith(keepers) for word in words.split(b"\0")))
            except OSError:
                continue
            if ours and Machine.is_alive(entry.name):
                yield int(entry.name)
