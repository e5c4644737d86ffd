# SPDX-License-Identifier: Apache-2.0
"""A control plane in static pods of the node that joins it, from manifests as kubeadm writes them."""
import json

from asking import until
from control_plane import Authority
from suite import check, equal

ADDRESS, SERVICES = "10.200.0.30", "10.97.0.0/16"
VERSION = "v1.36.3"


def probe(path, port, scheme, host, **more):
    return {"httpGet": {"host": host, "path": path, "port": port, "scheme": scheme}, "timeoutSeconds": 15, **more}


def manifest(name, command, volumes, probes, notes):
    """As kubeadm has it: host network and paths, the class of what a node cannot do without, probes by named ports."""
    port, scheme, host = probes
    named = probe("/livez", "probe-port", scheme, host)
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "annotations": notes,
                     "labels": {"component": name, "tier": "control-plane"}},
        "spec": {
            "hostNetwork": True, "priority": 2000001000, "priorityClassName": "system-node-critical",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": name, "image": f"{name}:{VERSION}", "imagePullPolicy": "IfNotPresent", "command": command,
                "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
                "ports": [{"containerPort": port, "name": "probe-port", "protocol": "TCP"}],
                "livenessProbe": {**named, "initialDelaySeconds": 10, "periodSeconds": 10, "failureThreshold": 8},
                "readinessProbe": {**named, "httpGet": {**named["httpGet"], "path": "/readyz"}, "periodSeconds": 1,
                                   "failureThreshold": 3},
                "startupProbe": {**named, "initialDelaySeconds": 10, "periodSeconds": 10, "failureThreshold": 24},
                "volumeMounts": [{"name": n, "mountPath": path, "readOnly": kind != "DirectoryOrCreate"}
                                 for n, path, kind in volumes]}],
            "volumes": [{"name": n, "hostPath": {"path": path, "type": kind}} for n, path, kind in volumes]}}


def etcd(folder):
    at = f"http://127.0.0.1:{2379}"
    return manifest("etcd", [
        "etcd", f"--advertise-client-urls={at}", f"--data-dir={folder}/etcd", f"--listen-client-urls={at}",
        "--listen-metrics-urls=http://127.0.0.1:2381", "--listen-peer-urls=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=c1=http://127.0.0.1:2380", "--name=c1"],
        [("etcd-data", f"{folder}/etcd", "DirectoryOrCreate")], (2381, "HTTP", "127.0.0.1"),
        {"kubeadm.kubernetes.io/etcd.advertise-client-urls": at})


def api_server(folder, *more):
    pki = f"{folder}/pki"
    return manifest("kube-apiserver", [
        "kube-apiserver", f"--advertise-address={ADDRESS}", "--allow-privileged=true", "--authorization-mode=Node,RBAC",
        f"--client-ca-file={pki}/ca.crt", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true",
        "--etcd-servers=http://127.0.0.1:2379", f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key", "--secure-port=6443",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
        f"--service-cluster-ip-range={SERVICES}", f"--tls-cert-file={pki}/server.crt",
        f"--tls-private-key-file={pki}/server.key", *more],
        [("k8s-certs", pki, "Directory"), ("ca-certs", "/etc/ssl/certs", "DirectoryOrCreate"),
         ("audit", f"{folder}/audit.yaml", "FileOrCreate")], (6443, "HTTPS", ADDRESS),
        {"kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": f"{ADDRESS}:6443"})


def write(node, made):
    """Moved in, as kubeadm does it."""
    aside = node.top / "new.yaml"
    aside.write_text(json.dumps(made))
    aside.rename(node.manifests / f"{made['metadata']['name']}.yaml")


def test_a_node_runs_the_control_plane_that_it_joins(cluster):
    folder = cluster.folder / "self-hosted"
    (folder / "pki").mkdir(parents=True)
    keys = Authority(folder / "pki", ADDRESS, SERVICES)
    node = cluster.start_node("c1", ADDRESS, keys.kubeconfig("node", "/O=system:nodes/CN=system:node:c1"))
    del cluster.nodes["c1"]  # of another cluster
    admin = keys.kubeconfig()

    def get(*words):
        return json.loads(cluster.kubectl("--kubeconfig", admin, "get", *words, "-o", "json"))

    def ready(name):
        found = get("pod", f"{name}-c1", "-n", "kube-system")
        return {c["type"]: c["status"] for c in found["status"]["conditions"]}["Ready"] == "True"

    for name in ("etcd", "kube-apiserver"):
        cluster.import_program(name, f"{name}:{VERSION}", [node])
    write(node, api_server(folder))  # which ends until there is an etcd
    write(node, etcd(folder))
    until("its own API server has the node", lambda: get("node", "c1")["metadata"]["uid"], 120)
    for name in ("etcd", "kube-apiserver"):
        until(f"the mirror of {name} is ready", lambda n=name: ready(n), 120)
    mirror = get("pod", "kube-apiserver-c1", "-n", "kube-system")
    equal(mirror["metadata"]["annotations"]["kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"],
          f"{ADDRESS}:6443", "what kubeadm reads back")
    equal((mirror["spec"]["priority"], mirror["status"]["podIP"]), (2000001000, ADDRESS), "priority and address")
    check((folder / "audit.yaml").is_file(), "FileOrCreate made a file")

    # As kubeadm upgrades: another manifest, then wait for another hash and for the pod to be ready.
    write(node, api_server(folder, "--max-requests-inflight=401"))
    note = "kubernetes.io/config.hash"
    until("another hash", lambda: get("pod", "kube-apiserver-c1", "-n", "kube-system")["metadata"]["annotations"][note]
          != mirror["metadata"]["annotations"][note], 120)
    until("the new one is ready", lambda: ready("kube-apiserver"), 120)
    equal(get("pod", "etcd-c1", "-n", "kube-system")["status"]["containerStatuses"][0]["restartCount"], 0, "etcd stayed")

    # The agent that begins anew finds all of it running.
    before = get("pod", "kube-apiserver-c1", "-n", "kube-system")["status"]["containerStatuses"][0]["containerID"]
    node.kill(("agent",))
    node.start_agent()
    node.wait("the agent answers", lambda: node.ctl("version").returncode == 0)
    equal(get("pod", "kube-apiserver-c1", "-n", "kube-system")["status"]["containerStatuses"][0]["containerID"], before,
          "the container")
