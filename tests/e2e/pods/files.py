# SPDX-License-Identifier: Apache-2.0
"""The files that the agent generates for a pod: their bound, and who survives whom."""
import pathlib
import subprocess

from node import status
from suite import check, equal

FILES = "/etc/hosts /etc/resolv.conf /etc/hostname /dev/termination-log"
FLOOD = ("dd if=/dev/zero of=$f bs=1M count=300 oflag=append conv=notrunc 2>&1 | grep -o 'No space left' || "
         "echo $f has no bound; ")
SHARED = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
VOLUMES = [{"name": "shared", "emptyDir": {}}]


def shared(node, pod):
    return (node.top / "root/pods" / pod["metadata"]["uid"] / "volumes/kubernetes.io~empty-dir/shared")


def mounted_files(node, pod):
    return f"{node.run}/pods/{pod['metadata']['uid']} " in pathlib.Path("/proc/self/mountinfo").read_text()


def flood(node, name, **spec):
    node.pod(name, containers=[
        node.container("bad", f"for f in {FILES}; do {FLOOD} done; cat {FILES} | wc -c; "
                       "df -k /etc/hosts | tail -1; : > /shared/full; sleep 1000", **SHARED),
        node.container("good", "[ -e /shared/again ] && { echo second run; exec sleep 1000; }; "
                       "until [ -e /shared/full ]; do sleep 0.1; done; "
                       "printf 'last words' >> /dev/termination-log; : > /shared/again; exit 4", **SHARED)],
        volumes=VOLUMES, restartPolicy="OnFailure", **spec)
    pod = node.until("its good container runs again", name, lambda p: any(
        s["name"] == "good" and s["restartCount"] == 1 and "running" in s["state"]
        for s in p["status"].get("containerStatuses", [])))
    good = next(s for s in pod["status"]["containerStatuses"] if s["name"] == "good")
    equal(good["lastState"]["terminated"].get("message"), "last words", "the other container's message")
    lines = node.log(name, "-c", "bad").splitlines()
    equal(lines[:4], ["No space left"] * 4, "floods")
    check(int(lines[4]) <= 1 << 20, f"all files have {lines[4]} bytes")
    equal(lines[5].split()[1], "1024", "size of the file system")
    on_disk = sum(f.lstat().st_size for f in (node.top / "root/pods" / pod["metadata"]["uid"]).rglob("*"))
    check(on_disk < 4 << 20, f"{on_disk} bytes on the node's disk")
    check(mounted_files(node, pod), "a tmpfs of the pod's own")
    node.remove(name)
    node.until_gone(name)
    check(not mounted_files(node, pod), "it is unmounted")
    check(not (node.run / "pods" / pod["metadata"]["uid"]).exists(), "its directory is gone")


def test_generated_files_are_bounded(node):
    flood(node, "flood")


def test_generated_files_are_bounded_with_own_users(node):
    flood(node, "flood-users", hostUsers=False)


def test_a_flooded_termination_log_takes_a_message(node):
    node.pod("flood-message", "f=/dev/termination-log; " + FLOOD + "echo last words > $f; exit 3", restartPolicy="Never")
    pod = node.phase("flood-message", "Failed")
    equal(status(pod)["state"]["terminated"]["message"], "last words\n", "message")
    node.remove("flood-message")


def test_generated_files_can_be_edited_by_all_containers(node):
    node.pod("edit", containers=[
        node.container("one", "echo 192.0.2.7 added >> /etc/hosts; : > /shared/done; sleep 1000", **SHARED),
        node.container("two", "until [ -e /shared/done ]; do sleep 0.1; done; tail -1 /etc/hosts; sleep 1000", **SHARED)],
        volumes=VOLUMES)
    node.phase("edit", "Running")
    node.wait("the other's entry", lambda: node.log("edit", "-c", "two") == "192.0.2.7 added\n")
    node.remove("edit")


def test_messages_survive_agent_and_keeper(node):
    """Written under one agent, read by the next one; the container ends while there is none."""
    script = ("if [ -e /shared/go ]; then cat /etc/hosts; exec sleep 1000; fi; echo kept > /dev/termination-log; "
              "echo up; until [ -e /shared/go ]; do sleep 0.05; done; exit 5")
    node.pod("message", containers=[node.container("main", script, **SHARED)], volumes=VOLUMES)
    pod = node.phase("message", "Running")
    node.wait("its log", lambda: node.log("message") == "up\n")
    node.kill(("hold", "launch", "log"))
    node.wait("the keeper is back", lambda: node.pids_of("launch"))
    node.kill(("agent",))
    (shared(node, pod) / "go").touch()
    node.start_agent()
    pod = node.until("a second run", "message", lambda p: status(p)["restartCount"] == 1 and
                     "running" in status(p)["state"])
    last = status(pod)["lastState"]["terminated"]
    equal((last["exitCode"], last.get("message")), (5, "kept\n"), "the run before")
    node.wait("its hosts", lambda: "message" in node.log("message"))
    node.remove("message")


def test_unmounted_files_are_made_again(node):
    """As for a pod that was started before its files lay on a tmpfs."""
    node.pod("unmounted", containers=[node.container(
        "main", "grep -c unmounted /etc/hosts; [ -e /shared/1 ] && exec sleep 1000; : > /shared/1; "
        "until [ -e /shared/go ]; do sleep 0.05; done; exit 1", **SHARED)], volumes=VOLUMES)
    pod = node.phase("unmounted", "Running")
    subprocess.run(["umount", "-l", node.run / "pods" / pod["metadata"]["uid"]], check=True)
    (shared(node, pod) / "go").touch()
    pod = node.until("a second run", "unmounted", lambda p: status(p)["restartCount"] == 1 and
                     "running" in status(p)["state"])
    node.wait("its log", lambda: node.log("unmounted"))
    equal(node.log("unmounted"), "2\n", "one line for each of its addresses")
    check(mounted_files(node, pod), "mounted again")
    node.remove("unmounted")


def test_variables_of_a_file_that_an_init_container_wrote(node):
    """fileKeyRef: as it was written, and from nowhere but the volume."""
    def key(name, **more):
        return {"fileKeyRef": {"volumeName": "shared", "path": "run/env", "key": name, **more}}
    env = [{"name": "FIRST", "valueFrom": key("FIRST")}, {"name": "LINES", "valueFrom": key("LINES")},
           {"name": "NONE", "valueFrom": key("NONE", optional=True)}]
    write = "mkdir /shared/run; printf \"# made here\\nFIRST='a b \\$X'\\nLINES='1\\n2'\\n\" > /shared/run/env"
    node.pod("file-env", containers=[node.container("main", 'echo "$FIRST-$LINES-${NONE-unset}"', env=env)],
             initContainers=[node.container("init", write, **SHARED)], volumes=VOLUMES, restartPolicy="Never")
    node.phase("file-env", "Succeeded")
    equal(node.log("file-env"), "a b $X-1\n2-unset\n", "what the container sees")
    node.remove("file-env")

    # What a container can put in the place of such a file.
    secret = node.top / "secret"
    secret.write_text("FIRST='of the node'\n")
    for name, made in (("link", f"ln -s {secret} /shared/run"), ("up", "ln -s ../../../../../../secret /shared/run"),
                       ("fifo", "mkfifo /shared/run")):
        env = [{"name": "FIRST", "valueFrom": {"fileKeyRef": {"volumeName": "shared", "path": "run", "key": "FIRST"}}}]
        node.pod(f"file-env-{name}", containers=[node.container("main", "env", env=env)],
                 initContainers=[node.container("init", made, **SHARED)], volumes=VOLUMES, restartPolicy="Never")
        node.until("it is refused", f"file-env-{name}", lambda p: any(
            s["state"].get("waiting", {}).get("reason") == "CreateContainerConfigError" and
            s["state"]["waiting"]["message"].startswith("couldn't parse env file")
            for s in p["status"].get("containerStatuses", [])))
        node.remove(f"file-env-{name}")
        node.until_gone(f"file-env-{name}")
