# SPDX-License-Identifier: Apache-2.0
"""postStart and preStop with real containers, and an agent that is killed in each."""
import time

from node import status
from probes import SERVE, events, tells
from suite import check, equal

# Says what happens to it, in order.
TELLS = "trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 1000 & wait $!; done"


def say(text):
    """A hook's command that writes into the container's log."""
    return {"exec": {"command": ["sh", "-c", f"{{ {text}; }} > /proc/1/fd/1"]}}


def of(node, name, lifecycle, script=TELLS, **more):
    node.pod(name, containers=[node.container("main", script, lifecycle=lifecycle)], **more)


def ends_in_order(node, name, *lines):
    """The pod's directory goes with it: the log is read while it ends."""
    seen = []

    def gone():
        pod = node.get(name)
        if pod is not None:
            log = node.ctl("logs", f"{name}-{node.node}", check=False).stdout.split("\n")
            seen[:] = [line for line in log if line in lines] or seen
        return pod is None
    node.wait(f"{name} is gone", gone, 40)
    return seen


def test_hooks_run_before_and_after(node):
    of(node, "hooked", {"postStart": say("echo began"), "preStop": say("echo ends; sleep 1; echo ended")},
       TELLS.replace("exit 0", "sleep 1; exit 0"))
    node.phase("hooked", "Running")
    node.wait("its log", lambda: set(node.log("hooked").split()) == {"up", "began"})
    node.remove("hooked")
    equal(ends_in_order(node, "hooked", "ends", "ended", "got TERM"), ["ends", "ended", "got TERM"], "its last words")


def test_the_container_is_not_there_before_its_post_start_ends(node):
    shared = node.top / "hook"
    shared.mkdir()
    hook = "echo run >> /hook/runs; until test -e /hook/go; do sleep 0.1; done"
    node.pod("late", volumes=[{"name": "hook", "hostPath": {"path": str(shared)}}], containers=[
        node.container("main", TELLS, volumeMounts=[{"name": "hook", "mountPath": "/hook"}],
                       lifecycle={"postStart": {"exec": {"command": ["sh", "-c", hook]}}}),
        node.container("after", TELLS)])
    node.wait("the hook runs", (shared / "runs").exists)
    pod = node.get("late")
    equal((pod["status"]["phase"], status(pod)["state"]["waiting"]["reason"]), ("Pending", "ContainerCreating"), "meanwhile")
    check("running" not in status(pod, 1)["state"], "the next container waits for it")
    # An agent that is killed in the middle: the hook is run again.
    node.restart_agent()
    node.wait("it is run again", lambda: (shared / "runs").read_text().count("run") == 2)
    equal(status(node.get("late"))["state"].keys(), {"waiting"}, "it goes on waiting")
    (shared / "go").touch()
    pod = node.phase("late", "Running")
    equal(status(pod)["restartCount"], 0, "restarts")
    equal((shared / "runs").read_text().count("run"), 2, "runs of the hook")
    node.remove("late")


def test_a_post_start_that_fails_kills_the_container(node):
    of(node, "unlucky", {"postStart": {"exec": {"command": ["sh", "-c", "echo secret; exit 7"]}}})
    pod = node.until("PostStartHookError", "unlucky",
                     lambda p: status(p)["state"].get("waiting", {}).get("reason") == "PostStartHookError")
    check("exited with 7: secret" in status(pod)["state"]["waiting"]["message"], status(pod))
    tells(node, "unlucky", "FailedPostStartHook", "PostStartHook failed")
    tells(node, "unlucky", "Killing", "FailedPostStartHook")
    check(not any("secret" in message for _, message in events(node, "unlucky")), "an event tells the hook's output")
    node.until("a restart", "unlucky", lambda p: status(p)["restartCount"] >= 1)
    node.remove("unlucky")
    node.until_gone("unlucky")


def test_hooks_that_ask_over_http(node):
    server = SERVE.replace("httpd", "httpd -vv -f").replace("; echo up; while :; do sleep 1000; done", "")
    listens = {"startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}, "restartPolicy": "Always"}
    node.pod("asked", initContainers=[node.container("server", server, **listens)], containers=[
        node.container("asks", TELLS, lifecycle={"postStart": {"httpGet": {"port": 8080, "path": "/nothing-there"}},
                                                 "preStop": {"httpGet": {"port": 8080, "scheme": "HTTPS"}}})])
    node.phase("asked", "Running")
    tells(node, "asked", "Started", "Container started")
    node.remove("asked")
    node.until_gone("asked")
    check(not any("Hook" in reason for reason, _ in events(node, "asked")), "whatever is answered is success")


def test_the_time_of_a_pre_stop_counts_and_sleep_sleeps(node):
    of(node, "sleeps", {"preStop": {"sleep": {"seconds": 3}}}, terminationGracePeriodSeconds=30)
    node.wait("it is up", lambda: "up" in node.log("sleeps"))
    begin = time.monotonic()
    node.remove("sleeps")
    node.until_gone("sleeps")
    check(3 <= time.monotonic() - begin < 12, f"it took {time.monotonic() - begin} s")
    of(node, "overruns", {"preStop": {"exec": {"command": ["sleep", "1000"]}}}, "trap '' TERM; echo up; while :; do sleep 1; done",
       terminationGracePeriodSeconds=3)
    node.wait("it is up", lambda: "up" in node.log("overruns"))
    begin = time.monotonic()
    node.remove("overruns")
    node.until_gone("overruns")
    check(5 <= time.monotonic() - begin < 14, f"3 s and the 2 s that are always left: {time.monotonic() - begin} s")


def test_an_agent_killed_in_a_pre_stop_does_not_begin_its_time_anew(node):
    of(node, "killed-in-it", {"preStop": {"sleep": {"seconds": 8}}}, terminationGracePeriodSeconds=60)
    node.wait("it is up", lambda: "up" in node.log("killed-in-it"))
    begin = time.monotonic()
    node.remove("killed-in-it")
    node.until("it ends", "killed-in-it", lambda p: "deletionTimestamp" in p["metadata"])
    time.sleep(4)  # half of its time passes; the other half is left for the next agent
    node.restart_agent()
    node.until_gone("killed-in-it", 40)
    took = time.monotonic() - begin
    check(8 <= took < 11.9, f"8 s, not 12: {took}")
    equal(sum(r == "Killing" for r, _ in events(node, "killed-in-it")), 0, "told again by the next agent")


def test_a_pre_stop_that_fails_is_told(node):
    of(node, "fails-last", {"preStop": {"exec": {"command": ["false"]}}}, TELLS.replace("exit 0", "sleep 1; exit 0"))
    node.wait("it is up", lambda: "up" in node.log("fails-last"))
    node.remove("fails-last")
    tells(node, "fails-last", "FailedPreStopHook", "PreStopHook failed")
    node.until_gone("fails-last")
