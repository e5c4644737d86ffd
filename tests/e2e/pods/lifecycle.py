# SPDX-License-Identifier: Apache-2.0
"""What becomes of a pod: it runs, ends, restarts, is replaced, and what its status says."""
import json
import shutil
import subprocess
import time

from node import IMAGE, WAIT_FOR_TERM, status
from suite import check, equal


def test_a_pod_runs_with_log_status_and_address(node):
    node.pod("plain", "echo hello from $(hostname); " + WAIT_FOR_TERM)
    pod = node.phase("plain", "Running")
    equal(status(pod)["state"].keys(), {"running"}, "state")
    check(status(pod)["containerID"].startswith("holdfast://"), "container id")
    equal({c["type"]: c["status"] for c in pod["status"]["conditions"]},
          {"PodReadyToStartContainers": "True", "Initialized": "True", "Ready": "True",
           "ContainersReady": "True", "PodScheduled": "True"}, "conditions")
    node.wait("log", lambda: f"hello from plain-{node.node}\nup\n" == node.log("plain"))
    ip = pod["status"]["podIP"]
    ping = subprocess.run(["ping", "-c1", "-W5", ip], capture_output=True, check=False) \
        if shutil.which("ping") else subprocess.run(["busybox", "ping", "-c1", "-W5", ip],
                                                     capture_output=True, check=False)
    equal(ping.returncode, 0, f"ping {ip}")
    link = next((node.top / "log/containers").glob(f"plain-{node.node}_default_main-*.log"))
    check(link.resolve().read_text().endswith("stdout F up\n"), "log link")


def links_by_number():
    """The node's ends of our links: number -> what `ip` shows."""
    shown = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout
    return {link["ifindex"]: link for link in json.loads(shown) if link["ifname"].startswith("hk")}


def links_ready():
    return {number for number, link in links_by_number().items()
            if link["ifname"].startswith("hkp") and "ifalias" not in link}


def test_a_pod_gets_a_sandbox_and_a_link_that_lay_ready(node):
    node.wait("the pool is full", lambda: len(links_ready()) == 4)
    before = links_ready()
    node.pod("ready", WAIT_FOR_TERM)
    pod = node.phase("ready", "Running")
    taken = [links_by_number()[number] for number in before - links_ready()]
    uid = pod["metadata"]["uid"]
    equal([link["ifalias"] for link in taken], [f"default/ready-{node.node} {uid}"], "the link that was taken")
    routes = subprocess.run(["ip", "route", "get", pod["status"]["podIP"]], capture_output=True, text=True, check=True).stdout
    check(f"dev {taken[0]['ifname']} " in routes, f"{routes}, not by {taken[0]['ifname']}")
    node.wait("the pool is full again", lambda: len(links_ready()) == 4)
    before = links_ready()
    node.pod("on-the-node", WAIT_FOR_TERM, hostNetwork=True)
    node.phase("on-the-node", "Running")
    equal(links_ready(), before, "links that lie ready, beside a pod with the node's network")
    for name in ("ready", "on-the-node"):
        node.remove(name)
        node.until_gone(name)
    check(taken[0]["ifindex"] not in links_ready(), "a link of a pod that is gone lies ready")


def test_exit_codes_reasons_and_termination_messages(node):
    cases = {"code-0": ("exit 0", "Succeeded", 0, "Completed", None),
             "code-7": ("echo why > /dev/termination-log; exit 7", "Failed", 7, "Error", "why\n"),
             "sigkill": ("kill -9 $$$$", "Failed", 137, "Error", None),
             "sigsegv": ("kill -SEGV $$$$", "Failed", 139, "Error", None)}
    for name, (script, *_) in cases.items():
        # In a child: the kernel spares PID 1 its own signals. "$$" in a manifest is one "$".
        if "kill" in script:
            script = f"sh -c '{script}'; exit $?"
        node.pod(name, script, restartPolicy="Never")
    for name, (_, phase, code, reason, message) in cases.items():
        pod = node.phase(name, phase)
        ended = status(pod)["state"]["terminated"]
        equal((ended["exitCode"], ended["reason"], ended.get("message")), (code, reason, message), name)
        node.remove(name)


def test_a_log_tail_is_the_message_when_the_pod_asks_for_it(node):
    node.pod("fallback", containers=[node.container(
        "main", "for i in $(seq 100); do echo line $i; done; exit 1",
        terminationMessagePolicy="FallbackToLogsOnError")], restartPolicy="Never")
    message = status(node.phase("fallback", "Failed"))["state"]["terminated"].get("message", "")
    check(message.startswith("line 21\n") and message.endswith("line 100\n"), repr(message))
    node.remove("fallback")


def test_a_crashing_container_backs_off(node):
    node.pod("crash", "echo attempt; exit 3")
    pod = node.until("CrashLoopBackOff", "crash",
                     lambda p: status(p)["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
    uid = pod["metadata"]["uid"]
    equal(status(pod)["restartCount"], 1, "the first restart is immediate")
    equal(status(pod)["state"]["waiting"]["message"],
          f"back-off 10s restarting failed container=main pod=crash-{node.node}_default({uid})", "message")
    equal(status(pod)["lastState"]["terminated"]["exitCode"], 3, "last exit code")
    equal(node.log("crash", "--previous"), "attempt\n", "previous log")
    pod = node.until("a second restart after ten seconds", "crash", lambda p: status(p)["restartCount"] == 2)
    node.remove("crash")


def test_init_containers_and_sidecars(node):
    mount = [{"name": "shared", "mountPath": "/shared"}]
    node.pod("ordered", containers=[node.container("main", "cat /shared/order; sleep 1", volumeMounts=mount)],
             initContainers=[node.container("one", "echo one >> /shared/order", volumeMounts=mount),
                             node.container("side", "echo side >> /shared/order; " + WAIT_FOR_TERM,
                                            volumeMounts=mount, restartPolicy="Always"),
                             node.container("two", "while ! grep -q side /shared/order; do sleep 0.1; done; "
                                            "echo two >> /shared/order", volumeMounts=mount)],
             volumes=[{"name": "shared", "emptyDir": {}}], restartPolicy="Never")
    pod = node.phase("ordered", "Succeeded")
    equal(node.log("ordered", "-c", "main"), "one\nside\ntwo\n", "order")
    side = status(pod, 1, "initContainerStatuses")
    equal(side["state"]["terminated"]["exitCode"], 0, "the sidecar was asked to stop")
    check("got TERM" in node.log("ordered", "-c", "side"), "sidecar's log")
    node.remove("ordered")
    node.pod("init-fails", containers=[node.container("main", "exit 0")],
             initContainers=[node.container("bad", "exit 9")], restartPolicy="Never")
    pod = node.phase("init-fails", "Failed")
    equal(status(pod)["state"]["waiting"]["reason"], "PodInitializing", "main never ran")
    node.remove("init-fails")


def test_termination_is_graceful_then_forced(node):
    node.pod("polite", WAIT_FOR_TERM)
    node.pod("stubborn", "trap '' TERM; echo up; while :; do sleep 1; done", terminationGracePeriodSeconds=3)
    for name in ("polite", "stubborn"):
        node.wait(f"{name} is up", lambda name=name: "up" in node.log(name))
    began = time.monotonic()
    node.remove("polite")
    node.remove("stubborn")
    node.until_gone("polite", 2.5)
    pod = node.get("stubborn")
    check(pod is not None and "deletionTimestamp" in pod["metadata"], "the other one is still ending")
    node.until_gone("stubborn")
    check(time.monotonic() - began >= 3, "not killed before its grace was over")


def test_an_ending_pod_is_forced(node):
    node.pod("forced", "trap '' TERM; echo up; while :; do sleep 1; done", terminationGracePeriodSeconds=60)
    node.wait("it is up", lambda: "up" in node.log("forced"))
    node.remove("forced")
    node.until("it ends", "forced", lambda p: "deletionTimestamp" in p["metadata"])
    node.ctl("delete", "pod", "forced", "--grace-period=0", "--force", "--timeout=20s")
    node.until_gone("forced", 10)


def test_a_uid_of_its_own(node):
    node.pod("own", WAIT_FOR_TERM, metadata={"uid": "of-its-own"})
    first = node.phase("own", "Running")
    equal(first["metadata"]["uid"], "of-its-own", "the uid")
    node.pod("own", WAIT_FOR_TERM, metadata={"uid": "of-its-own", "labels": {"tier": "web"}})
    second = node.until("the label", "own", lambda p: p["metadata"].get("labels") == {"tier": "web"})
    equal(status(second)["containerID"], status(first)["containerID"], "the container runs on")
    node.restart_agent()
    node.until("the label is remembered", "own", lambda p: p["metadata"].get("labels") == {"tier": "web"})
    node.pod("own", "echo another; " + WAIT_FOR_TERM, metadata={"uid": "of-its-own"})
    node.wait("another command is another pod", lambda: "another" in node.log("own"))
    node.pod("thief", WAIT_FOR_TERM, metadata={"uid": "of-its-own"})
    node.wait("the node tells of the second one", lambda: "metadata.uid of-its-own is already that of pod" in node.ctl(
        "describe", "node").stdout)
    check("FailedValidation" in node.ctl("get", "events").stdout, "as an event too")
    check(node.get("thief") is None, "it does not run")
    node.remove("thief")
    node.remove("own")
    node.until_gone("own")


def test_a_changed_manifest_replaces_the_pod(node):
    node.pod("changing", "echo first; " + WAIT_FOR_TERM)
    first = node.phase("changing", "Running")
    node.pod("changing", "echo second; " + WAIT_FOR_TERM)
    second = node.until("replaced", "changing", lambda p: p["metadata"]["uid"] != first["metadata"]["uid"]
                        and p["status"]["phase"] == "Running")
    node.wait("its log", lambda: node.log("changing").startswith("second"))
    node.write("changing", "{ broken")
    node.wait("the pod hears of it", lambda: "FailedValidation" in node.ctl(
        "describe", "pod", f"changing-{node.node}").stdout)
    equal(node.get("changing")["metadata"]["uid"], second["metadata"]["uid"], "the last good pod runs on")
    node.remove("changing")


def test_waiting_reasons(node):
    node.pod("no-image", containers=[{"name": "main", "image": "test/absent:1"}])
    node.pod("never", containers=[{"name": "main", "image": "test/absent:1", "imagePullPolicy": "Never"}])
    node.pod("no-program", containers=[{"name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                                        "command": ["/no/such/program"]}], restartPolicy="Never")
    node.pod("as-root", containers=[node.container("main", "exit 0", securityContext={"runAsNonRoot": True})])
    wanted = {"no-image": "ImagePullBackOff", "never": "ErrImageNeverPull",
              "as-root": "CreateContainerConfigError"}
    for name, reason in wanted.items():
        node.until(reason, name, lambda p, reason=reason:
                   status(p)["state"].get("waiting", {}).get("reason") == reason)
    pod = node.phase("no-program", "Failed")
    ended = status(pod)["state"]["terminated"]
    equal((ended["reason"], ended["exitCode"]), ("StartError", 128), "a program that is not there")
    for name in ("no-image", "never", "no-program", "as-root"):
        node.remove(name)


def test_one_container_restarts_all(node):
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    once = "test -e /state/$(hostname)-done && { echo again; exec sleep 1000; }; touch /state/$(hostname)-done; "
    mount = [{"name": "state", "mountPath": "/state"}]
    node.pod("together", containers=[
        node.container("source", once + "while ! test -e /state/up; do sleep 0.1; done; exit 42",
                       restartPolicy="Never", restartPolicyRules=[rule], volumeMounts=mount),
        node.container("other", "touch /state/up; " + WAIT_FOR_TERM, volumeMounts=mount)],
        initContainers=[node.container("init", "echo x >> /state/inits", volumeMounts=mount)],
        volumes=[{"name": "state", "emptyDir": {}}], restartPolicy="Never")
    pod = node.until("all restarted", "together", lambda p: all(
        "running" in status(p, i)["state"] and status(p, i)["restartCount"] == 1 for i in (0, 1)))
    equal(status(pod, 1)["lastState"]["terminated"]["reason"], "RestartingAllContainers", "last state")
    inits = node.top / "root/pods" / pod["metadata"]["uid"] / "volumes/kubernetes.io~empty-dir/state/inits"
    equal(inits.read_text(), "x\nx\n", "the init container ran twice")
    check("got TERM" not in node.log("together", "-c", "other", "--previous"), "killed without a signal before")
    node.remove("together")


def test_a_deadline_ends_the_pod(node):
    node.pod("deadline", WAIT_FOR_TERM, activeDeadlineSeconds=2)
    pod = node.phase("deadline", "Failed")
    equal(pod["status"]["reason"], "DeadlineExceeded", "reason")
    node.remove("deadline")
