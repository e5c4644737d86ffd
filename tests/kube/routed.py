# SPDX-License-Identifier: Apache-2.0
"""A node behind a router."""
import json
import pathlib
import subprocess

from asking import deployment, get, pod, pods, rolled_out, service, until
from suite import equal
from workloads import fetch_in_pod

BEHIND = ("hfk1", "10.201.0.254")  # the router is the namespace in which the tests run


def way_to(node, address):
    """The link that a node sends through."""
    return json.loads(subprocess.run([*node.inside, "ip", "-json", "route", "get", address], check=True, capture_output=True,
                                     text=True).stdout)[0]["dev"]


def test_pods_of_nodes_with_a_router_between_them_meet(cluster):
    for way in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        pathlib.Path("/proc/sys/net", way).write_text("1")
    cluster.add_segment(*BEHIND)
    far = cluster.make_node("n3", "10.201.0.13", cluster.credentials("n3"), BEHIND)
    archive = cluster.folder.parent / "busybox.tar"
    try:
        far.start_agent()
        until("it is ready", lambda: any(c["type"] == "Ready" and c["status"] == "True"
                                         for c in get(cluster, "node", "n3")["status"]["conditions"]))
        far.ctl("image", "import", archive, "--name", "busybox", "--cmd", "/bin/sh")
        cluster.nodes["n3"] = far
        for name in ("n1", "n3"):
            cluster.apply(deployment(f"on-{name}", 1, nodeName=name), service(f"on-{name}"),
                          pod(f"asks-{name}", "while :; do sleep 1 & wait; done", nodeName=name))
        for name in ("n1", "n3"):
            rolled_out(cluster, f"on-{name}")
            until("it runs", lambda n=name: get(cluster, "pod", f"asks-{n}")["status"]["phase"] == "Running")
        for here, there in (("n1", "n3"), ("n3", "n1")):
            (answering, found), = pods(cluster, f"on-{there}").items()
            asking = get(cluster, "pod", f"asks-{here}")
            address = get(cluster, "service", f"on-{there}")["spec"]["clusterIP"]
            own = [a["ip"] for a in found["status"]["podIPs"]]
            for where in (*own, address):
                until(f"{here} reaches a pod of {there} at {where}",
                      lambda a=asking, u=where, n=answering: fetch_in_pod(cluster, a, u) == n)
            equal([way_to(cluster.nodes[here], where) for where in own], ["vx-hk4", "vx-hk6"], "through")
    finally:
        cluster.kubectl("delete", *(f"{kind}/{what}-{n}" for n in ("n1", "n3") for kind, what in (
            ("deployment", "on"), ("service", "on"), ("pod", "asks"))), "--ignore-not-found", check=False)
        until("they are gone", lambda: not any(pods(cluster, f"on-{n}") for n in ("n1", "n3")))
        cluster.nodes.pop("n3", None)
        cluster.remove_node(far)
        cluster.kubectl("delete", "node", "n3", "--ignore-not-found")
        subprocess.run(["ip", "link", "delete", BEHIND[0]], check=True)
