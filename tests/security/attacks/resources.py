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
