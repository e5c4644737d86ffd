# SPDX-License-Identifier: Apache-2.0
"""Services lead to the pods they select."""
import json

from node import WAIT_FOR_TERM
from suite import check, equal


def test_a_service_leads_to_its_ready_pods(node):
    serve = "echo $(hostname) > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    for name in ("shop-a", "shop-b"):
        node.write(name, json.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "shop"}},
             "spec": {"terminationGracePeriodSeconds": 1, "dnsPolicy": "Default", "containers": [
                 node.container("main", serve, ports=[{"name": "http", "containerPort": 8080}])]}}))
    node.pod("client", WAIT_FOR_TERM)
    node.write("shop", json.dumps(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"},
         "spec": {"type": "NodePort", "selector": {"app": "shop"},
                  "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}}))
    for name in ("shop-a", "shop-b", "client"):
        node.phase(name, "Running")

    def service():
        return json.loads(node.ctl("get", "service", "shop", "-o", "json").stdout)

    def visit():
        # Not wget: it would need -T, in which Debian's static busybox crashes.
        ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w2 {service()['spec']['clusterIP']} 80"
        got = node.ctl("exec", f"client-{node.node}", "--", "sh", "-c", ask, check=False)
        return got.stdout.rpartition("\n\n")[2].strip()
    node.wait("the service answers", lambda: visit() != "")
    names = {f"shop-a-{node.node}", f"shop-b-{node.node}"}
    seen = set()
    node.wait("both pods answer", lambda: seen.add(visit()) or seen >= names)
    before = service()["spec"]
    check(30000 <= before["ports"][0]["nodePort"] <= 32767, f"node port: {before}")
    explained = node.ctl("explain", "service", "shop").stdout
    check("used" in explained and before["clusterIP"] in explained, explained)

    node.remove("shop-a")
    node.until_gone("shop-a")
    equal({visit() for _ in range(8)}, {f"shop-b-{node.node}"}, "after a pod went")
    node.restart_agent()
    node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
    equal(visit(), f"shop-b-{node.node}", "right after a restart")
    equal(service()["spec"], before, "addresses after a restart")
    node.remove("shop-b")
    node.until_gone("shop-b")
    node.wait("refused", lambda: visit() == "")
    node.remove("shop")
    node.wait("the service is gone", lambda: "shop" not in node.ctl("get", "services").stdout)
    node.remove("client")
