# SPDX-License-Identifier: Apache-2.0
"""Who a program in a container is: capabilities and groups against tables, of starts, execs, hooks and probes."""
import json
import pathlib
import struct

from attack import attack, breach_if
from images import Member

DEFAULT = 0xa80425fb  # containerd's fourteen
NET_ADMIN = 1 << 12


def facts(text):
    found = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        found[key] = value
    return found


def identities(kit, security, spec=None, **container):
    """Facts of a start, an exec, a hook and a probe."""
    name = kit.new_name("who")
    tell = lambda who: {"exec": {"command": ["/bin/sh", "-c", f"attacker identity > /who/{who}.new && mv /who/{who}.new /who/{who}"]}}
    kit.pod(name, [kit.container("main", ["/bin/sh", "-c", "attacker identity; exec sleep 1000"], security=security,
                                 mounts={"who": "/who"}, lifecycle={"postStart": tell("hook")},
                                 readinessProbe={**tell("probe"), "periodSeconds": 1, "timeoutSeconds": 10}, **container)],
            volumes=[{"name": "who", "emptyDir": {}}], **(spec or {}))
    kit.node.phase(name, "Running")
    kit.node.wait("identity", lambda: "done" in kit.output(name))
    found = {"start": facts(kit.output(name)), "exec": facts(kit.exec(name, "/bin/attacker", "identity"))}
    for who in ("hook", "probe"):
        kit.node.wait(f"the {who}", lambda who=who: "done" in kit.exec(name, "/bin/cat", f"/who/{who}"))
        found[who] = facts(kit.exec(name, "/bin/cat", f"/who/{who}"))
    kit.node.remove(name)
    return found


def host_capabilities():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status[status.index("CapBnd:"):].split()[1], 16)


@attack("PR-02")
def capabilities_of_starts_and_execs(kit):
    everything = host_capabilities()
    sets = {"default": ({}, DEFAULT), "drop ALL": ({"capabilities": {"drop": ["ALL"]}}, 0),
            "add NET_ADMIN": ({"capabilities": {"add": ["NET_ADMIN"]}}, DEFAULT | NET_ADMIN),
            "privileged": ({"privileged": True}, everything)}
    wrong, count = [], 0
    for label, (security, bounding) in sets.items():
        for uid in (0, 1000):
            kept = bounding if uid == 0 else 0
            wanted = [0, kept, kept, bounding, 0]  # inheritable, permitted, effective, bounding, ambient
            for way, found in identities(kit, {**security, "runAsUser": uid}).items():
                count += 1
                got = [int(c, 16) for c in found["capabilities"].split()]
                if got != wanted:
                    wrong.append(f"{label} uid {uid} {way}: {found['capabilities']}")
                seccomp = "00" if label == "privileged" else "02"
                if found["no-new-privileges-and-seccomp"] != seccomp:
                    wrong.append(f"{label} uid {uid} {way}: seccomp {found['no-new-privileges-and-seccomp']}")
    breach_if(wrong, "; ".join(wrong))
    return f"{count} sets"


def file_capabilities(permitted):
    """security.capability, version 2; linux/capability.h. Without the effective bit, with which the kernel does not
    execute a program at all that gets less than it asks for."""
    return struct.pack("<IIIII", 0x02000000, permitted & 0xffffffff, 0, permitted >> 32, 0)


@attack("PR-02,IM-09")
def programs_with_capabilities_of_their_own(kit):
    program = (kit.programs / "security-attacker").read_bytes()
    image = kit.image("capable", [Member("bin/capable", content=program, pax={
        "SCHILY.xattr.security.capability": file_capabilities(1 << 12 | 1 << 21)})])  # NET_ADMIN, SYS_ADMIN
    wrong, gained = [], 0
    for label, security in {"default": {}, "drop ALL": {"capabilities": {"drop": ["ALL"]}},
                            "add NET_ADMIN": {"capabilities": {"add": ["NET_ADMIN"]}},
                            "no new privileges": {"allowPrivilegeEscalation": False}}.items():
        text = kit.run(["/bin/capable", "identity"], image=image,
                       security={**security, "runAsUser": 1000})
        found = facts(text)
        gained += label == "add NET_ADMIN" and int(found["capabilities"].split()[1], 16) == NET_ADMIN
        _, permitted, effective, bounding, _ = (int(c, 16) for c in found["capabilities"].split())
        if (permitted | effective) & ~bounding or label == "no new privileges" and permitted:
            wrong.append(f"{label}: {found['capabilities']}")
    breach_if(wrong, "; ".join(wrong))
    breach_if(not gained, "not tried: the program's own capability was not kept")
    return "4 sets"


# container's security, pod's security -> uid, gid, groups; user is in the image's group extra (50000).
GROUPS = [
    ({}, {}, "0 0 0"),
    ({"runAsUser": 1000}, {}, "1000 1000 1000 50000"),
    ({"runAsUser": 1000, "runAsGroup": 3000}, {}, "1000 3000 3000 50000"),
    ({"runAsUser": 1000, "runAsGroup": 3000}, {"fsGroup": 4000}, "1000 3000 3000 4000 50000"),
    ({"runAsUser": 1000, "runAsGroup": 3000}, {"supplementalGroups": [5000, 6000]}, "1000 3000 3000 5000 6000 50000"),
    ({"runAsUser": 1000, "runAsGroup": 3000}, {"supplementalGroups": [5000], "supplementalGroupsPolicy": "Strict"},
     "1000 3000 3000 5000"),
    ({"runAsUser": 1000, "runAsGroup": 3000}, {"supplementalGroupsPolicy": "Strict"}, "1000 3000 3000"),
    ({"runAsUser": 1000}, {"supplementalGroupsPolicy": "Strict"}, "1000 1000 1000"),
    ({"runAsUser": 4321}, {}, "4321 0 0"),
    ({"runAsUser": 4321}, {"fsGroup": 4000, "supplementalGroupsPolicy": "Strict"}, "4321 0 0 4000"),
    ({"runAsUser": 1000, "runAsGroup": 3000}, {"fsGroup": 4000, "supplementalGroups": [5000],
                                               "supplementalGroupsPolicy": "Merge"}, "1000 3000 3000 4000 5000 50000"),
]


@attack("PR-06")
def groups_of_starts_and_execs(kit):
    wrong = []
    for container, pod, wanted in GROUPS:
        for way, found in identities(kit, container, {"securityContext": pod} if pod else {}).items():
            got = f"{found['uid']} {found['gid']} {found['groups']}"
            if got != wanted:
                wrong.append(f"{json.dumps({**container, **pod})} {way}: {got}, wanted {wanted}")
    breach_if(wrong, "; ".join(wrong))
    return f"{len(GROUPS)} tables x start, exec, hook and probe"
