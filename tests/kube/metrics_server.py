# SPDX-License-Identifier: Apache-2.0
"""metrics-server, by its own manifests, on nodes of ours: what kubectl top shows, and an autoscaler that goes by it."""
import json
import pathlib
import shutil
import subprocess

from asking import deployment, get, pod, pods, until
from kube_cluster import BUILD
from suite import check, equal

MODULE = "sigs.k8s.io/metrics-server"
IMAGE = "metrics-server:test"
MANIFESTS = ("apiservice.yaml", "deployment.yaml", "rbac.yaml", "service.yaml")
# The nodes here have certificates of their own: nobody approves their requests.
PATCH = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--kubelet-insecure-tls"}]
BUSY = "while :; do :; done"


def write_kustomization(folder):
    """Its manifests as they are, but for the image."""
    found = subprocess.run(["go", "mod", "download", "-json", MODULE], cwd=BUILD.parent / "metrics-server", check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    module = pathlib.Path(json.loads(found)["Dir"])
    folder.mkdir()
    for name in MANIFESTS:
        shutil.copyfile(module / "manifests/base" / name, folder / name)
    (folder / "kustomization.yaml").write_text(json.dumps({
        "labels": [{"pairs": {"k8s-app": "metrics-server"}, "includeSelectors": True, "includeTemplates": True}],
        "resources": list(MANIFESTS),
        "images": [{"name": "gcr.io/k8s-staging-metrics-server/metrics-server", "newName": IMAGE.split(":")[0],
                    "newTag": IMAGE.split(":")[1]}],
        "patches": [{"target": {"kind": "Deployment"}, "patch": json.dumps(PATCH)}]}))
    return folder


def limited(made, **resources):
    """`made` is a pod, or what makes pods."""
    spec = made["spec"].get("template", made)["spec"]
    spec["containers"][0]["resources"] = resources
    return made


def top(cluster, *words):
    """Rows of words; [] while it has nothing to say."""
    return [line.split() for line in cluster.kubectl("top", *words, "--no-headers", check=False).splitlines()]


def number(text, unit):
    check(text.endswith(unit), f"{text} is not in {unit}")
    return int(text.removesuffix(unit))


def test_metrics_server_runs_by_its_own_manifests(cluster):
    """Not root, nothing of its image can be written, probed over TLS, of a class that a cluster cannot do without."""
    cluster.reach_pods()
    cluster.import_program("metrics-server", IMAGE, cluster.nodes.values(), "--entrypoint", '["metrics-server"]')
    cluster.apply(limited(pod("busy", BUSY), limits={"cpu": "200m", "memory": "32Mi"}),
                  pod("idle", "sleep 1000 & wait"))
    cluster.kubectl("apply", "-k", str(write_kustomization(cluster.folder / "metrics-server")))
    until("it is ready", lambda: get(cluster, "deployment", "metrics-server", "-n", "kube-system")["status"]["readyReplicas"] == 1)
    until("the API server has its group", lambda: [c["status"] for c in get(
        cluster, "apiservice", "v1beta1.metrics.k8s.io")["status"]["conditions"] if c["type"] == "Available"] == ["True"])


def test_kubectl_top_shows_what_nodes_and_pods_use(cluster):
    until("both nodes are measured", lambda: {row[0] for row in top(cluster, "nodes") if row[1] != "<unknown>"} >= set(cluster.nodes), 120)
    for name, cpu, _, memory, share in top(cluster, "nodes"):
        if name not in cluster.nodes:
            continue
        summary = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/stats/summary"))["node"]
        check(number(cpu, "m") > 0 and number(share, "%") > 0, f"{name}: {cpu} {share}")
        ours = summary["memory"]["workingSetBytes"] / 2**20
        check(0.7 * ours < number(memory, "Mi") < 1.4 * ours, f"{name}: {memory}, and the node says {ours:.0f}Mi")
    until("both pods are measured", lambda: {row[0] for row in top(cluster, "pods")} >= {"busy", "idle"}, 120)
    until("its limit is what the busy one uses", lambda: 120 < number(top(cluster, "pod", "busy")[0][1], "m") < 220, 120)
    rows = top(cluster, "pods", "--containers", "--sort-by=cpu")
    equal(rows[0][:2], ["busy", "c"], "who is first")
    idle = next(row for row in rows if row[0] == "idle")
    check(number(idle[2], "m") < 20 and number(idle[3], "Mi") < 32, idle)
    cluster.kubectl("delete", "pod", "busy", "idle", "--wait=false")


def test_an_autoscaler_goes_by_what_nodes_measure(cluster):
    cluster.apply(limited(deployment("burner", 1, BUSY), requests={"cpu": "50m"}, limits={"cpu": "100m"}))
    cluster.kubectl("autoscale", "deployment", "burner", "--cpu=50%", "--min=1", "--max=3")
    until("it has as many as it may", lambda: len(pods(cluster, "burner")) == 3, 240)
    until("and they run", lambda: [p["status"]["phase"] for p in pods(cluster, "burner").values()] == ["Running"] * 3)
    cluster.kubectl("delete", "hpa,deployment", "burner")
    cluster.kubectl("delete", "-k", str(cluster.folder / "metrics-server"))
    until("they are gone", lambda: not pods(cluster, "burner"))
