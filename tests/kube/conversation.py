# SPDX-License-Identifier: Apache-2.0
"""What a node of ours says to the API server about a pod, beside what a kubelet says about the same pod (the hollow node).
Each difference stands here, with its reason; another one fails."""
import collections
import datetime
import re
import time
import urllib.parse

from asking import condition, get, pod, pods, until
from suite import check, equal

# (verb, what) of one of both. Events are not compared: the hollow kubelet has a recorder that sends none.
OURS_ALONE = {
    # Both watch them too. One for each pod that arrives: it shows what was changed before the pod was made (docs/inputs.md).
    ("get", "configmaps"), ("get", "secrets"),
}
KUBELETS_ALONE = {
    # Before each patch of a status. Ours has the UID in the patch, which the server compares.
    ("get", "pods"),
}
STATUS_OF_OURS_ALONE = {
    # A pod that starts is not ready for a while, and says why; one that only pretends may skip that.
    "conditions.message",
    # The hollow node's runtime runs nothing, and its prober looks at nothing.
    "containerStatuses.started", "containerStatuses.state.terminated.reason",
    "containerStatuses.user.linux.gid", "containerStatuses.user.linux.supplementalGroups", "containerStatuses.user.linux.uid",
}
STATUS_OF_KUBELETS_ALONE = {
    # Always null.
    "conditions.lastProbeTime",
    # Both empty.
    "containerStatuses.resources", "resources",
    # Its first patch, that the container is being made. Ours is gathered for 300 ms, by when most run.
    "containerStatuses.state.waiting.reason",
}
ABOUT = ("pods", "configmaps", "secrets", "serviceaccounts")
NAMES_OF_TIME = ("timeout", "timeoutSeconds", "resourceVersion")


def said(cluster, node, since):
    """[(verb, resource, URI without names and times, body)] of what is about pods and what they are made from."""
    found = []
    for event in cluster.audit(node):
        of = event.get("objectRef", {})
        if of.get("resource") not in ABOUT or datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]) < since:
            continue
        if event["verb"] == "watch" and event["stage"] != "ResponseStarted":
            continue  # its end
        if event["responseStatus"]["code"] >= 300:
            continue  # the server's authorizer may hear of a pod later than its node, which asks again
        path, _, query = event["requestURI"].partition("?")
        kept = sorted(pair for pair in urllib.parse.parse_qsl(query) if pair[0] not in NAMES_OF_TIME)
        found.append((event["verb"], "/".join(filter(None, (of["resource"], of.get("subresource")))),
                      f"{path.replace(f'as-{node}', 'POD')} {kept}", event.get("requestObject")))
    return found


def names_in(body, path=""):
    """Paths of what a body sets; an element of a list has the path of the list."""
    if isinstance(body, list):
        return set().union(*(names_in(one, path) for one in body)) if body else {path}
    if not isinstance(body, dict) or not body:
        return {path}
    return set().union(*(names_in(value, f"{path}.{name}" if path else name) for name, value in body.items()
                         if not name.startswith("$")))


def is_told(status):
    return (status["phase"] == "Running" and "podIP" in status and "running" in status["containerStatuses"][0]["state"]
            and any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"]))


def live_and_die(cluster, node):
    """The same pod on any node, from its creation to its end; what the node said meanwhile."""
    began = datetime.datetime.now(datetime.UTC)
    name = f"as-{node}"
    made = pod(name, "while :; do sleep 1 & wait; done", nodeName=node, tolerations=[{"operator": "Exists"}])
    made["spec"]["volumes"] = [{"name": "conf", "configMap": {"name": "same"}}, {"name": "key", "secret": {"secretName": "same"}}]
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": n, "mountPath": f"/{n}"} for n in ("conf", "key")]
    cluster.apply(made)
    # What only pretends is ready before it runs.
    until("it runs and all of it was told", lambda: is_told(get(cluster, "pod", name)["status"]))
    time.sleep(2)  # ours follows what a pod mounts once it has run for a second
    cluster.kubectl("delete", "pod", name)
    until("it is gone", lambda: not pods(cluster, name))
    # The log is written after the answer.
    until("the log has its end", lambda: ("delete", "pods") in {(verb, what) for verb, what, _, _ in said(cluster, node, began)})
    return said(cluster, node, began)


def test_a_node_says_of_a_pod_what_a_kubelet_says(cluster):
    until("the hollow node is ready", lambda: condition(cluster, "h1", "Ready") == "True", 240)
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same"}, "data": {"a": "one"}},
                  {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "same"}, "stringData": {"a": "one"}})
    ours, theirs = (live_and_die(cluster, node) for node in ("n1", "h1"))
    cluster.kubectl("delete", "configmap/same", "secret/same")
    for who, all_said in (("ours", ours), ("kubelet", theirs)):
        print(f"  {who}: {[(verb, what) for verb, what, _, _ in all_said]}", flush=True)

    # Which requests, to the letter but for names and times.
    def asked(all_said, alone):
        return {(verb, uri) for verb, what, uri, _ in all_said if (verb, what) not in alone}

    def kinds(all_said):
        return {(verb, what) for verb, what, _, _ in all_said}

    equal(kinds(ours) - kinds(theirs), OURS_ALONE, "what only ours asks")
    equal(kinds(theirs) - kinds(ours), KUBELETS_ALONE, "what only a kubelet asks")
    equal(asked(ours, OURS_ALONE), asked(theirs, KUBELETS_ALONE), "requests")

    # The order of what is written to the pod, whatever the number of patches.
    def writes(all_said):
        steps = [(verb, what) for verb, what, _, _ in all_said if what.startswith("pods") and verb != "get"]
        return [step for step, before in zip(steps, [None, *steps]) if step != before]

    equal(writes(ours), writes(theirs), "writes")
    check(len([1 for verb, what, _, _ in ours if what.startswith("pods")]) <= 4, "more than four writes")

    def bodies(all_said, wanted):
        return set().union(*(names_in(body) for verb, what, _, body in all_said if (verb, what) == wanted))

    for wanted in (("create", "serviceaccounts/token"), ("delete", "pods")):
        equal(bodies(ours, wanted), bodies(theirs, wanted), f"body of {wanted}")
    patched = [{name.removeprefix("status.") for name in bodies(one, ("patch", "pods/status"))} for one in (ours, theirs)]
    equal(patched[0] - patched[1] - STATUS_OF_OURS_ALONE, set(), "fields of a status that only ours sets")
    equal(patched[1] - patched[0] - STATUS_OF_KUBELETS_ALONE, set(), "fields of a status that only a kubelet sets")


def test_no_write_conflicts_again_and_again(cluster):
    """Of everything that nodes asked in the tests before."""
    for name in cluster.nodes:
        conflicts = collections.Counter(re.sub(r"\?.*", "", e["requestURI"]) for e in cluster.audit(name)
                                        if e["responseStatus"]["code"] == 409)
        print(f"  {name}: {sum(conflicts.values())} conflicts", flush=True)
        equal({uri: count for uri, count in conflicts.items() if count > 2}, {}, "told 409 more than twice")


# What the server's authorizer and its admission of tokens say of a pod that they have not heard of yet; the node asks again.
NOT_HEARD_OF = ("no relationship found", "token bound to a pod scheduled on a different node")


def test_nothing_is_forbidden_but_what_the_server_has_not_heard_of_yet(cluster):
    """Of everything that nodes asked in the tests before."""
    for name in cluster.nodes:
        asked = cluster.audit(name)
        refused = [e for e in asked if e["responseStatus"]["code"] == 403]
        early = [e for e in refused if any(words in e["responseStatus"].get("message", "") for words in NOT_HEARD_OF)]
        print(f"  {name}: {len(refused)} of {len(asked)} answers are 403, of these {len(early)} too early", flush=True)
        equal([(e["verb"], e["requestURI"], e["responseStatus"].get("message")) for e in refused if e not in early], [],
              f"what {name} may not")
        check(len(early) * 25 <= len(asked), f"{name}: asked too early again and again")
