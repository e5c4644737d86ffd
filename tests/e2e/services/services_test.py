#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Services under the real agent: services_test.py BIN_DIR [FILTER].

Run as root in a network and mount namespace of its own (CMakeLists.txt does that)."""
import json
import pathlib
import subprocess
import sys
import tempfile

from world import (Held, Knocking, Neighbour, Node, Sender, Servers, ask, frozen, has_ipvs,
                   prepare_network, run, seconds_until)
from suite import Skip, check, equal, run_on  # found once world is there

ENDPOINTS = {"a": "10.50.0.1", "b": "10.50.0.2"}
A, B = ENDPOINTS.values()
# What the kernel tells us of is put right in a tenth of this; what it does not, only at the comparison of each ten seconds.
NOTICED = 3


def until(node, what, ready):
    node.wait(what, ready, 30)


# --- tests -----------------------------------------------------------------------------------------


def test_rules_that_others_flush_are_back_at_once(node):
    node.service("web", "10.96.0.10")
    node.endpoints("web", [A])
    until(node, "the service answers", lambda: ask("10.96.0.10") == "a")
    for damage in ("flush ruleset", f"delete table ip {node.table}-services",
                   f"flush chain ip {node.table}-services services",
                   f"flush map ip {node.table}-services endpoints"):
        run("nft", damage)
        took = seconds_until(lambda: ask("10.96.0.10", patience=0.02) == "a", NOTICED)
        check(took is not None, f"nft {damage}: no packet came through for {NOTICED} s")
        print(f"  nft {damage}: packets flow again after {took * 1000:.0f} ms", flush=True)
    # The pods' own rules (masquerade, host ports) are another table of the agent.
    run("nft", "flush ruleset")
    took = seconds_until(lambda: subprocess.run(
        ["nft", "list", "chain", "ip", node.table, "postrouting"], capture_output=True,
        check=False).returncode == 0, NOTICED)
    check(took is not None, f"the pods' own rules are not back after {NOTICED} s")
    print(f"  the pods' own table: back after {took * 1000:.0f} ms", flush=True)


def test_the_same_in_iptables_mode(node):
    node.service("web", "10.96.0.10")
    node.endpoints("web", [A])
    node.set_mode("iptables")
    until(node, "only iptables has rules", lambda: node.modes() == {"iptables"})
    for damage in (("-t", "nat", "-F"), ("-t", "nat", "-F", "KUBE-SERVICES"),
                   ("-t", "nat", "-D", "OUTPUT", "1")):
        run("iptables-nft", *damage)
        took = seconds_until(lambda: ask("10.96.0.10", patience=0.02) == "a", NOTICED)
        check(took is not None, f"iptables {damage}: no packet came through for {NOTICED} s")
        print(f"  iptables-nft {' '.join(damage)}: packets flow again after {took * 1000:.0f} ms",
              flush=True)
    node.set_mode("nftables")
    until(node, "only nftables has rules", lambda: node.modes() == {"nftables"})


def test_what_begins_while_the_rules_are_away_is_answered_once_they_are_back(node):
    """Its first packet leaves untranslated, and the connection table keeps that."""
    node.service("web", "10.96.0.10")
    node.endpoints("web", [A])
    node.service("dns", "10.96.0.53", 53, "UDP")
    node.endpoints("dns", [A], "UDP")
    for mode, damage in (("iptables", ("iptables-nft", "-t", "nat", "-F")),
                         ("nftables", ("nft", "flush", "ruleset"))):
        node.set_mode(mode)
        until(node, f"only {mode} has rules", lambda m=mode: node.modes() == {m} == node.recorded_modes())
        until(node, "the services answer", lambda: (ask("10.96.0.10"), Sender("10.96.0.53", 53).ask()) == ("a", "a"))
        with frozen(*node.pids_of("agent")):
            run(*damage)
            client, sender = Knocking("10.96.0.10"), Sender("10.96.0.53", 53)
            equal((sender.ask(), client.answer(0.1)), (None, None), f"{mode}: answers while the rules are away")
        until(node, f"{mode}: the UDP sender is answered", lambda s=sender: s.ask() == "a")
        equal(client.answer(20), "a", f"{mode}: the connection that began meanwhile")
    node.remove("dns")


def test_udp_senders_that_never_stop_follow_the_endpoints(node):
    node.service("dns", "10.96.0.53", 53, "UDP")
    node.endpoints("dns", [A], "UDP")
    sender = Sender("10.96.0.53", 53)
    until(node, "a datagram is answered", lambda: sender.ask() == "a")
    node.endpoints("dns", [B], "UDP")
    until(node, "the flow goes to the new endpoint", lambda: sender.ask() == "b")
    node.endpoints("dns", [], "UDP")
    until(node, "nobody answers after the last endpoint went", lambda: sender.ask() is None)
    node.endpoints("dns", [A], "UDP")
    until(node, "the first endpoint is back", lambda: sender.ask() == "a")
    node.remove("dns")
    until(node, "nobody answers after the service went", lambda: sender.ask() is None)


def test_the_nodes_label_is_its_zone(node):
    node.service("web", "10.96.0.10")
    node.endpoints("web", [A, B], zones={A: "east", B: "west"})
    until(node, "a node without a zone uses both", lambda: {ask("10.96.0.10") for _ in range(20)} == {"a", "b"})
    for zone, only in (("east", "a"), ("west", "b")):
        node.set_config(nodeLabels={"topology.kubernetes.io/zone": zone})
        node.kill(("agent",))
        until(node, f"in {zone} only its own is used", lambda o=only: {ask("10.96.0.10") for _ in range(20)} == {o})
    node.set_config(nodeLabels={})
    node.kill(("agent",))
    until(node, "both again", lambda: {ask("10.96.0.10") for _ in range(20)} == {"a", "b"})


def test_node_ports_follow_the_nodes_address(node):
    node.service("web", "10.96.0.10", type="NodePort",
                 ports=[{"port": 80, "protocol": "TCP", "nodePort": 30080}])
    node.endpoints("web", [A])
    until(node, "the node port answers", lambda: ask("10.60.0.2", 30080) == "a")
    run("ip", "address", "add", "10.60.0.7/24", "dev", "up0")
    run("ip", "route", "replace", "default", "via", "10.60.0.1", "src", "10.60.0.7")
    until(node, "it answers at the new primary address", lambda: ask("10.60.0.7", 30080) == "a")
    check(ask("10.60.0.2", 30080) != "a", "and not at the other one")
    run("ip", "route", "replace", "default", "via", "10.60.0.1", "src", "10.60.0.2")
    run("ip", "address", "del", "10.60.0.7/24", "dev", "up0")
    until(node, "and at the first one again", lambda: ask("10.60.0.2", 30080) == "a")


def test_a_file_that_cannot_be_read_is_told_and_its_services_stay(node):
    node.service("web", "10.96.0.10")
    node.endpoints("web", [A])
    until(node, "the service answers", lambda: ask("10.96.0.10") == "a")
    file = node.manifests / "web.json"
    good = file.read_text()
    new = node.manifests / ".web.new"
    new.write_text(f"{good}\n---\n{good}\n")
    new.rename(file)
    fault = "web.json:2:1: text that begins with { is JSON and has no lines ---"
    until(node, "it is logged", lambda: fault in node.log())
    equal(node.log().count(fault), 1, "times it is logged")
    check("the last good version of the file stays in force" in node.log(), node.log())
    equal(ask("10.96.0.10"), "a", "the last good service")
    for words in (("describe", "node"), ("describe", "service", "web"), ("get", "events")):
        said = node.ctl(*words).stdout
        check("FailedValidation" in said and fault in said, f"holdctl {' '.join(words)}: {said}")
    check(node_condition(node, "ManifestProblem")["message"].startswith(fault), "the condition")
    new.write_text(good)
    new.rename(file)
    until(node, "the condition is gone",
          lambda: node_condition(node, "ManifestProblem")["status"] == "False")
    check("web.json: in order again" in node.log(), node.log())
    equal(node.log().count(fault), 1, "times it was logged")


def node_condition(node, kind):
    conditions = json.loads(node.ctl("get", "node", node.node, "-o", "json").stdout)["status"]["conditions"]
    return next(c for c in conditions if c["type"] == kind)


def in_an_empty_network(text, *words):
    """Runs a program with `text` as its input in a network namespace of its own."""
    return subprocess.run(["unshare", "--net", *words], input=text, capture_output=True, text=True,
                          check=False)


def test_a_dump_of_the_rules_can_be_loaded(node):
    node.service("web", "10.96.0.10", sessionAffinity="ClientIP")
    node.endpoints("web", [A, B])
    for mode, load in (("nftables", "nft -f - && nft list ruleset"),
                       ("iptables", "sed '/^# IPv6/,$d' | iptables-nft-restore && iptables-nft-save")):
        node.set_mode(mode)
        until(node, f"only {mode} has rules", lambda m=mode: node.modes() == {m})
        dump = node.ctl("proxy", "dump").stdout
        check(dump.startswith(f"# proxy mode {mode}\n"), dump[:200])
        loaded = in_an_empty_network(dump, "sh", "-ec", load)
        equal((loaded.returncode, loaded.stderr), (0, ""), f"loading the dump of {mode}")
        for what in ("10.96.0.10", A, B):
            check(what in loaded.stdout, f"{what} is not in {loaded.stdout}")
    node.set_mode("nftables")
    until(node, "nftables again", lambda: node.modes() == {"nftables"})


def test_only_what_there_was_of_a_kube_proxy_is_named(node):
    config = node.top / "other.yaml"
    config.write_text(json.dumps({**json.loads(node.config.read_text()), "rootDir": str(node.top / "other")}))
    clean = f"{node.bin}/holdfastd --config {config} --cleanup-kube-proxy"
    for before, said in (("true", ""),
                         ("iptables-nft -t nat -N KUBE-SVC-AAAAAAAAAAAAAAAA",
                          "removed: rules of the iptables mode\n"),
                         ("nft add table ip kube-proxy", "removed: ip kube-proxy\n")):
        done = in_an_empty_network("", "sh", "-ec", f"{before}; {clean}")
        equal((done.returncode, done.stdout), (0, said), f"after {before}: {done.stderr}")


def test_health_and_metrics_are_answered_as_kube_proxy_does(node):
    node.service("web", "10.96.0.10")
    node.endpoints("web", [A])
    node.kill(("agent",))
    node.set_config(healthzBindAddress="0.0.0.0:10256", metricsBindAddress="127.0.0.1:10249")
    until(node, "rules are written", lambda: '"status"' in node.get("http://127.0.0.1:10256/healthz")[1])
    for path, keys in (("healthz", ["currentTime", "healthy", "lastUpdated", "nodeEligible", "status"]),
                       ("livez", ["currentTime", "healthy", "lastUpdated", "status"])):
        status, body = node.get(f"http://10.60.0.2:10256/{path}")
        said = json.loads(body)
        equal((status, sorted(said), said["healthy"]), (200, keys, True), path)
        equal(said["status"]["IPv4"]["healthy"], True, path)
    equal(node.get("http://127.0.0.1:10256/")[0], 404, "another path")
    equal(node.get("http://127.0.0.1:10249/proxyMode"), (200, "nftables"), "mode")
    equal(configz(node)["holdfast.dev"]["nodeName"], node.node, "nodeName of /configz")
    equal(configz(node)["kubeproxy.config.k8s.io"]["mode"], "nftables", "mode of /configz")
    endpoint_changes = 'kubeproxy_sync_proxy_rules_endpoint_changes_total '
    before = metric(node, endpoint_changes)
    node.endpoints("web", [B])
    until(node, "the new endpoint answers", lambda: ask("10.96.0.10") == "b")
    check(metric(node, endpoint_changes) > before, "endpoint changes are counted")
    for name in ("kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}",
                 "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}",
                 "kubeproxy_proxy_healthz_total{code=\"200\"}"):
        check(metric(node, name) > 0, name)
    node.set_mode("iptables")
    until(node, "only iptables has rules", lambda: node.modes() == {"iptables"})
    for part, field in (("holdfast.dev", "proxyMode"), ("kubeproxy.config.k8s.io", "mode")):
        equal(configz(node)[part][field], "iptables", f"{field} of {part} of /configz after SIGHUP")
    check(metric(node, "kubeproxy_sync_proxy_rules_iptables_total"
                       "{ip_family=\"IPv4\",table=\"nat\"}") > 5, "rules are counted")
    node.set_mode("nftables")
    until(node, "only nftables has rules", lambda: node.modes() == {"nftables"})
    node.set_config(healthzBindAddress="", metricsBindAddress="")


def load_balancer(node, name, cluster_ip, address, **spec):
    node.service(name, cluster_ip, type="LoadBalancer", **spec)
    file = node.manifests / f"{name}.json"
    node.write(name, {**json.loads(file.read_text()), "status": {"loadBalancer": {"ingress": [{"ip": address}]}}})


def test_addresses_are_announced_to_the_segment_when_asked_for(node):
    """10.61.0.50: policy Cluster. .51: Local. .2 is the node's own, 10.61.9.9 in no range."""
    neighbour = Neighbour()
    try:
        load_balancer(node, "web", "10.96.0.10", "10.61.0.50")
        load_balancer(node, "here", "10.96.0.11", "10.61.0.51", externalTrafficPolicy="Local")
        load_balancer(node, "own", "10.96.0.12", "10.61.0.2")
        load_balancer(node, "far", "10.96.0.13", "10.61.9.9")
        for name in ("web", "own", "far"):
            node.endpoints(name, [A])
        until(node, "the service answers", lambda: ask("10.61.0.50") == "a")
        check(neighbour.ask("10.61.0.50") != "a", "nobody told the neighbour, and yet it knows")
        node.kill(("agent",))
        node.set_config(announceInterfaces=["seg0"], announceAddresses=["10.61.0.0/26"],
                        metricsBindAddress="127.0.0.1:10249")
        until(node, "the neighbour is answered", lambda: neighbour.ask("10.61.0.50") == "a")
        held = 'holdfast_announced_address_held{address="10.61.0.50",interface="seg0"}'
        equal(metric(node, held), 1, held)
        said = node.ctl("explain", "service", "web").stdout
        check("seg0: held by this node, priority 100" in said, said)
        text = node.get("http://127.0.0.1:10249/metrics")[1]
        for other in ("10.61.0.51", "10.61.0.2\"", "10.61.9.9"):
            check(other not in text, f"{other} is announced: {text}")
        node.endpoints("here", [B])
        until(node, "who has an endpoint answers", lambda: neighbour.ask("10.61.0.51") == "b")
        node.remove("web")
        until(node, "nobody answers for what is gone", lambda: "0.50" not in node.get(
            "http://127.0.0.1:10249/metrics")[1])
        check(neighbour.ask("10.61.0.50") != "a", "the service is gone")
        equal(neighbour.ask("10.61.0.51"), "b", "the other one")
        said = node.ctl("describe", "service", "here").stdout
        check("AddressAnnounced" in said and "10.61.0.51 on seg0: this node answers" in said, said)
        node.endpoints("here", [])
        until(node, "the service is told", lambda: "AddressReleased" in node.ctl(
            "describe", "service", "here").stdout)
    finally:
        neighbour.close()
        for name in ("web", "here", "own", "far"):
            node.remove(name)
        node.set_config(announceInterfaces=[], announceAddresses=[], metricsBindAddress="")
        node.kill(("agent",))


def configz(node):
    status, text = node.get("http://127.0.0.1:10249/configz")
    equal(status, 200, "configz")
    return json.loads(text)


def metric(node, name):
    """The value of a series of /metrics."""
    status, text = node.get("http://127.0.0.1:10249/metrics")
    equal(status, 200, "metrics")
    lines = [line for line in text.splitlines() if line.startswith(name)]
    equal(len(lines), 1, name)
    return float(lines[0].split()[-1])


class Traffic:
    """A connection that stays, and new ones all the time: no step of a test may harm either."""

    def __init__(self, node):
        node.service("web", "10.96.0.10")
        node.endpoints("web", [A])
        until(node, "the service answers", lambda: ask("10.96.0.10") == "a")
        self.held = Held("10.96.0.10")
        self.asked = 0

    def goes_on(self):
        equal(self.held.ask(), "a", "the connection that stays")
        equal(ask("10.96.0.10", patience=3), "a", f"new connection {self.asked}")
        self.asked += 1
        return True

    def until(self, node, what, ready):
        """Waits as Node.wait() does, with traffic in between."""
        node.wait(what, lambda: self.goes_on() and ready(), 60)

    def until_only(self, node, mode):
        """Until the kernel has rules of `mode` alone and the record says so too: an agent that is killed between
        the two leaves a record that names both, and the next change to the other mode is not recorded again."""
        self.until(node, f"only {mode} has rules and is recorded",
                   lambda: node.modes() == {mode} == node.recorded_modes())


def test_the_mode_changes_under_a_connection(node):
    traffic = Traffic(node)
    for mode in ("iptables", "nftables"):
        node.set_mode(mode)
        traffic.until_only(node, mode)
    print(f"  {traffic.asked} new connections meanwhile, one kept", flush=True)


def test_ipvs_mode_comes_and_goes(node):
    """From another mode a connection is kept; the kernel ends those through IPVS when it is left."""
    if not has_ipvs():
        raise Skip("kernel lacks IPVS")
    traffic = Traffic(node)
    node.service("web", "10.96.0.10", type="NodePort",
                 ports=[{"port": 80, "protocol": "TCP", "nodePort": 30080}])
    node.set_mode("ipvs")
    traffic.until_only(node, "ipvs")
    equal(ask("10.60.0.2", 30080), "a", "the node port")
    node.endpoints("web", [B])
    until(node, "new connections follow the endpoints", lambda: ask("10.96.0.10") == "b")
    equal(traffic.held.ask(), "a", "the connection that stays")
    node.kill(("agent",))
    until(node, "the next agent goes on",
          lambda: "# proxy mode ipvs" in node.ctl("proxy", "dump", check=False).stdout)
    equal((ask("10.96.0.10"), node.modes()), ("b", {"ipvs"}), "answer and modes")
    for mode in ("iptables", "ipvs", "nftables"):
        node.set_mode(mode)
        until(node, f"only {mode} has rules and is recorded",
              lambda m=mode: node.modes() == {m} == node.recorded_modes())
        until(node, "it answers", lambda: ask("10.96.0.10") == "b")


def test_a_wrong_configuration_changes_nothing(node):
    traffic = Traffic(node)
    node.set_mode("netfilter")
    traffic.until(node, "the refusal is logged", lambda: "the configuration stays as it is" in node.log())
    check("proxyMode: \"netfilter\" is none of: nftables, iptables, ipvs" in node.log(), node.log())
    equal(node.modes(), {"nftables"}, "modes with rules")
    node.set_config(proxyMode="nftables")


def test_the_next_start_is_in_another_mode(node):
    traffic = Traffic(node)
    for mode in ("iptables", "nftables"):
        node.set_config(proxyMode=mode)
        node.kill(("agent",))
        traffic.goes_on()
        traffic.until_only(node, mode)


def test_killed_anywhere_in_a_change_of_mode_the_next_start_goes_on(node):
    traffic = Traffic(node)
    traffic.until_only(node, "nftables")
    pauses = node.top / "root/pauses"
    pauses.mkdir()
    points = ["proxy.mode.recorded", "proxy.mode.applied", "proxy.mode.removed"]
    points += [f"iptables.restore.{when}:{n}" for when in ("before", "after") for n in (1, 2)]
    not_passed = []
    for point in points:
        for mode in ("iptables", "nftables"):
            arrived = kill_at(node, pauses, point, mode)
            traffic.goes_on()
            traffic.until_only(node, mode)
            print(f"  {point} on the way to {mode}: {'killed there' if arrived else 'not passed'}",
                  flush=True)
            # Chains are written where there is a Service, in IPv4, and removed in both families.
            once = mode == "iptables" and point.endswith(":2")
            if not arrived and not once:
                not_passed.append((point, mode))
    node.environment.pop("HOLDFAST_PAUSE_AT")
    equal(not_passed, [], "points that nobody was killed at")


def kill_at(node, pauses, point, mode):
    """Changes to `mode` and kills the agent at its first arrival at `point`; False when it settles without
    passing there. The change is by a start of the agent, except at the one point that only a running one passes."""
    node.kill(("agent",))
    node.environment.update(HOLDFAST_PAUSE_AT=point, HOLDFAST_PAUSE_DIR=str(pauses))
    running = point == "proxy.mode.applied"
    if not running:
        node.set_config(proxyMode=mode)
    node.start_agent()
    node.environment.update(HOLDFAST_PAUSE_AT="none")
    if running:
        node.wait("the agent answers", lambda: node.ctl("version").returncode == 0)
        node.set_mode(mode)
    stopped = lambda: any(pauses.iterdir())  # noqa: E731
    settled = lambda: node.recorded_modes() == {mode}  # noqa: E731
    node.wait(point, lambda: stopped() or settled(), 30)
    arrived = stopped()
    node.kill(("agent",))
    for file in pauses.iterdir():
        file.unlink()
    return arrived


# --- running them ----------------------------------------------------------------------------------


def main():
    bin_dir = pathlib.Path(sys.argv[1])
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    tests = [(name, test) for name, test in globals().items()
             if name.startswith("test_") and wanted in name]
    prepare_network()
    Servers(ENDPOINTS).start()
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
    node = Node(bin_dir, top / "node", "services")
    return run_on(node, top, tests)


if __name__ == "__main__":
    sys.exit(main())
