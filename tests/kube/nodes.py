# SPDX-License-Identifier: Apache-2.0
"""Nodes of ours as a control plane sees them."""
import datetime

from asking import are_ready, condition, get, until
from suite import check, equal


def lease(cluster, node):
    return get(cluster, "lease", node, "-n", "kube-node-lease")


def test_nodes_register_and_become_ready(cluster):
    until("all nodes are ready", lambda: are_ready(cluster))
    for name in cluster.nodes:
        found = get(cluster, "node", name)
        info = found["status"]["nodeInfo"]
        check(info["kubeletVersion"].startswith("v1.36.3+holdfast."), info)
        equal([c["type"] for c in found["status"]["conditions"]],
              ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"], "conditions")
        ready = found["status"]["conditions"][-1]
        equal((ready["reason"], ready["message"]), ("KubeletReady", "kubelet is posting ready status"), "Ready")
        equal(found["metadata"]["labels"]["kubernetes.io/hostname"], name, "label")
        equal([a["type"] for a in found["status"]["addresses"]], ["InternalIP", "InternalIP", "Hostname"], "addresses")
        equal(found["status"]["declaredFeatures"], [
            "ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
            "RestartAllContainersOnContainerExits"], "features")
        until("its CSINode is there", lambda n=name: get(cluster, "csinode", n)["metadata"]["ownerReferences"][0]["uid"]
              == get(cluster, "node", n)["metadata"]["uid"])
        until("it has a range for pods", lambda n=name: get(cluster, "node", n)["spec"].get("podCIDR", "").endswith("/24"))


def test_the_lease_is_renewed_by_its_owner(cluster):
    for name in cluster.nodes:
        until("there is a Lease", lambda n=name: lease(cluster, n))
        first = lease(cluster, name)
        equal(first["spec"]["leaseDurationSeconds"], 40, "duration")
        equal(first["metadata"]["ownerReferences"][0]["uid"], get(cluster, "node", name)["metadata"]["uid"], "owner")
        until("it is renewed", lambda n=name, f=first: lease(cluster, n)["spec"]["renewTime"] > f["spec"]["renewTime"], 20)


def test_a_node_that_is_deleted_comes_back_and_its_pods_go_on(cluster):
    before = get(cluster, "node", "n2")["metadata"]["uid"]
    cluster.kubectl("delete", "node", "n2")
    until("it is registered again", lambda: get(cluster, "node", "n2")["metadata"]["uid"] != before, 60)
    until("and ready", lambda: condition(cluster, "n2", "Ready") == "True")
    until("its Lease has the new owner", lambda: lease(cluster, "n2")["metadata"]["ownerReferences"][0]["uid"]
          == get(cluster, "node", "n2")["metadata"]["uid"], 60)


def test_a_node_asks_for_what_it_may_and_seldom_when_idle(cluster):
    """Of everything that the nodes asked in the tests before: nothing was forbidden. And a node without news."""
    for name in cluster.nodes:
        refused = [(e["verb"], e["requestURI"], e["responseStatus"].get("message")) for e in cluster.audit(name)
                   if e["responseStatus"]["code"] == 403]
        equal(refused, [], f"what {name} may not")
    began = datetime.datetime.now(datetime.UTC)
    idle = 30
    until(f"{idle} s", lambda: (datetime.datetime.now(datetime.UTC) - began).total_seconds() > idle, 2 * idle)
    for name in cluster.nodes:
        recent = [(e["verb"], e["requestURI"]) for e in cluster.audit(name)
                  if datetime.datetime.fromisoformat(e["requestReceivedTimestamp"]) > began]
        print(f"  {name}: {len(recent)} requests in {idle} s", flush=True)
        check(len(recent) <= idle * 12 / 60, f"{name}: {recent}")
