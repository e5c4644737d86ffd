# SPDX-License-Identifier: Apache-2.0
"""The agent goes away and comes back; pods do not notice."""
import json
import os
import resource
import signal
import subprocess
import time

from node import status
from suite import check, equal


def test_the_agent_killed_and_restarted_touches_nothing(node):
    node.pod("steady", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done")
    node.phase("steady", "Running")
    before = node.get("steady")
    identity = node.process_identity(before)
    check(identity, "no process found")
    for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        node.restart_agent(how)
        pod = node.phase("steady", "Running")
        equal(pod["status"], before["status"], "status after the restart")
        equal(node.process_identity(pod), identity, "process")
    numbers = [int(n) for n in node.log("steady").split()]
    equal(numbers, list(range(len(numbers))), "log lines")


def test_a_container_that_ends_while_the_agent_is_away_is_not_lost(node):
    node.pod("away", "sleep 1.5; exit 42", restartPolicy="Never")
    node.phase("away", "Running")
    os.kill(node.agent.pid, signal.SIGKILL)
    node.agent.wait()
    time.sleep(2)  # longer than the container runs; nobody is there to be asked
    node.start_agent()
    pod = node.phase("away", "Failed")
    equal(status(pod)["state"]["terminated"]["exitCode"], 42, "exit code")
    node.remove("away")


def test_a_former_release_finds_the_pods_as_files_and_this_one_takes_them_back(node):
    node.pod("between", "echo began; while :; do sleep 0.1; done")
    before = node.phase("between", "Running")
    uid, identity = before["metadata"]["uid"], node.process_identity(before)
    words = [node.bin / "holdfastd", "--config", node.config, "--prepare-downgrade"]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    equal((refused.returncode, "another holdfastd uses" in refused.stderr), (1, True), "while an agent runs")
    os.kill(node.agent.pid, signal.SIGTERM)
    node.agent.wait()
    subprocess.run(words, timeout=20, check=True)
    files = [node.top / "root/pods" / uid / "pod.pb", node.top / "root/pods" / uid / "record.json",
             node.top / "root/network/pods" / uid]
    journals = [node.top / "root/pods.journal", node.top / "root/network/pods.journal"]
    equal([[p.exists() for p in files], [p.exists() for p in journals]], [[True] * 3, [False] * 2], "what is left to it")
    check(uid.encode() in files[0].read_bytes(), "the pod")
    equal(json.loads(files[1].read_text())["podIPs"], [ip["ip"] for ip in before["status"]["podIPs"]], "its record")
    node.start_agent()
    pod = node.phase("between", "Running")
    equal(pod["status"], before["status"], "status")
    equal(node.process_identity(pod), identity, "process")
    equal([[p.exists() for p in files], [p.exists() for p in journals]], [[False] * 3, [True] * 2], "taken back")
    node.remove("between")


def test_an_ending_goes_on_after_a_restart(node):
    node.pod("ending", "trap '' TERM; echo up; while :; do sleep 1; done", terminationGracePeriodSeconds=4)
    node.wait("it is up", lambda: "up" in node.log("ending"))
    node.remove("ending")
    node.until("deletion began", "ending", lambda p: "deletionTimestamp" in p["metadata"])
    node.restart_agent()
    node.until_gone("ending", 15)


def test_a_second_agent_is_refused(node):
    result = subprocess.run([node.bin / "holdfastd", "--config", node.config], capture_output=True,
                            text=True, timeout=20, check=False)
    equal(result.returncode, 1, "exit code")
    check(f"another holdfastd uses {node.top / 'root'}" in result.stderr, result.stderr)


def test_a_crash_of_the_agent_leaves_no_core(node):
    core = resource.prlimit(node.agent.pid, resource.RLIMIT_CORE)
    equal(core[0], 0, "the agent's soft core limit")
    resource.prlimit(node.agent.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.kill(node.agent.pid, signal.SIGABRT)
    _, ended = os.waitpid(node.agent.pid, 0)  # Popen would not tell of the core
    node.agent.returncode = -signal.SIGABRT
    node.start_agent()
    equal(os.WTERMSIG(ended), signal.SIGABRT, "end of the agent")
    check(not os.WCOREDUMP(ended), "the kernel wrote a core of the agent")
