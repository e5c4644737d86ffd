# SPDX-License-Identifier: Apache-2.0
"""Containers that use up what belongs to the node. All of it below the limits of the kit's own cgroup and
on its own disk (target.py)."""
import gzip
import os
import re
import threading
import time

from attack import attack, breach_if
from images import Image, Member, tar

MOST_FILE = 1 << 20
FEW_PROCESSES = 4096


def remove_all(kit):
    try:
        kit.clear()
    except RuntimeError as error:
        deadline = time.monotonic() + 20  # a core dump takes its time
        while not kit.died() and time.monotonic() < deadline:
            time.sleep(0.1)
        breach_if(kit.died(), "the agent died while it removed them")
        raise error
    kit.node.wait("they are removed", lambda: not list((kit.node.top / "root/pods").iterdir()))
    breach_if(kit.died(), "the agent died while it removed them")


@attack("B-3")
def directories_nested_deeper_than_a_stack(kit):
    depth = str(kit.size(30000, 100000))
    name = kit.new_name("deep")
    kit.pod(name, [kit.container("main", ["/bin/attacker", "descend", "/tmp", depth]),
                   kit.container("volume", ["/bin/attacker", "descend", "/data", depth],
                                 mounts={"data": "/data"})], volumes=[{"name": "data", "emptyDir": {}}])
    kit.finished(name)
    made = kit.output(name) + kit.output(name, "volume")
    remove_all(kit)
    return f"two trees, {made.split()[1]} and {made.split()[3]} deep, are gone"


@attack("B-3")
def directories_nested_in_a_volume_of_other_users(kit):
    name = kit.new_name("deep")
    kit.pod(name, [kit.container("main", ["/bin/attacker", "descend", "/data", "17500"], mounts={"data": "/data"})],
            volumes=[{"name": "data", "emptyDir": {}}], hostUsers=False)
    kit.finished(name)
    remove_all(kit)
    kit.node.restart_agent()
    kit.starts += 1
    kit.node.wait("the agent answers", lambda: kit.node.ctl("version").returncode == 0)
    left = [p.name for p in (kit.node.top / "root/pods").iterdir()]
    breach_if(left, f"left behind after a restart: {left}")


@attack("B-4,DO-01")
def processes_without_end(kit):
    text = kit.run(["/bin/attacker", "fork", str(FEW_PROCESSES)], 120)
    count = int(text.split()[1])
    breach_if(count >= FEW_PROCESSES, f"{count} processes of one pod, and no limit was met")
    return f"{count} processes, then {text.split()[2]}"


@attack("B-4,DO-01", only_whole=True)
def fork_bombs_in_many_pods(kit):
    bomb = "f() { f | f & }; f; sleep 20"
    for i in range(6):
        kit.pod(f"bomb-{i}", [kit.container("main", ["/bin/sh", "-c", bomb])])
    slowest = 0
    most, limits = 0, set()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        began = time.monotonic()
        kit.node.ctl("get", "pods")
        slowest = max(slowest, time.monotonic() - began)
        for folder in pod_cgroups(kit):
            most = max(most, int((folder / "pids.current").read_text()))
            limits.add((folder / "pids.max").read_text().strip())
        time.sleep(0.2)
    breach_if("max" in limits, f"no limit of a pod's own; one had {most} processes")
    breach_if(slowest > 10, f"the API took {slowest:.1f} s")
    return f"at most {most} processes per pod, slowest answer {slowest:.2f} s"


def pod_cgroups(kit):
    return [p.parent for t in kit.node.cgroup_trees() for p in t.glob("kubepods/**/pod*/pids.current")]


@attack("B-8,VO-06")
def files_that_the_agent_made_for_the_pod(kit):
    wrong, files = [], ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/dev/termination-log")
    for label, spec in {"default": {}, "own-users": {"hostUsers": False}}.items():
        script = "; ".join(f"attacker fill {f} 64" for f in files) + "; echo done"
        for line in kit.complete(["/bin/sh", "-c", script], pod=spec):
            file, written = line.split()[:2]
            if int(written) > MOST_FILE:
                wrong.append(f"{label}: {int(written) >> 20} MiB into {file}")
    breach_if(wrong, "; ".join(wrong))
    return f"{len(files)} files, none beyond 1 MiB"


@attack("VO-06,DO-06")
def shared_memory(kit):
    text = kit.run(["/bin/sh", "-c", "dd if=/dev/zero of=/dev/shm/x bs=1M count=256 2>&1; "
                    "stat -c 'size %s' /dev/shm/x; mount | grep mqueue || echo none"])
    size = int(re.search(r"size (\d+)", text).group(1))
    breach_if(size > 64 << 20, f"{size >> 20} MiB in /dev/shm")
    return f"{size >> 20} MiB, then ENOSPC"


def growing_layer(byte, size):
    """A file of `size` times the same byte, in some MiB: gzip members of 64 MiB one after the other."""
    packed = gzip.compress(tar([Member("grown", size=size)])[:512], 1)
    return packed + gzip.compress(byte * (64 << 20), 1) * (size >> 26) + gzip.compress(bytes(1024), 1)


@attack("B-9,IM-04,DO-04")
def layer_that_grows_without_end(kit):
    """4 or 8 GiB in some MiB; the disk has 3 GiB. Zeros may become a hole."""
    told = []
    for byte in kit.size((b"\1",), (b"\1", b"\0")):
        image = Image([b""], stored=[growing_layer(byte, kit.size(4, 8) << 30)], media="application/vnd.oci.image.layer.v1.tar+gzip",
                      diff_ids=["sha256:" + "0" * 64])
        least = [1.0]
        began = time.monotonic()
        stop = watch_disk(kit, least)
        result = kit.import_image("attack/bomb:1", image, timeout=300)
        stop()
        breach_if(result.returncode == 0, "imported")
        breach_if(least[0] < 0.02, f"it filled the disk ({time.monotonic() - began:.0f} s): {result.stderr.strip()[-200:]}")
        told.append(f"refused in {time.monotonic() - began:.1f} s with {least[0]:.0%} of the disk free")
    return "; ".join(told)


def watch_disk(kit, least):
    """Keeps the smallest part that was free in `least`; the result ends it."""
    over = threading.Event()

    def look():
        while not over.wait(0.02):
            st = os.statvfs(kit.disk)
            least[0] = min(least[0], st.f_bavail / st.f_blocks)
    thread = threading.Thread(target=look)
    thread.start()

    def stop():
        over.set()
        thread.join()
    return stop


@attack("DO-06")
def inotify_that_root_has_on_the_whole_machine(kit):
    """The kernel counts instances per user, and root in a container is root. Runs on, follows logs, and starts anew."""
    name, other = kit.new_name("inotify"), kit.new_name("beside")
    kit.pod(name, [kit.container("main", ["/bin/attacker", "objects", "inotify", "4000"])])
    kit.node.wait("it has what there is", lambda: "done" in kit.output(name), 60)
    _, count, outcome = kit.output(name).split()
    for stage in ("as it runs", "started anew"):
        kit.pod(other, [kit.container("main", ["/bin/sh", "-c", "echo first; sleep 3; echo second"])])
        kit.node.phase(other, "Running")
        said = kit.node.ctl("logs", "-f", f"{other}-{kit.node.node}", check=False, timeout=30)
        breach_if(said.stdout != "first\nsecond\n", f"{stage}: logs -f: {said.stdout!r} {said.stderr.strip()[-200:]}")
        (kit.node.manifests / f"{other}.json").unlink()
        kit.node.wait(f"{stage}: {other} is gone", lambda: not any(p.startswith(other) for p in kit.node.pods()), 30)
        if stage == "as it runs":
            kit.node.restart_agent()
            kit.starts += 1
            answers = lambda: kit.node.ctl("version", check=False).returncode == 0  # noqa: E731
            deadline = time.monotonic() + 20
            while not answers():
                breach_if(time.monotonic() > deadline or kit.node.agent.poll() is not None,
                          "the agent does not start while a pod has them all")
                time.sleep(0.2)
    return f"one pod has {count} instances: {outcome}"


@attack("DO-06", only_whole=True)
def epoll_places_that_root_has_on_the_whole_machine(kit):
    """Some gigabyte of a pod without a limit of memory. What runs goes on, and new pods start."""
    name, other = kit.new_name("epoll"), kit.new_name("beside")
    kit.pod(name, [kit.container("main", ["/bin/attacker", "objects", "epoll", "8000000"])])
    kit.node.wait("it has what there is", lambda: "done" in kit.output(name), 120)
    _, count, outcome = kit.output(name).split()
    kit.node.ctl("version")
    kit.pod(other, [kit.container("main", ["/bin/sh", "-c", "echo first; sleep 3; echo second"])])
    kit.node.phase(other, "Running")
    kit.node.phase(other, "Succeeded")
    return f"one pod has {count} places: {outcome}"


@attack("DO-06")
def memory_of_the_kernel(kit):
    """What the kernel keeps for a pod counts as the pod's: far more than its limit is never there."""
    limit, told = 32 << 20, []
    for kind, most in (("socket", 200_000), ("epoll", 4_000_000), ("timer", 4_000_000), ("name", kit.size(1_000_000, 4_000_000))):
        name = kit.new_name(kind)
        before = reclaimable_memory()
        kit.pod(name, [kit.container("main", ["/bin/attacker", "objects", kind, str(most)],
                                     resources={"limits": {"memory": str(limit)}})])
        kit.node.wait("it met its limit", lambda n=name: "done" in kit.output(n) or any(
            "terminated" in s["state"] for p in kit.node.pods().values() if p["metadata"]["name"].startswith(n)
            for s in p["status"].get("containerStatuses", [])), 120)
        ended = kit.output(name).split()
        grown = reclaimable_memory() - before
        (kit.node.manifests / f"{name}.json").unlink()
        breach_if(kind != "name" and ended[2:] == ["all"], f"{most} of {kind} within {limit >> 20} MiB")
        breach_if(grown > 16 * limit, f"{kind}: the node has {grown >> 20} MiB more of the kernel's memory")
        told.append(f"{kind}: {' '.join(ended[1:]) or 'killed'}")
    return ", ".join(told)


def reclaimable_memory():
    return int(re.search(r"SReclaimable: +(\d+)", open("/proc/meminfo", encoding="ascii").read()).group(1)) << 10


@attack("DO-11")
def processors_and_disk_that_are_never_idle(kit):
    """Programs that spin and write in many pods: the agent answers, and a new pod that asks for some CPU starts."""
    pods = kit.size(12, 60)
    script = "for i in 1 2 3 4; do (while :; do :; done) & done; while :; do dd if=/dev/zero of=/data/x bs=1M count=8 conv=fsync; done"
    for _ in range(pods):
        kit.pod(kit.new_name("busy"), [kit.container("main", ["/bin/sh", "-c", script], mounts={"data": "/data"})],
                volumes=[{"name": "data", "emptyDir": {}}])
    kit.node.wait("all are busy", lambda: sum(p["status"]["phase"] == "Running" for p in kit.node.pods().values()) == pods, 120)
    slowest, end = 0, time.monotonic() + kit.size(5, 30)
    while time.monotonic() < end:
        began = time.monotonic()
        kit.node.ctl("get", "pods")
        slowest = max(slowest, time.monotonic() - began)
    began = time.monotonic()
    kit.run(["/bin/true"], resources={"requests": {"cpu": "200m"}})
    started = time.monotonic() - began
    breach_if(slowest > 5 * kit.patience, f"the API took {slowest:.1f} s")
    breach_if(started > 15 * kit.patience, f"a pod took {started:.1f} s")
    return f"{pods} pods: slowest answer {slowest:.2f} s, a pod from file to end {started:.1f} s"


@attack("AP-06,DO-09")
def probes_that_write_or_fork_without_end(kit):
    """Each second a program of a probe that floods its output, and one that leaves a crowd behind and does not end."""
    crowd = "for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 4321 &); done; exec sleep 4321"
    programs = {"flood": ["yes"], "crowd": ["sh", "-c", crowd]}
    name = kit.new_name("probes")
    before = kit.oracle.held()["agent RSS"]
    kit.pod(name, [kit.container(who, ["/bin/sh", "-c", "exec sleep 1000"], readinessProbe={
        "exec": {"command": command}, "periodSeconds": 1, "timeoutSeconds": 1}) for who, command in programs.items()])
    kit.node.phase(name, "Running")
    most = grown = 0
    until = time.monotonic() + kit.size(10, 60)
    while time.monotonic() < until:
        seen = kit.exec(name, "/bin/sh", "-c", "ps | grep -c '[s]leep 4321'; true", container="crowd")
        most = max(most, int(seen.split()[0]))
        grown = max(grown, kit.oracle.held()["agent RSS"] - before)
        time.sleep(0.5)
    breach_if(most == 0, "not tried: the crowd was never seen")
    breach_if(most > 33, f"{most} processes of probes that are over")  # one probe's, and those that are just being killed
    breach_if(grown > 16 << 10, f"the agent grew by {grown} KiB of output")
    return f"at most {most} processes, {grown} KiB"


@attack("C15,DO-09")
def zombies_and_children_that_do_not_listen(kit):
    name = kit.new_name("zombies")
    script = ("trap '' TERM; i=0; while [ $i -lt 400 ]; do (sleep 0 & exec sleep 1000) & i=$((i+1)); done; "
              "echo up; sleep 1000")
    kit.pod(name, [kit.container("main", ["/bin/sh", "-c", script])], terminationGracePeriodSeconds=1)
    kit.node.wait("up", lambda: "up" in kit.output(name), 60)
    began = time.monotonic()
    kit.clear()
    seconds = time.monotonic() - began
    breach_if(seconds > 15, f"deleted after {seconds:.0f} s")
    return f"deleted in {seconds:.1f} s"
