#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods whose network is made by Debian's CNI plugins, under the real agent: cni_test.py BIN_DIR MAKE_IMAGE.

Run as root in a network and mount namespace of its own (CMakeLists.txt does that). The tests build on each other.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "e2e/pods")]
from node import IMAGE, WAIT_FOR_TERM, Node  # noqa: E402
from suite import run_on  # noqa: E402

KILLS = int(os.environ.get("HOLDFAST_KILLS", "12"))
SERVE = "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 80 -h /www"
NOT_READY = ("container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:"
             "Network plugin returns error: cni plugin not initialized: ")


class CniNode(Node):
    def __init__(self, bin_dir, top):
        super().__init__(bin_dir, top, "cni")
        self.net_d, self.netns, self.held = self.top / "net.d", self.top / "netns", self.top / "addresses"
        self.net_d.mkdir()
        self.set_config(podNetwork="cni", cniConfDir=str(self.net_d), cniBinDir=["/usr/lib/cni"],
                        cniNetnsDir=str(self.netns), podCIDRs=["10.79.0.0/24"])

    def stop(self):
        super().stop()
        for pin in self.netns.glob("*"):
            subprocess.run(["umount", "-l", pin], capture_output=True, check=False)

    def configure(self, text):
        new = self.net_d / ".new"
        new.write_text(text)
        new.rename(self.net_d / "10-pods.conflist")

    def use_bridge(self):
        self.configure(json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "hairpinMode": True,
             "ipam": {"type": "host-local", "dataDir": str(self.held),
                      "ranges": [[{"subnet": "10.79.0.0/24"}], [{"subnet": "fd00:79::/64"}]]}},
            {"type": "portmap", "capabilities": {"portMappings": True}}]}))

    def ready(self):
        node = json.loads(self.ctl("get", "node", self.node, "-o", "json").stdout)
        node = node["items"][0] if "items" in node else node
        return next(c for c in node["status"]["conditions"] if c["type"] == "Ready")

    def events(self, reason):
        events = json.loads(self.ctl("get", "events", "-A", "-o", "json").stdout)["items"]
        return [e["message"] for e in events if e["reason"] == reason]

    def traces(self):
        """What is there of pods: records, pinned namespaces, addresses, links."""
        held = [p.name for p in (self.held / "pods").glob("*")
                if p.name != "lock" and not p.name.startswith("last_reserved_ip")]
        links = json.loads(subprocess.run(["ip", "-j", "link", "show", "type", "veth"], capture_output=True,
                                          check=True).stdout)
        return ([p.name for p in (self.top / "root/cni/attachments").glob("*")],
                [p.name for p in self.netns.glob("*")], held, [link["ifname"] for link in links])


def addresses(pod):
    return [ip["ip"] for ip in pod["status"].get("podIPs", [])]


def test_without_a_network_only_the_hosts_pods_run(node):
    node.pod("host", WAIT_FOR_TERM, hostNetwork=True)
    node.pod("web", SERVE)
    node.phase("host", "Running")
    node.wait("web waits", lambda: node.events("NetworkNotReady"))
    wanted = f"{NOT_READY}no network config found in {node.net_d}"
    assert node.events("NetworkNotReady") == ["network is not ready: " + wanted], node.events("NetworkNotReady")
    assert node.get("web")["status"]["phase"] == "Pending"
    ready = node.ready()
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "KubeletNotReady", wanted), ready


def test_with_a_configuration_pods_reach_each_other(node):
    node.use_bridge()
    web = node.phase("web", "Running")
    node.pod("client", WAIT_FOR_TERM)
    client = node.phase("client", "Running")
    assert [ip.split("79")[0] for ip in addresses(web)] == ["10.", "fd00:"], web["status"]
    assert addresses(web) != addresses(client)
    assert node.ready()["status"] == "True"
    hosts = node.ctl("exec", f"client-{node.node}", "--", "cat", "/etc/hosts").stdout
    assert addresses(client)[0] in hosts, hosts
    for ip in addresses(web):
        url = f"http://[{ip}]/" if ":" in ip else f"http://{ip}/"
        assert node.ctl("exec", f"client-{node.node}", "--", "wget", "-qO-", url).stdout == "hello\n"


def test_a_host_port_is_the_plugins(node):
    ports = [{"containerPort": 80, "hostPort": 8080}]
    node.pod("ported", containers=[node.container("main", SERVE, ports=ports)])
    node.phase("ported", "Running")

    def answers():
        return urllib.request.urlopen("http://192.0.2.1:8080/", timeout=5).read() == b"hello\n"
    node.wait("the host port answers", answers)


def test_what_no_plugin_does_is_told(node):
    node.pod("fast", WAIT_FOR_TERM, metadata={"annotations": {"kubernetes.io/egress-bandwidth": "10M"}})
    node.phase("fast", "Running")
    told = [text for text in node.events("FieldNotHonoured") if "bandwidth" in text]
    assert len(told) == 1 and 'no plugin of network "pods" has the capability bandwidth' in told[0], told


def test_what_a_plugin_says_is_the_pods_event(node):
    node.configure(json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "cni9", "ipam": {"type": "static", "addresses": [{"address": "nonsense"}]}}]}))
    time.sleep(0.5)  # a written file is taken up after 50 ms; sooner, the pod would get the network before
    node.pod("refused", WAIT_FOR_TERM)
    node.wait("it is told", lambda: node.events("FailedCreatePodSandBox"))
    text = node.events("FailedCreatePodSandBox")[0]
    assert text.startswith("Failed to create pod sandbox: failed to setup network for sandbox \""), text
    assert "plugin type=\"bridge\" failed (add): " in text, text
    node.remove("refused")
    node.until_gone("refused")
    node.use_bridge()


def test_an_agent_that_comes_back_changes_nothing(node):
    before = {name: (addresses(pod), pod["status"]["containerStatuses"][0]["containerID"])
              for name, pod in node.pods().items()}
    links = node.traces()
    node.restart_agent()
    node.wait("it answers", lambda: len(node.pods()) == len(before))
    time.sleep(2)  # for what would be changed, were anything
    after = {name: (addresses(pod), pod["status"]["containerStatuses"][0]["containerID"])
             for name, pod in node.pods().items()}
    assert after == before, (before, after)
    assert node.traces() == links


def test_killed_at_any_moment_nothing_is_left(node):
    for name in ("web", "client", "ported", "fast"):
        node.remove(name)
        node.until_gone(name)
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"    seed {seed}")
    rng = random.Random(seed)
    for number in range(KILLS):
        name = f"short-{number}"
        node.pod(name, WAIT_FOR_TERM)
        time.sleep(rng.uniform(0, 0.6))
        node.restart_agent(signal.SIGKILL)
        node.phase(name, "Running", 60)
        node.remove(name)
        time.sleep(rng.uniform(0, 0.6))
        node.restart_agent(signal.SIGKILL)
        node.until_gone(name, 60)
    node.wait("nothing is left", lambda: node.traces() == ([], [], [], []), 20)


def main():
    bin_dir, make_image = map(pathlib.Path, sys.argv[1:3])
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-cni-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "addr", "add", "192.0.2.1/32", "dev", "lo"], check=True)
    archive = top / "busybox.tar"
    subprocess.run([make_image, "busybox", archive], check=True)
    node = CniNode(bin_dir, top / "node")
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    return run_on(node, top, tests, lambda: node.ctl("image", "import", archive, "--name", IMAGE, "--cmd", "/bin/sh"))


if __name__ == "__main__":
    sys.exit(main())
