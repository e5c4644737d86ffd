# SPDX-License-Identifier: Apache-2.0
"""Pods and Services of a cluster on nodes of ours, through stock kubectl."""
from asking import (IMAGE, SERVER, deployment, fetch, get, inside_pod, pod, pods, restarts, rolled_out, service,
                    until)
from machine import IPVS
from suite import check, equal


def address(cluster, name):
    return get(cluster, "service", name)["spec"]["clusterIP"]


def answers(cluster, url, count=12):
    """Who answers at `url` on each node."""
    return {name: {fetch(node.inside, url) for _ in range(count)} for name, node in cluster.nodes.items()}


def fetch_in_pod(cluster, found, ip, path="/"):
    return inside_pod(cluster, found, "sh", "-c", f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {ip} 80").split("\n")[-1]


def test_a_deployment_is_answered_through_its_service_on_both_nodes(cluster):
    cluster.apply(deployment("web", 4), service("web"))
    rolled_out(cluster, "web")
    found = pods(cluster, "web")
    equal({p["spec"]["nodeName"] for p in found.values()}, set(cluster.nodes), "nodes with pods")
    url = f"http://{address(cluster, 'web')}/"
    until("each pod answers on each node", lambda: all(
        said == set(found) for said in answers(cluster, url, 30).values()))


def test_pods_of_two_nodes_meet_with_their_own_addresses(cluster):
    found = list(pods(cluster, "web").values())
    here = next(p for p in found if p["spec"]["nodeName"] == "n1")
    there = next(p for p in found if p["spec"]["nodeName"] == "n2")
    equal(fetch_in_pod(cluster, here, there["status"]["podIP"]), there["metadata"]["name"], "who answers")
    check(fetch_in_pod(cluster, here, address(cluster, "web")) in pods(cluster, "web"), "through the Service")


def test_a_rollout_an_undo_and_a_scaling(cluster):
    cluster.apply(deployment("web", 4, "echo two; " + SERVER))
    rolled_out(cluster, "web")
    equal([p["spec"]["containers"][0]["command"][2].count("echo two") for p in pods(cluster, "web").values()
           if not p["metadata"].get("deletionTimestamp")], [1] * 4, "pods of the new version")
    cluster.kubectl("rollout", "undo", "deployment", "web")
    rolled_out(cluster, "web")
    cluster.kubectl("scale", "deployment", "web", "--replicas=30")
    rolled_out(cluster, "web")
    cluster.kubectl("scale", "deployment", "web", "--replicas=2")
    until("28 are gone", lambda: len(pods(cluster, "web")) == 2)
    equal(set(map(tuple, restarts(pods(cluster, "web")).values())), {(0,)}, "restarts")


def test_what_ends_is_reported_with_its_code(cluster):
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
                   "spec": {"completions": 3, "parallelism": 2, "template": {
                       "metadata": {"labels": {"app": "sum"}}, "spec": {**pod("", "exit 0")["spec"], "restartPolicy": "Never"}}}})
    cluster.apply(pod("fails", "exit 3", restartPolicy="Never"))
    until("the job is complete", lambda: get(cluster, "job", "sum")["status"].get("succeeded") == 3)
    until("the pod failed", lambda: get(cluster, "pod", "fails")["status"]["phase"] == "Failed")
    ended = get(cluster, "pod", "fails")["status"]["containerStatuses"][0]["state"]["terminated"]
    equal((ended["exitCode"], ended["reason"]), (3, "Error"), "its end")
    cluster.kubectl("delete", "job/sum", "pod/fails")
    until("they are gone", lambda: not pods(cluster, "sum") and not pods(cluster, "fails"))


def test_a_pods_life_is_few_writes(cluster):
    cluster.apply(pod("one", "while :; do sleep 1 & wait; done"))
    until("it runs", lambda: get(cluster, "pod", "one")["status"]["phase"] == "Running")
    found = get(cluster, "pod", "one")
    cluster.kubectl("delete", "pod", "one")
    until("it is gone", lambda: not pods(cluster, "one"))
    mine = [e for e in cluster.audit(found["spec"]["nodeName"])
            if e.get("objectRef", {}).get("resource") == "pods" and e["objectRef"].get("name") == "one"]
    writes = [(e["verb"], e["requestURI"], e["responseStatus"]["code"]) for e in mine if e["verb"] not in ("get", "watch", "list")]
    print(f"  {writes}", flush=True)
    check(len(writes) <= 4, writes)
    equal([w for w in writes if w[2] >= 300], [], "failed ones")
    # patch → delete
    equal(writes[-1][0], "delete", "the last one")
    reasons = [e["reason"] for e in get(cluster, "events")["items"] if e["involvedObject"]["name"] == "one"]
    equal([r for r in reasons if r in ("Scheduled", "Pulled", "Created", "Started", "Killing")],
          ["Scheduled", "Pulled", "Created", "Started", "Killing"], f"events {reasons}")


def test_a_pod_is_made_from_config_maps_secrets_and_a_token(cluster):
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "one", "b": "two"}},
                  {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"s": "hidden"}})
    made = pod("made", "while :; do sleep 1 & wait; done")
    made["spec"]["volumes"] = [
        {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "a", "path": "x/a"}]}},
        {"name": "key", "secret": {"secretName": "key", "defaultMode": 0o400}},
        {"name": "me", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]
    made["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": n, "mountPath": f"/{n}"} for n in ("conf", "key", "me")],
        "envFrom": [{"configMapRef": {"name": "conf"}}],
        "env": [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "key", "key": "s"}}}]}
    cluster.apply(made)
    until("it runs", lambda: get(cluster, "pod", "made")["status"]["phase"] == "Running")
    found = get(cluster, "pod", "made")

    def says(script):
        return inside_pod(cluster, found, "sh", "-c", script)

    equal(says("cat /conf/x/a /key/s /me/labels; echo; echo $a $b $S"), 'onehiddenapp="made"\none two hidden', "what it sees")
    equal(says("stat -c %a /key/..data/s"), "400", "the Secret's mode")
    here = "/var/run/secrets/kubernetes.io/serviceaccount"
    equal(says(f"ls {here}").split(), ["ca.crt", "namespace", "token"], "the account's files")
    equal(says(f"cat {here}/namespace; echo; echo $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT_HTTPS"),
          "default\n10.96.0.1 443", "what every pod is told")
    reviewed = cluster.plane.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": says(f"cat {here}/token")}})
    equal(reviewed["status"]["user"]["username"], "system:serviceaccount:default:default", "whose token it is")
    cluster.kubectl("patch", "configmap", "conf", "-p", '{"data":{"a":"three"}}')
    cluster.kubectl("label", "pod", "made", "more=yes")
    until("the files follow", lambda: says("cat /conf/x/a") == "three")
    until("and its labels", lambda: 'more="yes"' in says("cat /me/labels"))
    equal(restarts({"made": get(cluster, "pod", "made")}), {"made": [0]}, "restarts")
    cluster.kubectl("delete", "pod/made", "configmap/conf", "secret/key")


def test_what_is_missing_is_told_and_waited_for(cluster):
    late = pod("late", "while :; do sleep 1 & wait; done")
    late["spec"]["volumes"] = [{"name": "conf", "configMap": {"name": "later"}}]
    late["spec"]["containers"][0]["volumeMounts"] = [{"name": "conf", "mountPath": "/conf"}]
    cluster.apply(late)
    until("it is told", lambda: any(
        e["reason"] == "FailedMount" and 'configmap "later" not found' in e["message"]
        for e in get(cluster, "events")["items"] if e["involvedObject"]["name"] == "late"))
    equal(get(cluster, "pod", "late")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
          "ContainerCreating", "what it waits in")
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}, "data": {"a": "1"}})
    until("it runs", lambda: get(cluster, "pod", "late")["status"]["phase"] == "Running", 150)
    cluster.kubectl("delete", "pod/late", "configmap/later")


def memory_limit(node, uid):
    """Of a pod's cgroup."""
    found = [folder / name for tree in node.cgroup_trees() for folder in tree.glob(f"**/pod{uid}")
             for name in ("memory.max", "memory.limit_in_bytes") if (folder / name).exists()]
    return int(found[0].read_text())


def test_a_class_of_runtime_counts_by_its_handler_and_its_overhead_is_taken(cluster):
    def kind(name, handler, **more):
        return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler, **more}

    equal([h["name"] for h in get(cluster, "node", "n1")["status"]["runtimeHandlers"]], ["", "holdfast", "runc"], "handlers")
    cluster.apply(kind("light", "runc", overhead={"podFixed": {"cpu": "250m", "memory": "64Mi"}}), kind("heavy", "kata"))
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    light = pod("light", "while :; do sleep 1 & wait; done", runtimeClassName="light", nodeName="n1")
    light["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "500m", "memory": "32Mi"}}
    cluster.apply(light, pod("heavy", "while :; do sleep 1 & wait; done", runtimeClassName="heavy", nodeName="n1"))
    until("it runs", lambda: get(cluster, "pod", "light")["status"]["phase"] == "Running")
    found = get(cluster, "pod", "light")
    equal(found["spec"]["overhead"], {"cpu": "250m", "memory": "64Mi"}, "what admission wrote")
    equal(memory_limit(cluster.nodes["n1"], found["metadata"]["uid"]), 96 << 20, "the pod's limit")
    until("the other one is told", lambda: any(
        e["reason"] == "FailedCreatePodSandBox" and 'no runtime for "kata" is configured' in e["message"]
        for e in get(cluster, "events")["items"] if e["involvedObject"]["name"] == "heavy"))
    equal(get(cluster, "pod", "heavy")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
          "ContainerCreating", "what it waits in")
    cluster.kubectl("delete", "runtimeclass", "heavy")  # its handler cannot be changed
    cluster.apply(kind("heavy", "holdfast"))
    until("it runs when there is another class of the name", lambda: get(cluster, "pod", "heavy")["status"]["phase"] == "Running")
    cluster.kubectl("delete", "pod/light", "pod/heavy", "runtimeclass/light", "runtimeclass/heavy")
    until("they are gone", lambda: not pods(cluster, "light") and not pods(cluster, "heavy"))


def test_each_proxy_mode_serves_the_cluster(cluster):
    url = f"http://{address(cluster, 'web')}/"
    found = set(pods(cluster, "web"))
    modes = ["iptables", "nftables"]
    if IPVS.exists():
        modes.insert(1, "ipvs")
    print(f"note: modes {', '.join(modes)}", flush=True)
    for mode in modes:
        for node in cluster.nodes.values():
            node.set_mode(mode)
        for node in cluster.nodes.values():
            until(f"mode {mode}", lambda n=node, m=mode: n.ctl("proxy", "dump").stdout.startswith(f"# proxy mode {m}"))
        until("it answers", lambda: all(said == found for said in answers(cluster, url, 12).values()))


def test_a_node_is_drained_and_comes_back(cluster):
    cluster.kubectl("scale", "deployment", "web", "--replicas=4")
    rolled_out(cluster, "web")
    cluster.kubectl("drain", "n1", "--ignore-daemonsets", "--force", "--timeout=60s")
    rolled_out(cluster, "web")
    equal({p["spec"]["nodeName"] for p in pods(cluster, "web").values() if not p["metadata"].get("deletionTimestamp")},
          {"n2"}, "nodes with pods")
    cluster.kubectl("uncordon", "n1")


def ephemeral(found):
    return {c["name"]: c for c in found["status"].get("ephemeralContainerStatuses", [])}


def test_a_pod_is_looked_at_by_an_ephemeral_container(cluster):
    cluster.apply(pod("looked-at", "exec sleep 12345"))
    until("it runs", lambda: get(cluster, "pod", "looked-at")["status"]["phase"] == "Running")
    before = get(cluster, "pod", "looked-at")["status"]["containerStatuses"][0]["containerID"]
    cluster.kubectl("debug", "looked-at", f"--image={IMAGE}", "--image-pull-policy=IfNotPresent", "--target=c",
                    "--container=seer", "--attach=false", "--", "sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '; exit 4")
    until("it has ended", lambda: "terminated" in ephemeral(get(cluster, "pod", "looked-at"))["seer"]["state"])
    found = get(cluster, "pod", "looked-at")
    seer = ephemeral(found)["seer"]
    equal((seer["state"]["terminated"]["exitCode"], seer["restartCount"], seer["ready"]), (4, 0, False), "its end")
    node = cluster.nodes[found["spec"]["nodeName"]]
    equal(node.ctl("logs", "looked-at", "-c", "seer").stdout.strip(), "sleep 12345", "process 1 is the target's")
    cluster.kubectl("debug", "looked-at", f"--image={IMAGE}", "--image-pull-policy=IfNotPresent",
                    "--container=alone", "--attach=false", "--", "sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '")
    until("the second one has ended", lambda: "terminated" in ephemeral(get(cluster, "pod", "looked-at"))["alone"]["state"])
    check(node.ctl("logs", "looked-at", "-c", "alone").stdout.startswith("sh -c"), "without a target it has its own")
    found = get(cluster, "pod", "looked-at")
    equal((found["status"]["phase"], found["status"]["containerStatuses"][0]["containerID"]), ("Running", before), "the pod")
    until("its events name it", lambda: any(
        e["involvedObject"].get("fieldPath") == "spec.ephemeralContainers{seer}" and e["reason"] == "Started"
        for e in get(cluster, "events")["items"]))
    cluster.kubectl("delete", "pod", "looked-at")
