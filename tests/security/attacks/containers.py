# SPDX-License-Identifier: Apache-2.0
"""What a container may ask of the kernel, write, mount and trace."""
import fnmatch
import pathlib
import re

from attack import attack, breach_if
from oracle import SECRET

KINDS = {"default": {}, "own-users": {"hostUsers": False}, "shared-pids": {"shareProcessNamespace": True}}
# Writes there set an alarm of the writer's own (PSI triggers, mode 0666) and change nothing else.
WRITABLE = ("/proc/pressure/",)
REFUSED = {"EPERM", "ENOSYS", "EACCES"}
# Calls that the default profile lets through and whose arguments here are wrong or harmless.
PASSES = {"ptrace-init": "allowed by the profile since Linux 4.8; the kernel's ptrace rules decide",
          "modify_ldt": "allowed by the profile: local descriptor tables are the process's own",
          "sysfs": "allowed by the profile: lists file system types"}
FORBIDDEN_FAMILIES = {"38": "AF_ALG", "40": "AF_VSOCK"}


@attack("C1,PR-08")
def calls_that_the_profile_refuses(kit):
    wrong, count = [], 0
    for label, spec in KINDS.items():
        for who, security in (("root", {}), ("nobody", {"runAsUser": 65534})):
            for line in kit.complete(["/bin/attacker", "calls"], pod=spec, security=security):
                name, outcome = line.split()
                count += 1
                if outcome not in REFUSED and name not in PASSES:
                    wrong.append(f"{label} {who}: {name} {outcome}")
    breach_if(wrong, "; ".join(wrong))
    return f"{count} calls"


@attack("C1,PR-08")
def socket_families(kit):
    wrong = []
    for label, spec in KINDS.items():
        for line in kit.complete(["/bin/attacker", "families"], pod=spec):
            family, outcome = line.split()
            if family in FORBIDDEN_FAMILIES and outcome not in REFUSED | {"EAFNOSUPPORT"}:
                wrong.append(f"{label}: {FORBIDDEN_FAMILIES[family]} {outcome}")
            if int(family) > 45 and outcome == "ok":
                wrong.append(f"{label}: family {family} {outcome}")
    breach_if(wrong, "; ".join(wrong))
    return "64 families x 3 kinds of pod"


@attack("C1,PR-09")
def device_nodes_made_in_a_container(kit):
    default = {"c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2"}
    nobody = {"ENXIO", "ENODEV"}  # let through by the rules, but there is no such device
    opened = {line.rpartition(" ")[0] for line in kit.complete(["/bin/attacker", "devices"])
              if line.split()[-1] not in nobody}
    other = {d for d in opened if d not in default and not d.startswith("c 136:")}
    breach_if(other, f"opened: {sorted(other)}")
    return f"16,384 nodes, opened: {' '.join(sorted(opened))}"


@attack("C2,RT-10,RT-11")
def files_of_the_kernel_open_for_writing(kit):
    wrong = []
    kinds = {**KINDS, "host-network": {"hostNetwork": True}, "host-pids": {"hostPID": True}}
    for label, spec in kinds.items():
        wrong += [f"{label}: {file}" for file in kit.complete(
            ["/bin/attacker", "open-for-writing", "/proc", "/sys"], pod=spec)
            if not file.startswith(WRITABLE)]
    breach_if(wrong, f"{len(wrong)}: {wrong[:12]}")
    return f"every file below /proc and /sys in {len(kinds)} kinds of pod"


def one_of(patterns):
    return re.compile("|".join(map(fnmatch.translate, patterns))).match


@attack("RT-11")
def files_of_the_kernel_open_for_reading(kit):
    lines = [line.strip() for line in (pathlib.Path(__file__).parents[1] / "readable.txt").read_text().splitlines()]
    reviewed = one_of([line for line in lines if line.startswith("/")])
    never = one_of([line[1:] for line in lines if line.startswith("!")])
    wrong, count = [], 0
    for label, spec in KINDS.items():
        files = kit.complete(["/bin/attacker", "open-for-reading", "/proc", "/sys"], pod=spec)
        count += len(files)
        wrong += [f"{label}: {f}" for f in files if never(f) or not reviewed(f)]
    breach_if(wrong, f"{len(wrong)} files: {wrong[:12]}")
    return f"{count} files, each of a reviewed kind"


@attack("C7,B-6,RT-10")
def cgroup_hierarchies_mounted_by_an_administrator(kit):
    opened, mounted = [], 0
    kinds = {"plain": ((), {}), "admin": (["SYS_ADMIN"], {}), "own-users": (["SYS_ADMIN"], {"hostUsers": False})}
    for label, (add, spec) in kinds.items():
        for line in kit.complete(["/bin/attacker", "mount-cgroups"], add=add, pod=spec):
            hierarchy, outcome, *rest = line.split()
            mounted += outcome == "mounted"
            breach_if(outcome == "mounted" and not add, f"mounted without SYS_ADMIN: {line}")
            opened += [f"{label} {hierarchy} {file}" for file, how in zip(rest[::2], rest[1::2]) if how == "ok"]
    breach_if(opened, f"the node's files of cgroups can be written: {', '.join(opened)}")
    return f"{mounted} mounted, release_agent and the container's own limits in none"


def spin(kit, execs, add=(), starts=0, **spec):
    """A spinner while others enter; what it said. None if the pod is refused."""
    name = kit.new_name("spin")
    seconds = kit.size(3, 60)
    kit.pod(name, [kit.container("main", ["/bin/attacker", "spin", str(seconds), f"{kit.canary}/secret"], add=add),
                   kit.container("quiet", ["/bin/sleep", "1000"])], **spec)
    if kit.running(name) is None:
        return None
    kit.node.wait("it spins", lambda: "spinning" in kit.output(name))
    for i in range(execs):
        kit.exec(name, "/bin/true", container="main" if i % 2 == 0 or not spec else "quiet")
        if "done" in kit.output(name):
            break
    for i in range(starts):
        kit.run(["/bin/true"])
    kit.node.wait("it is done", lambda: "\ndone" in kit.output(name), seconds + 30)
    return kit.output(name)


def beyond(text):
    """Seized processes that could or held more than the container."""
    found = []
    for line in text.splitlines():
        if not line.startswith("SEIZED"):
            continue
        words = line.split()
        own, *its = (words[words.index(w) + 1] for w in ("own", "bounding", "effective"))
        if any(int(c, 16) & ~int(own, 16) for c in its if c != "?"):
            found.append(line[:160])
    return found


def judge(text, label):
    read = [line for line in (text or "").splitlines() if line.startswith(("READ", "WHO"))]
    breach_if(SECRET in (text or ""), f"{label}: {read[:4]}")
    found = beyond(text or "")
    breach_if(found, f"{label}: {len(found)} processes seized that had more than the container: {found[:1]}")
    return f"{label}: " + ("refused" if text is None else text.splitlines()[-1][5:])


@attack("C4,PR-01")
def spinner_in_a_default_pod(kit):
    execs = kit.size(25, 2000)
    return "; ".join([judge(spin(kit, execs), "default"),
                      judge(spin(kit, execs, shareProcessNamespace=True), "shared pids"),
                      judge(spin(kit, execs, hostPID=True, starts=kit.size(5, 100)), "host pids")])


@attack("B-2,C5,PR-01")
def spinner_with_the_right_to_trace(kit):
    execs = kit.size(25, 2000)
    return "; ".join([judge(spin(kit, execs, ["SYS_PTRACE"]), "host's users"),
                      judge(spin(kit, execs, ["SYS_PTRACE"], shareProcessNamespace=True), "shared pids")])


@attack("C5,PR-01")
def spinner_with_the_right_to_trace_and_users_of_its_own(kit):
    execs = kit.size(25, 2000)
    return judge(spin(kit, execs, ["SYS_PTRACE"], hostUsers=False), "own users")
