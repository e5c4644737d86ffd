# SPDX-License-Identifier: Apache-2.0
"""A cluster of both address families: what has an address of each is reached at each, from pods of both nodes."""
import contextlib
import ipaddress

from asking import deployment, fetch, get, pod, pods, rolled_out, service, until
from kube_cluster import SECOND_RANGES
from suite import check, equal
from workloads import fetch_in_pod

# Answers with the address of who asks.
WHO = "mkdir -p /www/cgi-bin; printf '#!/bin/sh\\necho; echo $REMOTE_ADDR' > /www/cgi-bin/who; chmod +x /www/cgi-bin/who; httpd -p 80 -h /www"


def families(addresses):
    return [ipaddress.ip_address(a).version for a in addresses]


@contextlib.contextmanager
def made(cluster, *objects):
    cluster.apply(*objects)
    try:
        yield
    finally:
        cluster.kubectl("delete", *(f"{o['kind']}/{o['metadata']['name']}" for o in objects), check=False)


@contextlib.contextmanager
def askers(cluster):
    """A pod of each node that can ask."""
    ask = {name: f"asks-{name}" for name in cluster.nodes}
    with made(cluster, *(pod(asker, "while :; do sleep 1 & wait; done", nodeName=name) for name, asker in ask.items())):
        for asker in ask.values():
            until(f"{asker} runs", lambda a=asker: get(cluster, "pod", a)["status"]["phase"] == "Running")
        yield [get(cluster, "pod", asker) for asker in ask.values()]


def test_nodes_and_pods_have_an_address_of_each_family(cluster):
    for name in cluster.nodes:
        node = get(cluster, "node", name)
        equal(families(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"), [4, 6], name)
        until("it has a range of each", lambda n=name: len(get(cluster, "node", n)["spec"].get("podCIDRs", [])) == 2)
    cluster.apply(deployment("both", 4))
    rolled_out(cluster, "both")
    for found in pods(cluster, "both").values():
        node = get(cluster, "node", found["spec"]["nodeName"])
        addresses = [a["ip"] for a in found["status"]["podIPs"]]
        equal(addresses[0], found["status"]["podIP"], "the first one")
        equal([ipaddress.ip_address(a) in ipaddress.ip_network(r) for a, r in zip(addresses, node["spec"]["podCIDRs"], strict=True)],
              [True, True], f"{addresses} in {node['spec']['podCIDRs']}")
        equal([a["ip"] for a in found["status"]["hostIPs"]],
              [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"], "addresses of the node")


def test_a_service_of_both_families_is_answered_in_each(cluster):
    ports = [{"port": 80, "name": "web"}]
    every = service("both", ipFamilyPolicy="RequireDualStack", type="NodePort", ports=ports)
    with made(cluster, every), askers(cluster) as asking:
        names = set(pods(cluster, "both"))
        spec = get(cluster, "service", "both")["spec"]
        equal(families(spec["clusterIPs"]), [4, 6], "addresses")
        check(ipaddress.ip_address(spec["clusterIPs"][1]) in ipaddress.ip_network(SECOND_RANGES[0]), spec["clusterIPs"])
        for address in spec["clusterIPs"]:
            for asker in asking:
                until(f"all answer {asker['metadata']['name']} at {address}", lambda a=address, p=asker:
                      {fetch_in_pod(cluster, p, a) for _ in range(20)} == names)
        for name in cluster.nodes:
            for address in get(cluster, "node", name)["status"]["addresses"][:2]:
                host = address["address"] if "." in address["address"] else f"[{address['address']}]"
                until(f"all answer at {host}", lambda h=host: {
                    fetch([], f"http://{h}:{spec['ports'][0]['nodePort']}/") for _ in range(20)} == names)
    six = service("six", selector={"app": "both"}, ipFamilyPolicy="SingleStack", ipFamilies=["IPv6"])
    with made(cluster, six), askers(cluster) as asking:
        address = get(cluster, "service", "six")["spec"]["clusterIP"]
        equal(families([address]), [6], "an address of the second family alone")
        for asker in asking:
            until("all answer", lambda p=asker: {fetch_in_pod(cluster, p, address) for _ in range(20)} == names)
    cluster.kubectl("delete", "deployment", "both")


def test_pods_meet_with_their_own_addresses_of_each_family(cluster):
    with made(cluster, pod("who", f"{WHO}; while :; do sleep 1 & wait; done", nodeName="n1")), askers(cluster) as asking:
        until("it runs", lambda: get(cluster, "pod", "who")["status"]["phase"] == "Running")
        who = [a["ip"] for a in get(cluster, "pod", "who")["status"]["podIPs"]]
        for asker in asking:
            for address, own in zip(who, (a["ip"] for a in asker["status"]["podIPs"]), strict=True):
                until(f"{address} sees {own}", lambda p=asker, a=address, o=own: seen(cluster, p, a) == ipaddress.ip_address(o))


def seen(cluster, asker, address):
    """The address that a pod sees of another; None when nobody answers."""
    said = fetch_in_pod(cluster, asker, address, "/cgi-bin/who")
    try:
        found = ipaddress.ip_address(said.strip("[]"))
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
