#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent always starts, shows, logs, deletes and makes room: scarce_test.py BIN_DIR MAKE_IMAGE [FILTER].

Run as root in a network and mount namespace of its own (CMakeLists.txt does that).
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from scarce_node import IMAGE, MANY, ScarceNode, status  # noqa: E402
from suite import check, equal, run_tests  # noqa: E402

COUNT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.2; done"


def import_image(node, archive, name=IMAGE):
    node.ctl("image", "import", archive, "--name", name, "--cmd", "/bin/sh")


def running(node, name, script=COUNT):
    node.pod(name, script)
    node.phase(name, "Running")


def gone(node, name):
    if (node.manifests / f"{name}.json").exists():
        node.remove(name)
    node.until_gone(name, 60)


def started_anew(node):
    node.give_threads()
    node.free_disk()
    if node.alive():
        node.terminate("an agent that lacks nothing")
    node.start_agent()
    node.until_it_answers("nothing is lacking")


# --- threads -------------------------------------------------------------------------------------------

def starts_until_it_works(node):
    """How many threads a start takes, with a pod shown and a log followed."""
    started_anew(node)
    node.pods()
    node.log("steady", "--tail=1")
    return node.starts_of_threads()


def test_each_start_of_a_thread_may_be_refused_once(node):
    count = starts_until_it_works(node)
    check(count >= 12, f"only {count} threads were started: is the library in the way?")
    for number in range(1, count + 1):
        node.terminate("before the next round")
        node.refuse_threads(number, 1)
        node.start_agent()
        began = time.monotonic()
        while not node.answers():
            check(node.alive(), f"start {number} of {count} refused: the agent ended\n" + "\n".join(node.log_lines()[-5:]))
            check(time.monotonic() - began < 30, f"start {number} of {count} refused: no answer\n{node.stacks()}")
        equal(node.get("steady")["status"]["phase"], "Running", f"start {number} refused: the pod")
        check(node.log("steady", "--tail=1") != "", f"start {number} refused: no log")
    print(f"each of {count} starts was refused once")


def test_all_starts_may_be_refused_from_any_one_on_until_the_limit_is_lifted(node):
    count = starts_until_it_works(node)
    unanswered = 0
    for number in range(1, count + 1, 3):
        node.terminate("before the next round")
        node.refuse_threads(number, MANY)
        node.start_agent()
        time.sleep(0.4)
        check(node.alive(), f"all from start {number} on refused: the agent ended\n" + "\n".join(node.log_lines()[-5:]))
        if number % 2 == 0:  # it ends when it is told to, lacking what it lacks
            # While it starts the signal has its usual effect.
            check(node.terminate(f"all from start {number} on refused") in (0, -signal.SIGTERM), "exit code")
            node.start_agent()
        unanswered += not node.answers()
        node.give_threads()
        node.until_it_answers(f"all from start {number} on were refused, and the limit is lifted")
        equal(node.get("steady")["status"]["phase"], "Running", f"{number}: the pod")
    print(f"all from every third of {count} starts on were refused; {unanswered} times nothing answered meanwhile")


def test_a_limit_on_tasks_stops_nothing_that_is_there(node):
    started_anew(node)
    for more in (0, 2, 5):
        node.keep_from_processes(more)
        names = [f"starved-{more}-{n}" for n in range(6)]
        for name in names:
            node.pod(name, COUNT)
        node.wait("new pods are shown", lambda: all(node.get(n) for n in names), 30)
        equal(node.get("steady")["status"]["phase"], "Running", "the pod that was there")
        node.log("steady", "--tail=1")
        gone(node, names[0])
        check(node.alive(), "the agent ended")
        node.give_processes()
        for name in names[1:]:
            node.phase(name, "Running", 60)
        node.keep_from_processes(more)
        for name in names[1:]:
            gone(node, name)
        equal(node.terminate(f"{more} tasks more than it has"), 0, "exit code")
        node.give_processes()
        node.start_agent()
        node.until_it_answers("the limit is lifted")


def test_an_agent_at_rest_answers_without_a_task_to_spare(node):
    started_anew(node)
    for who, connects in (("a client that has gone", node.until_it_answers), ("nobody yet", lambda why: None)):
        if node.alive():
            node.terminate("before the next round")
        node.start_agent()
        connects("before its rest")
        node.wait_alone(f"gRPC has come and gone after {who}", node.is_at_rest, 60)
        node.keep_from_processes(0)
        begun_anew = node.times_begun_anew()
        for _ in range(3):
            equal(node.get("steady")["status"]["phase"], "Running", f"{who}: the pod")
        check(node.log("steady", "--tail=1") != "", f"{who}: no log")
        check(node.has_grpc(), "gRPC is told by other names of threads")
        equal(node.terminate(f"after {who}"), 0, "exit code")
        equal(node.times_begun_anew(), begun_anew, f"{who}: a thread was refused, and the agent began anew")
        node.give_processes()
    node.start_agent()
    node.until_it_answers("the limit is lifted")


def test_a_start_needs_no_more_tasks_than_the_agent_has(node):
    started_anew(node)
    tasks = node.tasks_at_rest()
    for more in (4, 1):
        node.terminate("before the start within a limit")
        node.start_agent_within(tasks + more)
        # One that ended would be started again outside of the limit.
        node.wait_alone(f"the agent answers with {tasks} tasks and {more}", node.answers, 30)
        node.give_processes()
    node.terminate("before the start within a limit")
    failed = node.start_attempts_that_failed()
    node.start_agent_within(tasks // 2)
    node.wait_alone("it tries, and tries again", lambda: node.start_attempts_that_failed() >= failed + 2, 30)
    check(node.alive(), f"{tasks // 2} tasks: the agent ended")
    check(not node.answers(), f"{tasks // 2} tasks are enough: the limit is not in force")
    node.give_processes()
    node.until_it_answers("the limit is lifted")


# --- descriptors -----------------------------------------------------------------------------------------

def test_without_descriptors_the_agent_waits_and_goes_on(node):
    started_anew(node)
    node.limit_files(node.open_files() + 1)
    clients = [subprocess.Popen([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "get", "pods", "-w"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(20)]
    time.sleep(1)
    before = node.cpu_seconds()
    time.sleep(2)
    used = node.cpu_seconds() - before
    check(node.alive(), "the agent ended")
    check(used < 1, f"waiting for descriptors took {used} s of 2 s of processor time")
    node.pod("unopened", COUNT)
    time.sleep(1)
    for client in clients:
        client.terminate()
        client.wait()
    node.limit_files(65536)
    node.phase("unopened", "Running", 60)
    equal(node.get("steady")["status"]["phase"], "Running", "the pod that was there")
    gone(node, "unopened")


def test_a_start_with_few_descriptors_comes_about_when_there_are_more(node):
    started_anew(node)
    needed = node.open_files()
    for files in range(8, needed + 8, 7):
        node.terminate("before the next round")
        log = open(node.top / "agent.log", "ab")
        node.agent = subprocess.Popen(["prlimit", f"--nofile={files}:", node.bin / "holdfastd", "--config", node.config],
                                      stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        time.sleep(0.5)
        check(node.alive(), f"{files} descriptors: the agent ended\n" + "\n".join(node.log_lines()[-5:]))
        node.limit_files(65536)
        node.until_it_answers(f"{files} descriptors, and then enough")
        equal(node.get("steady")["status"]["phase"], "Running", "the pod")


# --- disk ------------------------------------------------------------------------------------------------

def test_on_a_full_disk_the_agent_starts_and_makes_room(node):
    started_anew(node)
    for name in ("leaves", "writes"):
        running(node, name)
    import_image(node, node.archive, "test/unused:1")
    node.ctl("image", "rm", "test/unused:1")  # a sweep is due at the next removal
    import_image(node, node.archive, "test/unused:1")
    node.fill_disk()
    for how in (signal.SIGKILL, signal.SIGTERM):
        node.restart_agent(how)
        node.until_it_answers("the disk is full")
        equal(node.get("leaves")["status"]["phase"], "Running", "the pod on a full disk")
        check(node.log("leaves", "--tail=1") != "", "its log")
    node.pod("waits", COUNT)
    node.until("an event says why", "waits", lambda pod: "no space left on device" in events(node, pod))
    gone(node, "leaves")
    node.ctl("image", "rm", "test/unused:1")
    equal("test/unused" in node.ctl("image", "ls").stdout, False, "the image is gone")
    refused = node.ctl("image", "import", node.archive, "--name", "test/more:1", check=False)
    check(refused.returncode != 0 and "no room for images" in refused.stderr, f"import: {refused.stderr!r}")
    check("TooManyRequests" not in refused.stderr, f"a full disk is not too many requests: {refused.stderr!r}")
    node.free_disk()
    node.phase("waits", "Running", 60)
    for name in ("waits", "writes"):
        gone(node, name)


def events(node, pod):
    listed = json.loads(node.ctl("get", "events", "-A", "-o", "json").stdout)["items"]
    return " ".join(e["message"] for e in listed if e["involvedObject"].get("uid") == pod["metadata"]["uid"])


def ended(pod, code):
    """Its container, now or before."""
    of = status(pod)
    last = of["state"].get("terminated") or of.get("lastState", {}).get("terminated") or {}
    return last.get("exitCode") == code


def test_on_a_read_only_disk_the_agent_starts_and_deletes(node):
    started_anew(node)
    for name in ("stays", "leaves"):
        running(node, name)
    running(node, "falls", f"trap 'exit 3' TERM; {COUNT}")
    node.terminate("before the disk becomes read-only")
    node.make_disk("ro")
    node.start_agent()
    node.until_it_answers("the disk is read-only")
    equal(node.get("stays")["status"]["phase"], "Running", "the pod")
    check(node.log("stays", "--tail=1") != "", "its log")
    node.remove("leaves")
    node.until("is ending", "leaves", lambda pod: "deletionTimestamp" in pod["metadata"])
    node.pod("waits", COUNT)
    node.until("an event says why", "waits", lambda pod: "read-only file system" in events(node, pod))
    node.ctl("exec", f"falls-{node.node}", "--", "kill", "1")
    node.until("its end is told", "falls", lambda pod: ended(pod, 3))
    node.until("an event says why it does not start again", "falls",
               lambda pod: "read-only file system" in events(node, pod))
    node.terminate("on a read-only disk")
    node.make_disk("rw")
    node.start_agent()
    node.phase("waits", "Running", 60)
    node.until("it runs again", "falls", lambda pod: "running" in status(pod)["state"] and ended(pod, 3), 60)
    node.until_gone("leaves", 60)
    for name in ("waits", "stays", "falls"):
        gone(node, name)


def main():
    bin_dir, make_image = map(pathlib.Path, sys.argv[1:3])
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_") and wanted in name]
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    archive = top / "busybox.tar"
    subprocess.run([make_image, "busybox", archive], check=True)
    node = ScarceNode(bin_dir, top / "node", "scarce", 96)
    node.archive = archive
    failed = []
    try:
        node.start_agent()
        node.until_it_answers("at the beginning")
        import_image(node, archive)
        running(node, "steady")
        failed = run_tests(node, tests)
    finally:
        if failed:
            print("\n".join(node.log_lines()[-60:]))
        node.stop()
        shutil.rmtree(top, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
