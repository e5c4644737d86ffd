#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Services under the real agent: services_test.py BIN_DIR [FILTER].

Run as root in a network and mount namespace of its own (CMakeLists.txt does that)."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from world import Held, Node, Sender, Servers, ask, prepare_network, run, seconds_until
from suite import check, run_tests  # found once world is there

ENDPOINTS = {"a": "10.50.0.1", "b": "10.50.0.2"}
A, B = ENDPOINTS.values()


def until(node, what, ready):
    node.wait(what, ready, 30)


# --- tests -----------------------------------------------------------------------------------------


def test_rules_that_others_flush_are_back_within_a_second(node):
    node.service("web", "10.96.0.10")
    node.endpoints("web", [A])
    until(node, "the service answers", lambda: ask("10.96.0.10") == "a")
    for damage in ("flush ruleset", f"delete table ip {node.table}-services",
                   f"flush chain ip {node.table}-services services",
                   f"flush map ip {node.table}-services endpoints"):
        run("nft", damage)
        took = seconds_until(lambda: ask("10.96.0.10", patience=0.02) == "a", 1.0)
        check(took is not None, f"nft {damage}: no packet came through for a second")
        print(f"  nft {damage}: packets flow again after {took * 1000:.0f} ms", flush=True)
    # The pods' own rules (masquerade, host ports) are another table of the agent.
    run("nft", "flush ruleset")
    took = seconds_until(lambda: subprocess.run(
        ["nft", "list", "chain", "ip", node.table, "postrouting"], capture_output=True,
        check=False).returncode == 0, 1.0)
    check(took is not None, "the pods' own rules are not back after a second")
    print(f"  the pods' own table: back after {took * 1000:.0f} ms", flush=True)


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
    failed = []
    try:
        node.start_agent()
        node.wait("the agent answers", lambda: node.ctl("version").returncode == 0)
        failed = run_tests(node, tests)
    finally:
        if failed:
            print(node.log()[-8000:])
        node.stop()
        shutil.rmtree(top, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
