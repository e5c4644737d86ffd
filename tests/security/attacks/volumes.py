# SPDX-License-Identifier: Apache-2.0
"""Paths in volumes that somebody else changes, and mount paths through links of an image."""
import json
import time

from attack import attack, breach_if
from images import Member
from oracle import SECRET


def shared(kit):
    folder = kit.disk / "shared"
    folder.mkdir(exist_ok=True)
    return [{"name": "data", "hostPath": {"path": str(folder)}}]


def with_sub_path(kit, name, path, **more):
    container = kit.container(name, ["/bin/sh", "-c", f"cat /m/file /m/secret /m/canary/secret 2>/dev/null; ls /m; echo > /m/x"],
                              **more)
    container["volumeMounts"] = [{"name": "data", "mountPath": "/m", "subPath": path}]
    return container


@attack("C10,VO-01,RT-06")
def sub_paths_that_somebody_swaps(kit):
    volumes = shared(kit)
    prepare = (f"mkdir -p /data/dir/sub; ln -sfn {kit.canary} /data/link; ln -sfn ../../../../../../../../..{kit.canary} "
               "/data/climb; ")
    seconds = kit.size(10, 120)
    swap = (f"attacker exchange {seconds} /data/dir /data/link & attacker exchange {seconds} /data/dir /data/climb & "
            "echo swapping; wait")
    kit.pod("swapper", [kit.container("main", ["/bin/sh", "-c", prepare + swap], mounts={"data": "/data"})],
            volumes=volumes)
    kit.node.wait("it swaps", lambda: "swapping" in kit.output("swapper"))
    ran = refused = 0
    hits = []
    while not kit.output("swapper").count("done"):
        name = kit.new_name("sub")
        kit.pod(name, [with_sub_path(kit, f"c{i}", "dir" if i % 2 else "dir/sub") for i in range(20)], volumes=volumes)
        pod = kit.finished(name, 90)
        for status in pod["status"]["containerStatuses"]:
            text = kit.output(name, status["name"])
            ran += "terminated" in status["state"]
            refused += "waiting" in status["state"]
            if SECRET in text or "untouched" in text:
                hits.append(f"{name} {status['name']}")
        (kit.node.manifests / f"{name}.json").unlink()
    breach_if(hits, f"the node's directory in {len(hits)} of {ran} containers")
    return f"{ran + refused} starts, {refused} refused, {ran} ran"


@attack("VO-01")
def sub_paths_through_links(kit):
    volumes = shared(kit)
    kit.pod("links", [kit.container("main", ["/bin/sh", "-c", f"cd /data; ln -sfn / root; ln -sfn ../.. up; "
                                             f"ln -sfn {kit.canary} there; mkdir -p real; ln -sfn real good; "
                                             "mknod null c 1 3; mkfifo fifo"], mounts={"data": "/data"})], volumes=volumes)
    kit.finished("links")
    paths = ["root", f"root{kit.canary}", "up", "there", "there/dir", "..", "../..", "/etc", "real/../..", "fifo", "null/x",
             "good/../../.."]
    names = {}
    for i, path in enumerate(paths):
        names[path] = f"through-{i}"
        kit.pod(names[path], [with_sub_path(kit, "main", path)], volumes=volumes)
    expanded = kit.container("main", ["/bin/sh", "-c", "ls /m"], env=[{"name": "P", "value": "../../.."}])
    expanded["volumeMounts"] = [{"name": "data", "mountPath": "/m", "subPathExpr": "$(P)"}]
    kit.pod("expanded", [expanded], volumes=volumes)
    wrong = []
    for path, name in {**names, "$(P)": "expanded"}.items():
        if kit.node.get(name) is None:
            continue  # the manifest was refused
        kit.finished(name)
        text = kit.output(name)
        if SECRET in text or "canary" in text or "holdfast" in text or "untouched" in text:
            wrong.append(path)
    breach_if(wrong, f"the node's directories through: {wrong}")
    return f"{len(paths) + 1} paths"


@attack("C11,RT-05,RT-07")
def mount_paths_through_links_and_on_proc(kit):
    canary = str(kit.canary)
    image = kit.image("mounts", [Member("abs", "symlink", link=canary), Member("climb", "symlink", link="../../../.." + canary),
                                 Member("toproc", "symlink", link="/proc/self/attr"), Member("todev", "symlink", link="/dev")])
    paths = ["/abs", "/abs/dir", "/climb/new", "/toproc", "/proc", "/proc/self", "/proc/sys/kernel", "/proc/self/attr", "/sys",
             "/sys/fs/cgroup", "/todev/null", "/dev/null", "/dev/pts", "/../..", "/a/../../b", "/proc/1/root" + canary,
             "/proc/self/fd/20", "/proc/self/cwd"]
    names = []
    for i, path in enumerate(paths):
        for kind in ("volume", "message"):
            name = f"mount-{kind}-{i}"
            container = kit.container("main", ["/bin/sh", "-c", "echo ran"], image)
            if kind == "volume":
                container["volumeMounts"] = [{"name": "data", "mountPath": path}]
            else:
                container["terminationMessagePath"] = path
            kit.pod(name, [container], volumes=[{"name": "data", "emptyDir": {}}])
            names.append(name)
    kit.node.wait("the last is read", lambda: kit.node.get(names[-1]) is not None)
    ran = 0
    for name in names:
        if kit.node.get(name) is not None:
            kit.finished(name)
            ran += "ran" in kit.output(name)
    return f"{len(names)} pods, {ran} ran inside"


@attack("VO-03,S2,S3,PR-08,PR-12")
def pods_that_must_not_run(kit):
    sysctls = {"kernel.core_pattern": "x", "kernel/core_pattern": "x", "../kernel/core_pattern": "x", "net..ipv4": "1",
               "kernel.shm_rmid_forced": "1\n0", "net.ipv4.ip_forward+kernel.core_pattern": "x", "vm.overcommit_memory": "1"}
    pods = {f"sysctl-{i}": {"securityContext": {"sysctls": [{"name": n, "value": v}]}}
            for i, (n, v) in enumerate(sysctls.items())}
    pods["sysctl-host"] = {"hostIPC": True, "hostNetwork": True, "securityContext": {"sysctls": [
        {"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]}}
    profile = kit.node.top / "root/seccomp"
    profile.mkdir(exist_ok=True)
    (profile / "empty.json").write_text("")
    (profile / "bad.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_NONSENSE"}))
    for i, path in enumerate(("", "missing.json", "../../../../etc/passwd", "/etc/passwd", ".", "empty.json", "bad.json")):
        pods[f"seccomp-{i}"] = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}}
    pods["git"] = {"volumes": [{"name": "g", "gitRepo": {"repository": str(kit.canary)}}]}
    for name, spec in pods.items():
        mounts = {"g": "/g"} if name == "git" else None
        kit.pod(name, [kit.container("main", ["/bin/sh", "-c", "echo ran; sleep 1000"], mounts=mounts)], **spec)
    kit.pod("last", [kit.container("main", ["/bin/true"])])
    kit.finished("last")
    time.sleep(kit.size(2, 30))
    ran = [name for name in pods if "ran" in kit.output(name)]
    breach_if(ran, f"ran: {ran}")
    return f"{len(pods)} pods"
