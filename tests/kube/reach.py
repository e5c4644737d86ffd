# SPDX-License-Identifier: Apache-2.0
"""What reaches nodes of ours through the API server, and what others ask their HTTPS port directly."""
import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from asking import get, pod, restarts, until
from kube_cluster import programs
from suite import check, equal


KNOWN_LINTS = ("container_memory_failcnt counter metrics should have", "cadvisor_version_info label names should be")


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
    check(connections(cluster, node) >= 5, "they are connected")
    for reader in readers:
        reader.kill()
        reader.wait()
        reader.stdout.close()
    until("they are gone", lambda: connections(cluster, node) < 5 and connections(cluster, node) <= before, 10)
    cluster.kubectl("delete", "pod", "--ignore-not-found", "--wait=false", "talker", "ticker", "failing", "nothing")


def connections(cluster, node):
    """To the port, of those that follow logs: the API server keeps idle ones, too."""
    said = subprocess.run([*cluster.nodes[node].inside, "ss", "-Htn", "state", "established", "sport = :10250"],
                          capture_output=True, text=True, check=True).stdout
    return said.count("\n")


def test_statistics_are_those_of_a_kubelet(cluster):
    cluster.apply(pod("busy", "while :; do :; done"))
    until("it runs", lambda: "running" in status_of(cluster, "busy").get("state", {}))
    node = get(cluster, "pod", "busy")["spec"]["nodeName"]

    def summary():
        return json.loads(raw(cluster, node, "stats/summary"))

    def of_pod():
        found = [p for p in summary()["pods"] if p["podRef"]["name"] == "busy"]
        return found[0] if found else {}

    until("it is measured twice", lambda: of_pod()["cpu"].get("usageNanoCores", 0) > 0)
    found = of_pod()
    check(found["containers"][0]["memory"]["workingSetBytes"] > 0, found)
    check(found["network"]["interfaces"][0]["name"] == "eth0", found["network"])
    shown = summary()["node"]
    equal(shown["nodeName"], node, "node")
    check(shown["memory"]["workingSetBytes"] > 0 and shown["fs"]["capacityBytes"] > 0, shown)


def samples(text, name):
    """Labels and value of each line of a metric."""
    return [line[len(name):].split(" ")[:2] for line in text.splitlines() if line.startswith(name + "{")]


def test_metrics_are_what_collectors_read(cluster):
    node = get(cluster, "pod", "busy")["spec"]["nodeName"]
    text = raw(cluster, node, "metrics/resource")
    busy = [value for labels, value in samples(text, "container_cpu_usage_seconds_total") if 'pod="busy"' in labels]
    check(len(busy) == 1 and float(busy[0]) > 0, text)
    check("resource_scrape_error 0" in text, text)
    text = raw(cluster, node, "metrics/cadvisor")
    rows = [labels for labels, _ in samples(text, "container_memory_working_set_bytes") if 'pod="busy"' in labels]
    equal(len(rows), 2, "the pod and its container")
    check(any('container="c"' in labels and "busybox" in labels for labels in rows), rows)
    check(f'kubelet_node_name{{node="{node}"}} 1' in raw(cluster, node, "metrics"), "metrics")
    equal(json.loads(raw(cluster, node, "configz"))["kubeletconfig"]["kind"], "KubeletConfiguration", "configz")
    check("busy" in [p["metadata"]["name"] for p in json.loads(raw(cluster, node, "runningpods/"))["items"]], "runningpods")
    cluster.kubectl("delete", "pod", "busy", "--wait=false")


def test_probes_and_what_the_agent_does_are_counted(cluster):
    spec = pod("probed", "sleep 1000 & wait")
    spec["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    cluster.apply(spec)
    until("it is ready", lambda: status_of(cluster, "probed").get("ready"))
    found = get(cluster, "pod", "probed")
    node, uid = found["spec"]["nodeName"], found["metadata"]["uid"]
    tried = samples(raw(cluster, node, "metrics/probes"), "prober_probe_total")
    labels = (f'{{container="c",namespace="default",pod="probed",pod_uid="{uid}",probe_type="Readiness",'
              'result="successful"}')
    check(any(one == labels and float(count) >= 1 for one, count in tried), tried)
    text = raw(cluster, node, "metrics")
    for name, labels in (("kubelet_pod_start_duration_seconds_count", ""),
                         ("kubelet_pod_worker_duration_seconds_count", '{operation_type="create"}'),
                         ("kubelet_runtime_operations_total", '{operation_type="start_container"}'),
                         ("kubelet_runtime_operations_duration_seconds_count", '{operation_type="run_podsandbox"}'),
                         ("kubelet_started_containers_total", '{container_type="container"}')):
        counts = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{name}{labels} ")]
        check(len(counts) == 1 and float(counts[0]) >= 1, f"{name}{labels}: {counts}")
    lint(cluster, node)
    cluster.kubectl("delete", "pod", "probed")
    until("its series are gone", lambda: "probed" not in raw(cluster, node, "metrics/probes"))


def lint(cluster, node):
    """What Prometheus's own reader says. What it finds in names that cAdvisor has given is known."""
    promtool = programs("promtool")["promtool"]
    for path in ("metrics", "metrics/probes", "metrics/resource", "metrics/cadvisor"):
        said = subprocess.run([promtool, "check", "metrics"], input=raw(cluster, node, path), capture_output=True,
                              text=True, check=False)
        found = [line for line in said.stderr.splitlines() if not line.startswith(KNOWN_LINTS)]
        check(said.returncode in (0, 3) and not found, f"{path}: {said.returncode} {said.stderr}")


def test_holdctl_prints_what_kubectl_prints(cluster):
    cluster.apply(pod("shown", "sleep 1000 & wait"))
    until("it is ready", lambda: status_of(cluster, "shown").get("ready"))
    node = get(cluster, "pod", "shown")["spec"]["nodeName"]
    record = json.loads(cluster.record.read_text())

    def both(*words):
        """Output, complaint and end of the two."""
        theirs = subprocess.run([record["kubectl"], "--kubeconfig", cluster.admin, *words], capture_output=True,
                                text=True, check=False)
        ours = cluster.nodes[node].ctl(*words, check=False)
        return [(said.stdout, said.stderr, said.returncode) for said in (theirs, ours)]

    def stripped(said):
        return "\n".join(line.rstrip() for line in said.splitlines())

    for words in (("get", "pod", "shown", "-o", "jsonpath={.metadata.name} {.spec.containers[*].name}{.nothing}"),
                  ("get", "pod/shown", "-o", "jsonpath={.status.podIPs}{.metadata.labels}"),
                  ("get", "pods", "-l", "app=shown", "-o", "jsonpath={range .items[*]}{.metadata.name}:{.status.phase}{end}"),
                  ("get", "pods", "-l", "app=shown", "-o", "name"),
                  ("get", "pod", "shown", "-o", "custom-columns=N:.metadata.name,L:.metadata.labels,IP:.status.podIP,X:.x"),
                  ("get", "pod", "shown", "-o", "custom-columns=N:.metadata.name", "--no-headers"),
                  ("get", "pods", "--field-selector", f"metadata.name=shown,spec.nodeName={node}", "-o", "name"),
                  ("get", "pods", "--field-selector", "metadata.name!=shown,metadata.name=shown", "-o", "name"),
                  ("get", "pod", "shown", "nowhere", "-o", "name"),
                  ("get", "pod", "nowhere", "--ignore-not-found"),
                  ("get", "pods", "-l", "app=nobody"),
                  ("get", "pods", "-n", "nobody"),
                  ("get", "pod", "shown", "-l", "a=b"),
                  ("get", "pod", "shown", "-o", "jsonpath={.a[}"),
                  ("get", "pod", "shown", "-o", "jsonpath="),
                  ("get", "pod", "shown", "-o", "custom-columns=A"),
                  ("get", "pod", "shown", "-o", "custom-columns=A:{.a")):
        theirs, ours = both(*words)
        equal(ours, theirs, " ".join(words))
    # Tables have the age in them.
    for words in (("get", "pod", "shown", "--show-labels"), ("get", "pod", "shown", "--show-kind", "-L", "app,none"),
                  ("get", "pod", "shown", "-o", "wide")):
        theirs, ours = ([line.split()[:4] + line.split()[5:] for line in stripped(said[0]).splitlines()]
                        for said in both(*words))
        equal(ours, theirs, " ".join(words))
    cluster.kubectl("delete", "pod", "shown", "--wait=false")


def test_a_flood_of_clients_does_not_keep_the_api_server_out(cluster):
    """Connections that say nothing, from one place, more than there may be."""
    address = get(cluster, "node", "n1")["status"]["addresses"][0]["address"]
    code = ("import socket, sys, time\nopen = []\n"
            "for _ in range(600):\n    open.append(socket.create_connection((sys.argv[1], 10250), 5))\n"
            "print('there', flush=True)\ntime.sleep(60)\n")
    flood = subprocess.Popen(["python3", "-c", code, address], stdout=subprocess.PIPE, text=True)
    try:
        equal(flood.stdout.readline(), "there\n", "flood")
        for _ in range(5):
            equal(raw(cluster, "n1", "healthz"), "ok", "healthz")
    finally:
        flood.kill()
        flood.wait()
        flood.stdout.close()
