# SPDX-License-Identifier: Apache-2.0
"""What the controllers of a cluster make of pods: one per node, numbered ones, ones by the clock; its own DNS; a node that
is gone."""
import json
import pathlib
import subprocess

from asking import SERVER, are_ready, condition, deployment, get, inside_pod, pod_spec, pods, rolled_out, service, until
from suite import check, equal


def template(name, script, **more):
    return {"metadata": {"labels": {"app": name}}, "spec": pod_spec(script, **more)}


def test_a_daemon_set_has_a_pod_on_each_node(cluster):
    cluster.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "each"},
                   "spec": {"selector": {"matchLabels": {"app": "each"}}, "template": template("each", SERVER)}})
    until("one runs on each node", lambda: sorted(
        p["spec"]["nodeName"] for p in pods(cluster, "each").values() if p["status"]["phase"] == "Running") == ["n1", "n2"])
    until("the set says so", lambda: get(cluster, "daemonset", "each")["status"].get("numberReady") == 2)
    cluster.kubectl("delete", "daemonset", "each")
    until("they are gone", lambda: not pods(cluster, "each"))


def test_pods_of_a_stateful_set_keep_their_names_and_what_they_wrote(cluster):
    folder = cluster.folder / "kept"
    script = "[ -e /data/born ] || date +%s%N > /data/born; " + SERVER
    made = template("numbered", script)
    made["spec"]["volumes"] = [{"name": "data", "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}}]
    made["spec"]["containers"][0].update(
        env=[{"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        volumeMounts=[{"name": "data", "mountPath": "/data", "subPathExpr": "$(ME)"}])
    cluster.apply(service("numbered", clusterIP="None"), {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "numbered"},
        "spec": {"replicas": 3, "serviceName": "numbered", "selector": {"matchLabels": {"app": "numbered"}}, "template": made}})
    names = [f"numbered-{n}" for n in range(3)]
    until("three run", lambda: get(cluster, "statefulset", "numbered")["status"].get("readyReplicas") == 3)
    equal(sorted(pods(cluster, "numbered")), names, "names")
    born = [(folder / name / "born").read_text() for name in names]
    equal(born, sorted(born), "one after the other")
    before = get(cluster, "pod", "numbered-1")["metadata"]["uid"]
    cluster.kubectl("delete", "pod", "numbered-1")
    until("it is back", lambda: get(cluster, "pod", "numbered-1")["metadata"]["uid"] != before
          and get(cluster, "statefulset", "numbered")["status"].get("readyReplicas") == 3)
    equal([(folder / name / "born").read_text() for name in names], born, "what they wrote")
    equal(inside_pod(cluster, get(cluster, "pod", "numbered-1"), "hostname"), "numbered-1", "its name")
    cluster.kubectl("delete", "statefulset,service", "numbered")
    until("they are gone", lambda: not pods(cluster, "numbered"))


def test_a_cron_job_runs_by_the_clock(cluster):
    made = template("clock", "echo tick", restartPolicy="Never")
    cluster.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "clock"},
                   "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": made}}}})
    until("it ran", lambda: get(cluster, "cronjob", "clock")["status"].get("lastSuccessfulTime"), 120)
    cluster.kubectl("delete", "cronjob", "clock")
    until("its jobs are gone", lambda: not pods(cluster, "clock"))


def test_dns_in_pods_of_the_cluster_answers_pods_on_each_node(cluster):
    """CoreDNS as a Deployment that asks the API server as its service account."""
    here = pathlib.Path(__file__).resolve().parents[2]
    archive = cluster.folder / "coredns.tar"
    built = subprocess.run([here / "tests/kube/programs/build", "coredns"], check=True, stdout=subprocess.PIPE, text=True)
    subprocess.run([here / "packaging/make-image", "program", archive, built.stdout.strip().split("=", 1)[1]], check=True)
    for node in cluster.nodes.values():
        node.ctl("image", "import", archive, "--name", "coredns:test")
    corefile = ".:53 {\n errors\n health\n kubernetes cluster.local in-addr.arpa ip6.arpa\n cache 5\n}\n"
    spec = {"serviceAccountName": "names", "volumes": [{"name": "conf", "configMap": {"name": "names"}}],
            "containers": [{"name": "coredns", "image": "coredns:test", "imagePullPolicy": "IfNotPresent",
                            "command": ["coredns", "-conf", "/etc/coredns/Corefile"],
                            "volumeMounts": [{"name": "conf", "mountPath": "/etc/coredns"}]}]}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "names"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "names"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "holdfast:dns"},
         "subjects": [{"kind": "ServiceAccount", "name": "names", "namespace": "default"}]},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "names"}, "data": {"Corefile": corefile}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "names"},
         "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "names"}},
                  "template": {"metadata": {"labels": {"app": "names"}}, "spec": spec}}},
        service("names", ports=[{"name": "dns", "port": 53, "protocol": "UDP"}]),
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "asks"},
         "spec": {"selector": {"matchLabels": {"app": "asks"}}, "template": template("asks", "sleep infinity & wait")}})
    rolled_out(cluster, "names")
    until("somebody asks on each node", lambda: get(cluster, "daemonset", "asks")["status"].get("numberReady") == 2)
    address = get(cluster, "service", "names")["spec"]["clusterIP"]
    for asking in pods(cluster, "asks").values():
        until(f"{asking['spec']['nodeName']} is answered", lambda a=asking: "10.96.0.1" in inside_pod(
            cluster, a, "nslookup", "kubernetes.default.svc.cluster.local", address))
    cluster.kubectl("delete", "deployment/names", "service/names", "daemonset/asks", "configmap/names", "serviceaccount/names",
                    "clusterrolebinding/names")
    until("they are gone", lambda: not pods(cluster, "names") and not pods(cluster, "asks"))


def test_pods_of_a_node_that_is_gone_are_replaced_and_it_comes_back_clean(cluster):
    soon = [{"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
            for what in ("unreachable", "not-ready")]
    cluster.apply(deployment("moved", 6, tolerations=soon))
    rolled_out(cluster, "moved")
    gone = cluster.nodes["n2"]
    lost = {name for name, p in pods(cluster, "moved").items() if p["spec"]["nodeName"] == "n2"}
    check(lost, "pods on n2")
    cluster.end_machine(gone)
    subprocess.run(["ip", "link", "set", "hfk-n2", "down"], check=True)
    until("the node is known to be gone", lambda: condition(cluster, "n2", "Ready") == "Unknown", 120)
    until("six run on the other one", lambda: sum(
        p["spec"]["nodeName"] == "n1" and p["status"]["phase"] == "Running" for p in pods(cluster, "moved").values()) == 6, 120)
    subprocess.run(["ip", "link", "set", "hfk-n2", "up"], check=True)
    cluster.boot(gone)
    until("it is back", lambda: are_ready(cluster), 120)
    until("what was lost is gone from the server", lambda: not lost & set(pods(cluster, "moved")))
    equal(len(pods(cluster, "moved")), 6, "pods")
    gone.wait("and from the node", lambda: not lost & gone.pods().keys())
    cluster.kubectl("delete", "deployment", "moved")
    until("they are gone", lambda: not pods(cluster, "moved"))


def test_fifty_pods_go_on_without_the_api_server(cluster):
    cluster.apply(deployment("many", 50))
    rolled_out(cluster, "many")
    before = {name: p["status"]["containerStatuses"][0]["containerID"] for name, p in pods(cluster, "many").items()}
    victim = next(name for name, p in pods(cluster, "many").items() if p["spec"]["nodeName"] == "n1")
    with cluster.without_api_server():
        cluster.nodes["n1"].ctl("exec", victim, "--", "sh", "-c", "kill 1; true")
        cluster.nodes["n1"].wait("it runs again", lambda: "running" in restarted(cluster.nodes["n1"], victim)["state"]
                                 and restarted(cluster.nodes["n1"], victim)["restartCount"] == 1)
    until("all are ready", lambda: are_ready(cluster))
    until("the restart is told", lambda: pods(cluster, "many")[victim]["status"]["containerStatuses"][0]["restartCount"] == 1)
    after = {name: p["status"]["containerStatuses"][0]["containerID"] for name, p in pods(cluster, "many").items()}
    equal({n: i for n, i in after.items() if n != victim}, {n: i for n, i in before.items() if n != victim}, "the others")
    cluster.kubectl("delete", "deployment", "many")
    until("they are gone", lambda: not pods(cluster, "many"))


def restarted(node, name):
    return json.loads(node.ctl("get", "pod", name, "-o", "json").stdout)["status"]["containerStatuses"][0]
