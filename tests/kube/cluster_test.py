#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cluster_test.py BIN_DIR MAKE_IMAGE PROGRAMS [FILTER…]: the cluster that tests/kube/cluster makes is a real one, and goes without a trace.
tests/kube/run starts it, in network, mount and pid namespaces of its own."""
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import churn  # noqa: E402
import controllers  # noqa: E402
import conversation  # noqa: E402
import evictions  # noqa: E402
import families  # noqa: E402
import faults  # noqa: E402
import identity  # noqa: E402
import metrics_server  # noqa: E402
import nodes  # noqa: E402
import probes  # noqa: E402
import reach  # noqa: E402
import registries  # noqa: E402
import resizes  # noqa: E402
import routed  # noqa: E402
import self_hosted  # noqa: E402
import statics  # noqa: E402
import storage  # noqa: E402
import streams  # noqa: E402
import workloads  # noqa: E402
from asking import IMAGE, condition, deployment, get, pods, until  # noqa: E402
from kube_cluster import DNS, HOLLOW, SERVER, Cluster  # noqa: E402
from machine import Machine  # noqa: E402
from suite import check, equal, run_tests  # noqa: E402


def address_of(name):
    """The first IPv4 address that the cluster's DNS has for a name; None without one."""
    query = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0)
    query += b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        client.sendto(query, (SERVER, 53))
        answer = client.recv(512)
    if struct.unpack(">6H", answer[:12])[3] == 0:
        return None
    return socket.inet_ntoa(answer[-4:])


def test_the_servers_of_the_control_plane_are_ready(cluster):
    equal(cluster.kubectl("get", "--raw", "/readyz"), "ok", "readyz")
    version = json.loads(cluster.kubectl("version", "-o", "json"))
    equal((version["serverVersion"]["gitVersion"], version["clientVersion"]["gitVersion"]), ("v1.36.3", "v1.36.3"),
          "versions")
    until("a namespace gets its account", lambda: any(
        a["metadata"]["name"] == "default" for a in get(cluster, "serviceaccounts", "-n", "default")["items"]))
    until("and the authority's certificate", lambda: any(
        m["metadata"]["name"] == "kube-root-ca.crt" for m in get(cluster, "configmaps", "-n", "default")["items"]))


def test_a_real_kubelet_joins_and_the_scheduler_gives_it_a_pod(cluster):
    # A kubelet that could not make its CSINode at once registers minutes later.
    until("the hollow node is ready", lambda: condition(cluster, "h1", "Ready") == "True", 240)
    until("it has a range for pods", lambda: get(cluster, "node", "h1")["spec"].get("podCIDR", "").endswith("/24"))
    cluster.apply(deployment("hollow", 2, nodeSelector={"kubernetes.io/hostname": "h1"},
                             tolerations=[{"key": HOLLOW, "operator": "Exists"}]))
    until("two pods run", lambda: [p["status"]["phase"] for p in pods(cluster, "hollow").values()] == ["Running"] * 2)
    cluster.kubectl("delete", "deployment", "hollow")
    until("they are gone", lambda: not pods(cluster, "hollow"))


def test_a_node_may_do_what_our_bindings_say_and_no_more(cluster):
    as_node = ("--as=system:node:h1", "--as-group=system:nodes", "--as-group=system:authenticated")
    for verb, what, expected in (("list", "endpointslices.discovery.k8s.io", "yes"), ("watch", "services", "yes"),
                                 ("list", "nodes", "yes"), ("list", "secrets", "no"), ("create", "deployments.apps", "no")):
        said = cluster.kubectl("auth", "can-i", verb, what, "-A", *as_node, check=False).strip()
        equal(said.split()[0], expected, f"a node may {verb} {what}: {said}")


def test_names_of_services_are_resolved(cluster):
    until("kubernetes has its address", lambda: address_of("kubernetes.default.svc.cluster.local") == "10.96.0.1")
    equal(address_of("kube-dns.kube-system.svc.cluster.local"), DNS, "the DNS service")
    equal(address_of("nobody.default.svc.cluster.local"), None, "a name that nobody has")


def test_each_node_of_ours_has_an_agent_that_answers(cluster):
    for name, node in cluster.nodes.items():
        equal(json.loads(node.ctl("get", "node", name, "-o", "json").stdout)["metadata"]["name"], name, "node")
        said = node.ctl("get", "secrets", check=False)
        equal((said.returncode, "whose API server has its secrets: use kubectl get secrets" in said.stderr), (1, True), said.stderr)


def test_our_client_follows_pods(cluster):
    """A watch that sends the list first, in protobuf; and the answers that are refusals."""
    def probe(verb, path):
        return subprocess.Popen([pathlib.Path(cluster.bin) / "kube_api_probe", cluster.admin, verb, path],
                                stdout=subprocess.PIPE, text=True)
    pods = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnobody"
    said = {path: probe("get", path).communicate(timeout=60)[0] for path in
            (pods, "/api/v1/namespaces/default/pods/none", "/api/v1/pods?fieldSelector=spec.foo%3Dx")}
    equal([text.split(":")[0].strip() for text in said.values()],
          [f"{answer[:3]} application/vnd.kubernetes.protobuf {answer[4:]}" for answer in
           ("200 PodList", "404 NotFound", "400 BadRequest")], "answers")
    unscheduled = '{"spec": {"nodeName": "nobody", "tolerations": [{"operator": "Exists"}]}}'
    cluster.kubectl("run", "first", "--image=x", f"--overrides={unscheduled}")
    watch = probe("watch", pods + "&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                           "&allowWatchBookmarks=true&timeoutSeconds=15")
    lines = [watch.stdout.readline().strip() for _ in range(2)]
    equal(lines, ["ADDED first Pending", "BOOKMARK   all are known"], "the list")
    cluster.kubectl("run", "second", "--image=x", f"--overrides={unscheduled}")
    cluster.kubectl("delete", "pod", "first", "--force", "--grace-period=0")
    rest = watch.communicate(timeout=60)[0].splitlines()
    check("ADDED second Pending" in rest and "DELETED first Pending" in rest, f"changes: {rest}")
    equal(rest[-1], "ended", "the end")
    cluster.kubectl("delete", "pod", "second", "--force", "--grace-period=0")


def test_nothing_is_left_after_the_end(cluster):
    """The last one."""
    trees = [tree for node in cluster.nodes.values() for tree in node.cgroup_trees()]
    check(trees, "agents without cgroups")
    keepers = [pid for node in cluster.nodes.values() for pids in node.keepers().values() for pid in pids]
    equal(len(keepers), 3 * len(cluster.nodes), "keepers")
    cluster.down()
    equal(list(cluster.processes()), [], "processes")
    equal([pid for pid in keepers if Machine.is_alive(pid)], [], "keepers")
    equal([tree for tree in trees if tree.exists()], [], "cgroups")
    equal([p.name for p in pathlib.Path("/sys/class/net").iterdir() if p.name.startswith("hfk")], [], "links")
    equal(list(pathlib.Path("/run/netns").glob("hfk-*")), [], "namespaces")
    check(not cluster.folder.exists(), "the folder")


def main():
    bin_dir, make_image, programs = map(pathlib.Path, sys.argv[1:4])
    filters = sys.argv[4:] or [""]
    programs = dict(line.split("=", 1) for line in programs.read_text().splitlines())
    last = test_nothing_is_left_after_the_end
    tests = [(name, test) for module in (nodes, sys.modules[__name__], workloads, families, resizes, evictions, conversation, controllers, storage, probes, reach, metrics_server, registries, streams, statics, self_hosted, routed, faults, churn, identity)
             for name, test in vars(module).items()
             if name.startswith("test_") and any(f in f"{module.__name__}.{name}" for f in filters) and test != last]
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-kube-"))
    cluster = Cluster(top / "cluster", bin_dir, dual=True)
    try:
        subprocess.run([make_image, "busybox", top / "busybox.tar"], check=True)
        began = time.monotonic()
        cluster.up(programs, nodes=2, hollow=1)
        print(f"  up after {time.monotonic() - began:.1f} s", flush=True)
        cluster.import_image(top / "busybox.tar", IMAGE.removesuffix(":latest"))
        # No pod is taken before; whichever test is the first would have to wait.
        until("a namespace gets its account", lambda: get(cluster, "serviceaccount", "default", "-n", "default"))
        failed = run_tests(cluster, [*tests, (last.__name__, last)])
    finally:
        cluster.down()
        shutil.rmtree(top)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
