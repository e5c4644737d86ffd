# SPDX-License-Identifier: Apache-2.0
"""How a node comes to be one of the cluster and stays it: bootstrap tokens, requests for certificates, renewal, rights."""
import json
import pathlib
import re
import signal
import subprocess

from asking import condition, get, until
from kube_cluster import PACKAGED
from suite import check, equal

TOKEN_ID, TOKEN_SECRET = "abcdef", "0123456789abcdef"
APPROVAL = "holdfast:node-autoapprove-bootstrap"
SHORT = "2m"  # certificates of the controllers, when they shall be renewed soon


def bootstrap_file(cluster, folder):
    """What a machine that joins is given: a token, no key."""
    path = folder / "bootstrap.kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "b",
        "clusters": [{"name": "b", "cluster": {"server": f"https://{cluster.plane.address}:6443",
                                               "certificate-authority": str(cluster.folder / "plane/ca.crt")}}],
        "users": [{"name": "b", "user": {"token": f"{TOKEN_ID}.{TOKEN_SECRET}"}}],
        "contexts": [{"name": "b", "context": {"cluster": "b", "user": "b"}}]}))
    path.chmod(0o600)
    return path


def give_token(cluster):
    text = (PACKAGED / "bootstrap-token.yaml").read_text()
    text = text.replace("0123456789ABCDEF", TOKEN_SECRET).replace("ABCDEF", TOKEN_ID)
    cluster.kubectl("apply", "-f", "-", text=re.sub(r"expiration: .*", 'expiration: "2099-01-01T00:00:00Z"', text))


def requests_of(cluster, name):
    """CSRs of a node's client certificate, oldest first."""
    found = [r for r in get(cluster, "csr")["items"]
             if r["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"]
    mine = [r for r in found if name in subprocess.run(
        ["sh", "-c", "base64 -d | openssl req -noout -subject"], input=r["spec"]["request"], text=True,
        capture_output=True, check=True).stdout]
    return sorted(mine, key=lambda r: r["metadata"]["creationTimestamp"])


def joining(cluster, name, address, **config):
    """A machine that has nothing but a token; not started."""
    give_token(cluster)
    node = cluster.make_node(name, address, None)
    node.set_config(kubeconfig="", bootstrapKubeconfig=str(bootstrap_file(cluster, node.top)), **config)
    return node


def leave(cluster, node):
    name = node.node
    cluster.remove_node(node)
    cluster.kubectl("delete", "node", name, "--ignore-not-found")
    for request in requests_of(cluster, f"system:node:{name}"):
        cluster.kubectl("delete", "csr", request["metadata"]["name"])


def shown(node, kind="ClientCertificate"):
    found = json.loads(node.ctl("get", "node", node.node, "-o", "json").stdout)
    return next((c for c in found["status"]["conditions"] if c["type"] == kind), {"reason": "", "message": ""})


def pki(node):
    return node.top / "root/pki"


def test_a_machine_with_a_token_becomes_a_node(cluster):
    node = joining(cluster, "n3", "10.200.0.13")
    try:
        node.start_agent()
        until("it is ready", lambda: condition(cluster, "n3", "Ready") == "True", 120)
        equal(len(requests_of(cluster, "system:node:n3")), 1, "requests")
        current = pki(node) / "kubelet-client-current.pem"
        check(re.fullmatch(r"kubelet-client-[0-9-]{19}\.pem", current.readlink().name), current.readlink())
        equal(oct(current.stat().st_mode & 0o777), "0o600", "who reads the key")
        check(str(current) in (node.top / "root/kubeconfig").read_text(), "the kubeconfig names it")
        equal(shown(node)["reason"], "Valid", "shown")
        until("the event is there", lambda: any(e["reason"] == "CertificateIssued" for e in get(
            cluster, "events", "-n", "default", "--field-selector=involvedObject.name=n3")["items"]), 30)
    finally:
        leave(cluster, node)


def test_killed_at_each_step_it_asks_only_once(cluster):
    steps = ("identity.key_saved", "identity.request_posted", "identity.issued", "identity.certificate_written",
             "identity.certificate_current", "identity.kubeconfig_written")
    node = joining(cluster, "n4", "10.200.0.14")
    try:
        reached = []
        for step in steps:
            pauses = node.top / f"pause-{step}"
            pauses.mkdir()
            node.environment = {**cluster.environment, "HOLDFAST_PAUSE_DIR": str(pauses), "HOLDFAST_PAUSE_AT": step}
            node.start_agent()
            until(f"it reaches {step}", lambda p=pauses, n=node: list(p.glob("identity.*"))
                  or (n.top / "root/kubeconfig").exists(), 60)
            reached += [step] if list(pauses.glob("identity.*")) else []
            node.agent.send_signal(signal.SIGKILL)
            node.agent.wait()
        check(set(steps[:3]) <= set(reached), f"reached {reached}")
        node.environment = cluster.environment
        node.start_agent()
        until("it is ready", lambda: condition(cluster, "n4", "Ready") == "True", 120)
        equal(len(requests_of(cluster, "system:node:n4")), 1, "requests")
        equal(sorted(p.name for p in pki(node).glob("*.tmp")), [], "keys that are under way")
    finally:
        leave(cluster, node)


def test_without_an_approver_it_waits_and_tells_how_to_approve(cluster):
    cluster.kubectl("delete", "clusterrolebinding", APPROVAL)
    node = joining(cluster, "n5", "10.200.0.15")
    try:
        node.start_agent()
        until("it waits", lambda: shown(node)["reason"] == "Pending")
        name = requests_of(cluster, "system:node:n5")[0]["metadata"]["name"]
        check(f"kubectl certificate approve {name}" in shown(node)["message"], shown(node))
        cluster.kubectl("certificate", "deny", name)
        until("it was refused", lambda: shown(node)["reason"] == "Refused")
        check("was denied" in shown(node)["message"], shown(node))
        # A new agent does not wait for the back-off of the former one, and asks with another key.
        node.agent.kill()
        node.agent.wait()
        node.start_agent()
        until("it asks again", lambda: len(requests_of(cluster, "system:node:n5")) == 2, 60)
        cluster.kubectl("certificate", "approve", next(
            r["metadata"]["name"] for r in requests_of(cluster, "system:node:n5") if r["metadata"]["name"] != name))
        until("it is ready", lambda: condition(cluster, "n5", "Ready") == "True", 120)
    finally:
        leave(cluster, node)
        cluster.kubectl("apply", "-f", str(PACKAGED / "csr-approval.yaml"))


def test_short_certificates_are_renewed_and_the_node_stays_ready(cluster):
    flags = cluster.plane.stop_one("kube-controller-manager")
    cluster.plane.spawn("kube-controller-manager", [*flags, f"--cluster-signing-duration={SHORT}"])
    node = joining(cluster, "n6", "10.200.0.16")
    try:
        node.start_agent()
        until("it is ready", lambda: condition(cluster, "n6", "Ready") == "True", 120)
        first = (pki(node) / "kubelet-client-current.pem").readlink()
        until("it has another certificate", lambda: (pki(node) / "kubelet-client-current.pem").readlink() != first, 240)
        until("two renewals", lambda: len(requests_of(cluster, "system:node:n6")) >= 3, 240)
        asked = requests_of(cluster, "system:node:n6")
        equal(asked[0]["spec"]["username"], f"system:bootstrap:{TOKEN_ID}", "who asked first")
        equal({r["spec"]["username"] for r in asked[1:]}, {"system:node:n6"}, "who renews")
        equal(condition(cluster, "n6", "Ready"), "True", "Ready")
        check(node.agent.poll() is None, "the same agent")
    finally:
        leave(cluster, node)
        cluster.plane.stop_one("kube-controller-manager")
        cluster.plane.spawn("kube-controller-manager", flags)


def test_a_serving_certificate_names_the_nodes_addresses(cluster):
    node = joining(cluster, "n7", "10.200.0.17", serverTLSBootstrap=True)
    try:
        node.start_agent()
        until("it waits for approval", lambda: shown(node, "ServingCertificate")["reason"] == "Pending", 120)
        name = re.search(r"CSR (\S+)", shown(node, "ServingCertificate")["message"]).group(1)
        cluster.kubectl("certificate", "approve", name)
        until("it has one", lambda: shown(node, "ServingCertificate")["reason"] == "Valid", 60)
        text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", pki(node) / "kubelet-server-current.pem"],
                              capture_output=True, text=True, check=True).stdout
        check("DNS:n7, IP Address:10.200.0.17" in text and "TLS Web Server Authentication" in text, text)
    finally:
        leave(cluster, node)


def test_a_missing_right_is_named_with_what_grants_it(cluster):
    node = cluster.nodes["n1"]
    equal(node.ctl("check", check=False).returncode, 0, "with all rights")
    cluster.kubectl("delete", "clusterrolebinding", "holdfast:node-proxier")
    try:
        until("it is told", lambda: "endpointslices.discovery.k8s.io" in node.ctl("check", check=False).stdout)
        said = node.ctl("check", check=False)
        equal(said.returncode, 1, said.stdout)
        manifest = said.stdout[said.stdout.index("apiVersion:"):]
        cluster.kubectl("apply", "-f", "-", text=manifest)
        until("nothing is missing", lambda: node.ctl("check", check=False).returncode == 0)
    finally:
        cluster.kubectl("apply", "-f", str(PACKAGED / "node-proxier.yaml"))


def test_a_program_makes_the_nodes_token(cluster):
    """A kubeconfig with an exec plugin: here a token of a service account that may do what the node does."""
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "n8", "namespace": "default"}})
    cluster.kubectl("create", "clusterrolebinding", "n8", "--clusterrole=cluster-admin", "--serviceaccount=default:n8")
    node = cluster.make_node("n8", "10.200.0.18", None)
    try:
        token = cluster.kubectl("create", "token", "n8", "-n", "default", "--duration=10m").strip()
        (node.top / "token").write_text(token)
        plugin = node.top / "plugin"
        plugin.write_text(f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> {node.top}/asked\n'
                          f'echo "{{\\"kind\\":\\"ExecCredential\\",\\"apiVersion\\":\\"$1\\",'
                          f'\\"status\\":{{\\"token\\":\\"$(cat {node.top}/token)\\"}}}}"\n')
        plugin.chmod(0o755)
        config = json.loads(bootstrap_file(cluster, node.top).read_text())
        version = "client.authentication.k8s.io/v1"
        config["users"][0]["user"] = {"exec": {"apiVersion": version, "command": "./plugin", "args": [version],
                                               "interactiveMode": "Never", "provideClusterInfo": True}}
        path = pathlib.Path(node.top / "kubeconfig")
        path.write_text(json.dumps(config))
        node.set_config(kubeconfig=str(path))
        node.start_agent()
        until("it is ready", lambda: condition(cluster, "n8", "Ready") == "True", 120)
        info = json.loads((node.top / "asked").read_text().splitlines()[0])
        equal(info["spec"]["cluster"]["server"], f"https://{cluster.plane.address}:6443", "what it was told")
    finally:
        leave(cluster, node)
        cluster.kubectl("delete", "clusterrolebinding", "n8")
        cluster.kubectl("delete", "serviceaccount", "n8", "-n", "default")
