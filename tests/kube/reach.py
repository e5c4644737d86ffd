# SPDX-License-Identifier: Apache-2.0
"""What reaches nodes of ours through the API server, and what others ask their HTTPS port directly."""
import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from asking import get, pod, restarts, until
from suite import check, equal


def logs(cluster, *words, check=True):
    return cluster.kubectl("logs", *words, check=check)


def refused(cluster, *words):
    """What kubectl says instead of a log."""
    try:
        cluster.kubectl("logs", *words)
    except RuntimeError as error:
        return str(error).split(": ", 1)[1]
    raise AssertionError(f"kubectl logs {words}: it was answered")


def raw(cluster, node, path):
    return cluster.kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/{path}")


def status_of(cluster, name):
    return get(cluster, "pod", name)["status"].get("containerStatuses", [{}])[0]


def ask(cluster, node, path, token=None, certificate=None):
    """Status and text of an answer of a node's port, as someone on the node's network is given it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        folder = cluster.plane.folder
        context.load_cert_chain(folder / f"{certificate}.crt", folder / f"{certificate}.key")
    address = get(cluster, "node", node)["status"]["addresses"][0]["address"]
    request = urllib.request.Request(f"https://{address}:10250{path}",
                                     headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_node_says_where_it_is_reached(cluster):
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    for name in cluster.nodes:
        until("it has a port", lambda n=name: get(cluster, "node", n)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250)
        until("and it answers", lambda n=name: raw(cluster, n, "healthz") == "ok")


def test_logs_are_read_with_every_option(cluster):
    cluster.apply(pod("talker", "for i in 1 2 3 4 5; do echo line $i; done; echo err >&2; sleep 1000 & wait"))
    until("it talked", lambda: logs(cluster, "talker").count("\n") == 6)
    equal(logs(cluster, "talker", "--tail=2"), "line 5\nerr\n", "tail")
    equal(logs(cluster, "talker", "--limit-bytes=8"), "line 1\nl", "limit")
    equal(logs(cluster, "talker", "--since=1h", "-c", "c").count("line"), 5, "since")
    first = logs(cluster, "talker", "--timestamps", "--tail=6").split("\n")[0]
    check(first.startswith("20") and first.endswith("Z line 1"), first)
    equal(logs(cluster, "-l", "app=talker", "--prefix", "--tail=1"), "[pod/talker/c] err\n", "prefix")


def test_a_follower_sees_lines_as_they_come_and_ends_with_the_container(cluster):
    cluster.apply(pod("ticker", "for i in 1 2 3 4 5 6; do echo tick $i; sleep 1; done", restartPolicy="Never"))
    until("it runs", lambda: "running" in status_of(cluster, "ticker").get("state", {}))
    began = time.monotonic()
    said = logs(cluster, "-f", "ticker")
    equal(said, "".join(f"tick {i}\n" for i in range(1, 7)), "all of it")
    check(time.monotonic() - began > 1, "it was followed")
    equal(logs(cluster, "ticker"), said, "of a container that ended")


def test_the_run_before_and_what_is_said_without_a_log(cluster):
    cluster.apply(pod("failing", "echo run; sleep 1; exit 3"))
    until("it ran again", lambda: restarts({"f": get(cluster, "pod", "failing")})["f"][0] >= 1)
    equal(logs(cluster, "-p", "failing"), "run\n", "previous")
    check('previous terminated container "c" in pod "talker" not found' in refused(cluster, "-p", "talker"),
          refused(cluster, "-p", "talker"))
    spec = pod("nothing", "true")
    spec["spec"]["containers"][0]["image"] = "nobody/has-this:1"
    cluster.apply(spec)
    until("it is refused", lambda: 'container "c" in pod "nothing" is waiting to start' in refused(cluster, "nothing"))
    print("  " + refused(cluster, "nothing"), flush=True)


def test_only_who_may_is_answered(cluster):
    for path in ("/pods", "/healthz", "/metrics/resource", "/exec/default/talker/c?command=id&output=1"):
        equal(ask(cluster, "n1", path), (401, "Unauthorized"), path)
        equal(ask(cluster, "n1", path, token="nobodys"), (401, "Unauthorized"), path)
    nobody = ask(cluster, "n1", "/pods", certificate="node-n2")  # another node's identity
    equal(nobody, (403, "Forbidden (user=system:node:n2, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"), "another node")
    code, text = ask(cluster, "n1", "/pods", certificate="kubelet-client")
    equal(code, 200, text)
    check(json.loads(text)["kind"] == "PodList", text[:200])


def test_a_token_reads_what_its_account_may(cluster):
    """As metrics-server does it."""
    cluster.kubectl("create", "serviceaccount", "scraper")
    token = cluster.kubectl("create", "token", "scraper").strip()
    code, text = ask(cluster, "n1", "/metrics/resource", token=token)
    equal((code, text), (403, "Forbidden (user=system:serviceaccount:default:scraper, verb=get, resource=nodes, "
                              "subresource(s)=[metrics])\n"), "without a right")
    cluster.kubectl("create", "clusterrole", "scraper", "--verb=get", "--resource=nodes/metrics,nodes/stats")
    cluster.kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=scraper", "--serviceaccount=default:scraper")
    until("the refusal is forgotten", lambda: ask(cluster, "n1", "/metrics/resource", token=token)[0] == 200, 60)
    equal(ask(cluster, "n1", "/pods", token=token)[0], 403, "and nothing else")


def test_readers_that_leave_are_forgotten(cluster):
    node = get(cluster, "pod", "talker")["spec"]["nodeName"]
    before = connections(cluster, node)
    kubectl = json.loads(cluster.record.read_text())["kubectl"]
    readers = [subprocess.Popen([kubectl, "--kubeconfig", cluster.admin, "logs", "-f", "talker"], stdout=subprocess.PIPE)
               for _ in range(5)]
    for reader in readers:
        check(reader.stdout.readline().startswith(b"line"), "it reads")
    check(connections(cluster, node) >= before + 5, "they are connected")
    for reader in readers:
        reader.kill()
        reader.wait()
        reader.stdout.close()
    until("they are gone", lambda: connections(cluster, node) <= before, 10)
    cluster.kubectl("delete", "pod", "--ignore-not-found", "--wait=false", "talker", "ticker", "failing", "nothing")


def connections(cluster, node):
    """To the port, of those that follow logs: the API server keeps idle ones, too."""
    said = subprocess.run([*cluster.nodes[node].inside, "ss", "-Htn", "state", "established", "sport = :10250"],
                          capture_output=True, text=True, check=True).stdout
    return said.count("\n")
