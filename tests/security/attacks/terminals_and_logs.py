# SPDX-License-Identifier: Apache-2.0
"""Terminals, log files, and texts that others chose."""
import os
import pty
import subprocess
import termios
import time
import tty

from attack import attack, breach_if
from images import Member
from oracle import SECRET

PUSHED = "pushed-back-to-the-operator"


def exec_on_a_terminal(kit, name, *command):
    """holdctl exec -it as an operator at a terminal; what it showed, and what is then waiting to be read as
    if the operator had typed it."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    child = subprocess.Popen([kit.bin / "holdctl", "--socket", kit.node.run / "holdfastd.sock", "exec", "-it",
                              f"{name}-{kit.node.node}", "-c", "main", "--", *command], stdin=slave, stdout=slave,
                             stderr=slave, start_new_session=True, close_fds=True,
                             preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0))
    os.set_blocking(master, False)
    os.set_blocking(slave, False)
    shown = b""
    deadline = time.monotonic() + 20
    while child.poll() is None and time.monotonic() < deadline:
        try:
            shown += os.read(master, 65536)
        except BlockingIOError:
            time.sleep(0.02)
    child.kill()
    child.wait()
    for end in (master, slave):
        waiting = b""
        try:
            waiting = os.read(end, 65536)
        except OSError:
            pass
        if end == master:
            shown += waiting
    os.close(master)
    os.close(slave)
    return shown.decode(errors="replace"), waiting.decode(errors="replace")


@attack("PR-15")
def input_pushed_back_to_the_operators_terminal(kit):
    name = kit.new_name("tty")
    kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"], tty=True, stdin=True)])
    kit.node.phase(name, "Running")
    # More than the oracle's slack of descriptors: the logger once kept the terminal of each.
    for _ in range(kit.size(12, 100)):
        shown, waiting = exec_on_a_terminal(kit, name, "/bin/attacker", "push-back", PUSHED)
        breach_if("done" not in shown, f"not tried: {shown[-200:]!r}")
        breach_if(waiting, f"waits at the operator's terminal: {waiting[:80]!r}")
    return " ".join(shown.split())


@attack("RT-04,RT-03")
def consoles_in_a_volume_that_somebody_swaps(kit):
    """/dev itself is a volume that two containers share: one swaps, the others get terminals."""
    canary = kit.canary
    prepare = ("cd /data; mknod null c 1 3; mknod zero c 1 5; mknod full c 1 7; mknod random c 1 8; mknod urandom c 1 9; "
               f"mknod tty c 5 0; mkdir -p shm mqueue /data/pts /data/pts2; touch /data/console /data/ptmx; ln -s {canary}/dev /data/pts-link; "
               "ln -s /proc/sys/kernel/core_pattern /data/console-link; ln -s pts/ptmx /data/ptmx2; echo ready; ")
    swap = " & ".join(f"attacker exchange {kit.size(6, 60)} /data/{a} /data/{b}" for a, b in (
        ("pts", "pts-link"), ("console", "console-link"), ("ptmx", "ptmx2")))
    name = kit.new_name("swap")
    volumes = [{"name": "data", "emptyDir": {}}]
    users = [kit.container(f"user{i}", ["/bin/sh", "-c", "tty; cat /proc/self/mountinfo"], tty=True,
                           mounts={"data": "/dev"}) for i in range(kit.size(20, 60))]
    kit.pod(name, [kit.container("main", ["/bin/sh", "-c", prepare + swap + "; wait; sleep 1000"],
                                 mounts={"data": "/data"}), *users], volumes=volumes)
    def over(pod):
        states = pod["status"].get("containerStatuses", [])
        return len(states) == len(users) + 1 and all(
            s["name"] == "main" or "terminated" in s["state"] or "waiting" in s["state"] for s in states)
    kit.node.until("consoles", name, over, 120)
    texts = [kit.output(name, c["name"]) for c in users]
    wrong = [t[:200] for t in texts if f" {canary}" in t or "core_pattern" in t]
    breach_if(wrong, str(wrong[:2]))
    return f"{len(users)} starts, {sum(bool(t) for t in texts)} ran"


@attack("RT-04,RT-08")
def consoles_of_an_image_with_links(kit):
    containers = []
    for place in ("dev/console", "dev/pts", "dev/ptmx", "dev/tty"):
        for target in ("/proc/sys/kernel/core_pattern", str(kit.canary / "dev/ptmx"), "../../.." + str(kit.canary)):
            image = kit.image("console", [Member(place, "symlink", link=target)])
            containers.append(kit.container(f"c{len(containers)}", ["/bin/sh", "-c", "tty; ls -l /dev/console"], image,
                                            tty=True))
    name = kit.new_name("console")
    kit.pod(name, containers)
    kit.finished(name)
    lines = [kit.output(name, c["name"]) for c in containers]
    wrong = [x for x in lines if x and "/dev/" not in x]
    breach_if(wrong, str(wrong[:3]))
    return f"{len(containers)} starts, {sum(bool(x) for x in lines)} ran"


def log_pod(kit, script, **more):
    name = kit.new_name("logs")
    kit.pod(name, [kit.container("main", ["/bin/sh", "-c", script], mounts={"logs": "/logs"}, **more)],
            volumes=[{"name": "logs", "hostPath": {"path": str(kit.node.logs)}}])
    return name


@attack("B-5,VO-04,C12,C13")
def log_directories_that_are_links(kit):
    """The container writes where its own log lies, and puts links to the node's files there."""
    canary = kit.canary
    find = "cd /logs/default_$(hostname)_*; "
    ways = {"directory": f"mv main old; ln -s {canary}/log main",
            "file": f"rm -f main/0.log; ln -s {canary}/log/0.log main/0.log",
            "rotated": f"ln -s {canary}/log/0.log main/0.log.20260101-000000",
            "hard link": f"rm -f main/0.log; ln {canary}/log/0.log main/0.log 2>/dev/null; true",
            "fifo": "rm -f main/0.log; mkfifo main/0.log"}
    wrong = []
    for label, way in ways.items():
        name = log_pod(kit, find + way + "; exit 3", terminationMessagePolicy="FallbackToLogsOnError")
        pod = kit.finished(name)
        said = kit.node.ctl("logs", f"{name}-{kit.node.node}", check=False, timeout=20)
        if SECRET in said.stdout:
            wrong.append(f"{label}: logs")
        if SECRET in str(pod["status"]) or SECRET in str(kit.node.get(name)["status"]):
            wrong.append(f"{label}: status")
        kit.node.remove(name)
    name = log_pod(kit, f"cd /logs; mv default_$(hostname)_* old-$(hostname); "
                   f"mkdir -p fake; ln -s {canary}/log fake/main; exit 3")
    kit.finished(name)
    breach_if(wrong, f"the node's file is in: {', '.join(wrong)}")
    return f"{len(ways)} ways"


@attack("B-11,A6,A7,PR-15")
def texts_with_escapes_in_the_agents_log(kit):
    mark = "FORGED"
    evil = f"/x\n<0>2026-01-01 error {mark}\x1b]0;pwned\x07"
    image = kit.image("escape", config={"Entrypoint": [evil], "User": ""})
    users = kit.image("escape", config={"User": evil})
    log = kit.node.top / "agent.log"
    before = log.stat().st_size
    for i, (which, command) in enumerate(((image, None), (users, ["/bin/true"]), (image, [evil]))):
        kit.pod(f"escape-{i}", [kit.container("main", command, which, workingDir=None)])
    for i in range(3):
        kit.finished(f"escape-{i}")
    (kit.node.manifests / f"m\n<0>{mark}\x1b[31m.yaml").write_text("kind: [")
    shown = [kit.node.ctl(*words, check=False).stdout for words in (
        ("get", "pods", "-o", "wide"), ("get", "events"), ("describe", "node"), ("image", "ls"),
        ("describe", "pod", f"escape-0-{kit.node.node}"))]
    time.sleep(0.5)
    (kit.node.manifests / f"m\n<0>{mark}\x1b[31m.yaml").unlink()
    kit.exec("escape-0", evil)
    text = log.read_bytes()[before:].decode(errors="replace")
    wrong = [repr(line[:80]) for line in text.split("\n") if line.startswith("<0>") or "\x1b" in line or "\x07" in line]
    breach_if(wrong, f"forged in the agent's log: {wrong[:3]}")
    raw = [s[:80] for s in shown if "\x1b" in s or "\x07" in s]
    breach_if(raw, f"raw at the operator's terminal: {raw[:2]!r}")
    return "three images, a manifest's name, an exec"


def size_if_there(file):
    """Of a file that may be rotated away between its listing and the look at it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


@attack("DO-02,C15")
def output_faster_than_it_is_rotated(kit):
    name = kit.new_name("flood")
    kit.pod(name, [kit.container("main", ["/bin/sh", "-c", "yes 0123456789012345678901234567890123456789 | head -c 400000000; "
                                          "head -c 30000000 /dev/zero | tr '\\0' x"])])
    most = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pod = kit.node.get(name)
        most = max(most, sum(size_if_there(f) for f in kit.node.logs.glob(f"default_{name}-*/main/*")))
        if pod and pod["status"]["phase"] in ("Succeeded", "Failed"):
            break
        time.sleep(0.05)
    breach_if(most > 5.6 * (10 << 20), f"{most >> 20} MiB of log files")
    return f"430 MB written, at most {most >> 20} MiB on disk"
