#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods from manifests under the real agent and keeper: pods_test.py BIN_DIR MAKE_IMAGE [FILTER].

Run as root in a network and mount namespace of its own (CMakeLists.txt does that). All pods live
on one machine; each test uses names of its own, so the tests share its start and its end.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "support"))
from machine import Machine  # noqa: E402

IMAGE = "test/busybox:latest"
WAIT_FOR_TERM = "trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 1000 & wait $!; done"


class Node(Machine):
    """A Machine with verbs for single pods."""

    def pod(self, name, script=None, containers=None, **spec):
        if containers is None:
            containers = [self.container("main", script)]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"terminationGracePeriodSeconds": 5, "dnsPolicy": "Default",
                         "containers": containers, **spec}}
        self.write(name, json.dumps(body))

    @staticmethod
    def container(name, script, **more):
        return {"name": name, "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", script], **more}

    def write(self, name, text):
        new = self.manifests / f".{name}.new"
        new.write_text(text)
        new.rename(self.manifests / f"{name}.json")

    def remove(self, name):
        (self.manifests / f"{name}.json").unlink()

    def get(self, name):
        return self.pods().get(name)

    def until(self, what, name, ready, seconds=30):
        """Waits for `ready(pod)` and returns that pod."""
        found = {}

        def look():
            found["pod"] = self.get(name)
            return found["pod"] is not None and ready(found["pod"])
        try:
            self.wait(f"{name}: {what}", look, seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{json.dumps(found.get('pod'), indent=1)}") from error
        return found["pod"]

    def until_gone(self, name, seconds=30):
        self.wait(f"{name} is gone", lambda: self.get(name) is None, seconds)

    def phase(self, name, phase, seconds=30):
        return self.until(phase, name, lambda p: p["status"]["phase"] == phase, seconds)

    def log(self, name, *flags):
        return self.ctl("logs", f"{name}-{self.node}", *flags).stdout

    def restart_agent(self, how=signal.SIGKILL):
        os.kill(self.agent.pid, how)
        self.agent.wait()
        self.start_agent()


def status(pod, index=0, kind="containerStatuses"):
    return pod["status"][kind][index]


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: {got!r}, wanted {wanted!r}")


# --- tests -----------------------------------------------------------------------------------------


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
    time.sleep(2)
    node.start_agent()
    pod = node.phase("away", "Failed")
    equal(status(pod)["state"]["terminated"]["exitCode"], 42, "exit code")
    node.remove("away")


def test_an_ending_goes_on_after_a_restart(node):
    node.pod("ending", "trap '' TERM; echo up; while :; do sleep 1; done", terminationGracePeriodSeconds=4)
    node.wait("it is up", lambda: "up" in node.log("ending"))
    node.remove("ending")
    node.until("deletion began", "ending", lambda p: "deletionTimestamp" in p["metadata"])
    node.restart_agent()
    node.until_gone("ending", 15)


def test_a_changed_manifest_replaces_the_pod(node):
    node.pod("changing", "echo first; " + WAIT_FOR_TERM)
    first = node.phase("changing", "Running")
    node.pod("changing", "echo second; " + WAIT_FOR_TERM)
    second = node.until("replaced", "changing", lambda p: p["metadata"]["uid"] != first["metadata"]["uid"]
                        and p["status"]["phase"] == "Running")
    node.wait("its log", lambda: node.log("changing").startswith("second"))
    node.write("changing", "{ broken")
    time.sleep(0.6)  # longer than a file must be quiet; nothing may happen, so nothing can be polled for
    equal(node.get("changing")["metadata"]["uid"], second["metadata"]["uid"], "the last good pod runs on")
    node.remove("changing")


def test_volumes(node):
    host = node.top / "host"
    host.mkdir()
    (host / "in").write_text("from the node\n")
    node.pod("volumes", containers=[node.container(
        "main", "cat /host/in; echo out > /host/out; stat -c %a:%g /disk; df -k /mem | tail -1; "
        "touch /ro/x 2>/dev/null || echo read-only; ls /sub; sleep 1000",
        volumeMounts=[{"name": "host", "mountPath": "/host"}, {"name": "disk", "mountPath": "/disk"},
                      {"name": "mem", "mountPath": "/mem"}, {"name": "host", "mountPath": "/ro", "readOnly": True},
                      {"name": "disk", "mountPath": "/sub", "subPath": "made/here"}])],
        volumes=[{"name": "host", "hostPath": {"path": str(host), "type": "Directory"}},
                 {"name": "disk", "emptyDir": {}},
                 {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}}],
        securityContext={"fsGroup": 4321})
    pod = node.phase("volumes", "Running")
    node.wait("its log", lambda: "read-only" in node.log("volumes"))
    log = node.log("volumes")
    check("from the node\n" in log and "2777:4321" in log and " 2048 " in log, log)
    equal((host / "out").read_text(), "out\n", "what the pod wrote")
    node.remove("volumes")
    node.until_gone("volumes")
    check((host / "in").exists(), "a hostPath volume is not ours to remove")
    check(pod["metadata"]["uid"] not in pathlib.Path("/proc/self/mountinfo").read_text(), "tmpfs is unmounted")
    node.pod("bad-path", containers=[node.container(
        "main", "exit 0", volumeMounts=[{"name": "host", "mountPath": "/host"}])],
        volumes=[{"name": "host", "hostPath": {"path": str(host / "in"), "type": "Directory"}}])
    node.wait("FailedMount", lambda: "is not a directory" in node.ctl("get", "events").stdout)
    equal(status(node.get("bad-path"))["state"]["waiting"]["reason"], "ContainerCreating", "state")
    node.remove("bad-path")


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


def test_security_and_environment(node):
    node.pod("who", containers=[node.container(
        "main", "id -u; id -g; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; "
        "echo $NODE $MEMORY $JOINED; touch /x 2>/dev/null || echo sealed; exec sleep 1000",
        env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
             {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
             {"name": "JOINED", "value": "$(NODE)-$$(NODE)"}],
        resources={"limits": {"memory": "32Mi", "cpu": "100m"}},
        securityContext={"runAsUser": 1000, "runAsGroup": 2000, "readOnlyRootFilesystem": True,
                         "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})])
    pod = node.phase("who", "Running")
    node.wait("its log", lambda: "sealed" in node.log("who"))
    log = node.log("who").split("\n")
    equal(log[0:2], ["1000", "2000"], "user")
    check("0000000000000000" in log[2] and log[3].endswith("1"), str(log))
    equal(log[4], f"{node.node} 32 {node.node}-$(NODE)", "environment")
    equal(pod["status"]["qosClass"], "Guaranteed", "QoS")
    memory = [p for t in node.cgroup_trees() for n in ("memory.max", "memory.limit_in_bytes")
              for p in t.glob(f"**/pod{pod['metadata']['uid']}/{n}")]
    equal(memory[0].read_text().strip(), str(32 << 20), "limit of the pod's cgroup")
    node.remove("who")


def test_a_pod_with_users_of_its_own(node):
    mount = [{"name": "data", "mountPath": "/data"}, {"name": "fast", "mountPath": "/fast"}]
    node.pod("own-users", containers=[
        node.container("main", "id -u; echo by name > /dev/stdout; cat /proc/self/uid_map; touch /data/made "
                       "/fast/made /made; stat -c '%n %u' /data/made /fast/made /made /bin/busybox /etc/hosts; "
                       + WAIT_FOR_TERM, volumeMounts=mount),
        node.container("user", "id -u; touch /data/by-user; " + WAIT_FOR_TERM, volumeMounts=mount,
                       securityContext={"runAsUser": 1000, "runAsGroup": 1000})],
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory"}}],
        hostUsers=False)
    pod = node.until("Running", "own-users", lambda p: p["status"]["phase"] == "Running")
    node.wait("its log", lambda: node.log("own-users", "-c", "main").endswith("up\n"))
    lines = node.log("own-users", "-c", "main").splitlines()
    equal(lines[:2], ["0", "by name"], "root, and a stream opened by name")
    inside, first, count = map(int, lines[2].split())
    equal((inside, count, first >= 65536), (0, 65536, True), "map")
    equal(lines[3:8], ["/data/made 0", "/fast/made 0", "/made 0", "/bin/busybox 0", "/etc/hosts 0"], "owners")
    uid = pod["metadata"]["uid"]
    folder = node.top / "root/pods" / uid
    given = json.loads((folder / "userns").read_text())
    wanted = [{"hostId": first, "containerId": 0, "length": 65536}]
    equal(given, {"uidMappings": wanted, "gidMappings": wanted}, "record")
    node.wait("the other's file", lambda: (folder / "volumes/kubernetes.io~empty-dir/data/by-user").exists())
    equal((folder / "volumes/kubernetes.io~empty-dir/data/by-user").stat().st_uid, 1000, "owner on disk")
    pid, _ = min(node.process_identity(pod))
    check(first <= os.stat(f"/proc/{pid}").st_uid < first + 65536, "nobody on the host")
    name = f"own-users-{node.node}"
    equal(node.ctl("exec", name, "-c", "main", "--", "/bin/sh", "-c",
                   "id -u > /dev/stdout; readlink /proc/self/ns/user").stdout,
          f"0\n{os.readlink(f'/proc/{pid}/ns/user')}\n", "exec")
    node.restart_agent()
    node.pod("own-users-2", "cat /proc/self/uid_map; " + WAIT_FOR_TERM, hostUsers=False)
    node.wait("the second's log", lambda: node.log("own-users-2").endswith("up\n"))
    second = int(node.log("own-users-2").split()[1])
    check(abs(second - first) >= 65536, f"the same ids twice: {first} and {second}")
    ip = node.get("own-users-2")["status"]["podIP"]
    equal(subprocess.run(["busybox", "ping", "-c1", "-W5", ip], capture_output=True, check=False).returncode,
          0, "its address answers")
    # What cannot have its owners mapped is refused by name, and nothing runs with the host's.
    node.pod("own-users-3", containers=[node.container("main", "exit 0", volumeMounts=[
        {"name": "proc", "mountPath": "/host"}])], hostUsers=False,
        volumes=[{"name": "proc", "hostPath": {"path": "/proc"}}])
    pod = node.until("refused", "own-users-3",
                     lambda p: status(p)["state"].get("waiting", {}).get("reason") == "CreateContainerError")
    check("the file system of /proc" in status(pod)["state"]["waiting"]["message"], str(status(pod)))
    for name in ("own-users", "own-users-2", "own-users-3"):
        node.remove(name)
        node.until_gone(name)


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


def test_images_come_from_directories_and_standard_output(node):
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "image.tar"
        layout = pathlib.Path(folder) / "layout"
        with open(archive, "wb") as out:
            subprocess.run([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "image", "export",
                            IMAGE], stdout=out, check=True)
        layout.mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", layout], check=True)
        for source, name in ((layout, "test/from-layout:1"), (archive, "test/from-archive:latest")):
            said = node.ctl("image", "import", source, "--name", name.removesuffix(":latest")).stdout
            check(said.startswith(f"image/docker.io/{name} imported ("), said)
    images = json.loads(node.ctl("image", "ls", "-o", "json").stdout)["items"]
    tags = [sorted(image["repoTags"]) for image in images]
    equal(tags, [sorted(f"docker.io/{n}" for n in (IMAGE, "test/from-archive:latest", "test/from-layout:1"))],
          "one image with three names")
    node.pod("layout", containers=[{**node.container("main", "echo from a layout"), "image": "test/from-layout:1"}],
             restartPolicy="Never")
    node.phase("layout", "Succeeded")
    equal(node.log("layout"), "from a layout\n", "log")
    node.remove("layout")
    node.until_gone("layout")
    for name in ("test/from-layout:1", "test/from-archive"):
        equal(node.ctl("image", "rm", name).stdout, f'image "{name}" removed\n', "removal")


def test_a_person_at_the_command_line(node):
    container = {"image": IMAGE, "imagePullPolicy": "Never"}
    script = "for i in 1 2 3; do echo {0}$i; done; exec sleep 1000"
    manifest = node.top / "typed.json"
    manifest.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "typed", "labels": {"by": "hand"}},
        "spec": {"dnsPolicy": "Default", "terminationGracePeriodSeconds": 0, "containers": [
            {"name": n, "command": ["/bin/sh", "-c", script.format(n)], **container} for n in ("a", "b")]}}))
    watch = subprocess.Popen([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "get", "pods", "-w",
                              "-l", "by=hand", "--no-headers"], stdout=subprocess.PIPE, text=True)
    equal(node.ctl("apply", "-f", manifest).stdout, "pod/typed created\n", "apply")
    equal(node.ctl("apply", "-f", manifest).stdout, "pod/typed unchanged\n", "apply again")
    node.ctl("wait", "--for=condition=Ready", "pod/typed", "--timeout=30s")
    node.wait("both logs", lambda: node.ctl("logs", "typed", "--all-containers").stdout == "a1\na2\na3\nb1\nb2\nb3\n")
    equal(node.ctl("logs", "typed", "-c", "b").stdout, "b1\nb2\nb3\n", "one container")
    said = node.ctl("logs", "typed")
    equal((said.stdout, said.stderr), ("a1\na2\na3\n", 'Defaulted container "a" out of: a, b\n'), "the first one")
    equal(sorted(node.ctl("logs", "typed", "--all-containers", "--prefix").stdout.split("\n"))[1],
          f"[pod/typed-{node.node}/a] a1", "prefix")
    follow = subprocess.Popen([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "logs", "-f", "typed",
                               "--all-containers"], stdout=subprocess.PIPE, text=True)
    followed = [follow.stdout.readline() for _ in range(6)]
    equal(sorted(followed), [f"{n}{i}\n" for n in "ab" for i in (1, 2, 3)], "followed")
    equal(node.ctl("delete", "-f", manifest).stdout, 'pod "typed" deleted from default namespace\n', "delete")
    equal(follow.wait(20), 0, "following ends with the pod")
    again = node.ctl("delete", "-f", manifest, check=False)
    equal((again.returncode, again.stderr), (1, 'Error from server (NotFound): pods "typed" not found\n'), "again")
    node.until_gone("typed")
    watch.terminate()
    rows = [line.split() for line in watch.communicate()[0].splitlines()]
    states = [f"{row[1]} {row[2]}" for row in rows]
    check("2/2 Running" in states and "2/2 Terminating" in states, f"watched: {states}")


def test_check_finds_and_removes_what_is_left_over(node):
    stray = node.top / "root/pods/no-such-pod"
    stray.mkdir()
    groups = [tree / "kubepods/podno-such-pod" for tree in node.cgroup_trees()]
    for group in groups:
        group.mkdir()
    found = node.ctl("check", check=False)
    equal(found.returncode, 1, "exit code while something is left")
    check(str(stray) in found.stdout and "podno-such-pod" in found.stdout, found.stdout)
    check(stray.exists() and all(group.exists() for group in groups), "looking changes nothing")
    repaired = node.ctl("check", "--repair")
    check("removed." in repaired.stdout + repaired.stderr, f"{repaired.stdout}{repaired.stderr}")
    check(not stray.exists() and not any(group.exists() for group in groups), "gone")
    equal(node.ctl("check").returncode, 0, "nothing is left")


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
        # Not wget: Debian's static busybox crashes in its resolver.
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


def test_out_of_memory_is_told(node):
    node.pod("greedy", containers=[node.container(
        "main", "head -c 200m /dev/zero | tail", resources={"limits": {"memory": "24Mi"}})],
        restartPolicy="Never")
    pod = node.phase("greedy", "Failed", 60)
    ended = status(pod)["state"]["terminated"]
    equal(ended["reason"], "OOMKilled", f"reason of {ended}")
    node.remove("greedy")


def test_a_deadline_ends_the_pod(node):
    node.pod("deadline", WAIT_FOR_TERM, activeDeadlineSeconds=2)
    pod = node.phase("deadline", "Failed")
    equal(pod["status"]["reason"], "DeadlineExceeded", "reason")
    node.remove("deadline")


def test_all_pods_together_are_limited_to_what_is_allocatable(node):
    allocatable = json.loads(node.ctl("get", "node", "-o", "json").stdout)["items"][0]["status"]["allocatable"]
    limits = [p for tree in node.cgroup_trees()
              for p in (tree / "kubepods/memory.limit_in_bytes", tree / "kubepods/memory.max") if p.exists()]
    equal([int(p.read_text()) // 1024 for p in limits], [int(allocatable["memory"].removesuffix("Ki"))],
          "memory of kubepods")
    pids = [p.read_text() for tree in node.cgroup_trees() for p in [tree / "kubepods/pids.max"] if p.exists()]
    check(len(pids) == 1 and int(pids[0]) > 0, f"pids of kubepods: {pids}")


def test_a_second_agent_is_refused(node):
    result = subprocess.run([node.bin / "holdfastd", "--config", node.config], capture_output=True,
                            text=True, timeout=20, check=False)
    equal(result.returncode, 1, "exit code")
    check(f"another holdfastd uses {node.top / 'root'}" in result.stderr, result.stderr)


def test_nothing_is_left(node):
    for file in node.manifests.glob("*.json"):
        file.unlink()
    node.wait("all pods gone", lambda: not node.pods())
    result = node.ctl("check", check=False)
    equal((result.returncode, result.stdout.strip()), (0, result.stdout.strip()), f"check: {result.stdout}")
    equal(list((node.top / "root/pods").iterdir()), [], "pod directories")
    equal(list((node.top / "log/pods").iterdir()), [], "log directories")
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    check(" hk" not in links and "\nhk" not in links, links)
    for tree in node.cgroup_trees():
        left = [str(p) for p in tree.glob("**/pod*")]
        check(not left, f"cgroups: {left}")


# --- running them ----------------------------------------------------------------------------------


def main():
    bin_dir, make_image = map(pathlib.Path, sys.argv[1:3])
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    tests = [(name, test) for name, test in globals().items()
             if name.startswith("test_") and (wanted in name or name == "test_nothing_is_left")]
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    archive = top / "busybox.tar"
    subprocess.run([make_image, "busybox", archive], check=True)
    node = Node(bin_dir, top / "node", "e2e")
    failed = []
    try:
        node.start_agent()
        node.wait("the agent answers", lambda: node.ctl("version").returncode == 0)
        node.ctl("image", "import", archive, "--name", IMAGE, "--cmd", "/bin/sh")
        for name, test in tests:
            print(f"[ RUN      ] {name}", flush=True)
            began = time.monotonic()
            try:
                test(node)
                print(f"[       OK ] {name} ({(time.monotonic() - began) * 1000:.0f} ms)", flush=True)
            except Exception as error:  # a test that breaks fails, the others go on
                failed.append(name)
                print(f"{type(error).__name__}: {error}")
                print(f"[  FAILED  ] {name} ({(time.monotonic() - began) * 1000:.0f} ms)", flush=True)
    finally:
        if failed:
            print((node.top / "agent.log").read_text()[-8000:])
        node.stop()
        shutil.rmtree(top, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
