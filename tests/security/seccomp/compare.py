#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py BIN_DIR [--write]: our default seccomp program against containerd's default profile, for every
call, with the arguments that either of them looks at, and for every capability alone.

containerd's profile is kept in containerd/profile.<machine>.json as the Go program beside it prints it; where
Go is installed it is printed anew and compared (--write stores it). Differences must be exactly those of
reviewed.txt."""
import ctypes
import json
import operator
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CAPABILITIES = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT
SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP
MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE""".split()
# linux/audit.h; the token is libseccomp's.
ARCHITECTURES = {"x86_64": ("x86_64", 0xc000003e), "i386": ("x86_64", 0x40000003), "aarch64": ("aarch64", 0xc00000b7)}
GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}
# Calls newer than the libseccomp of Debian 12; the same number everywhere.
NEWER = {450: "set_mempolicy_home_node", 451: "cachestat", 452: "fchmodat2", 453: "map_shadow_stack", 454: "futex_wake",
         455: "futex_wait", 456: "futex_requeue", 457: "statmount", 458: "listmount", 459: "lsm_get_self_attr",
         460: "lsm_set_self_attr", 461: "lsm_list_modules", 462: "mseal", 463: "setxattrat", 464: "getxattrat",
         465: "listxattrat", 466: "removexattrat", 467: "open_tree_attr", 468: "file_getattr", 469: "file_setattr",
         470: "listns"}
NEWER_OF_X86_64 = {335: "uretprobe"}
NUMBERS = [*range(0, 600), 983041, 983045, 0x40000000, 0x40000000 + 41, 0x40000000 + 165, 0x7fffffff, 0xffffffff]
ARGUMENTS = {
    "clone": [0, 17, 0x3d0f00] + [1 << bit for bit in range(64)] + [0x100000000 | 0x10000000],
    "clone3": [0], "unshare": [0, 0x10000000],
    "socket": [*range(0, 70), 0xffffffff, 0x100000002, 0x100000026],
    "socketpair": [*range(0, 50), 0xffffffff, 0x100000001],
    "personality": [0, 8, 0x20000, 0x20008, 0xffffffff, 0x40000, 0x8000000, 1, 0x1000000000000, 0xffffffffffffffff]}
ELSEWHERE = [0, 0xffffffffffffffff]
ALLOW, EPERM, ENOSYS, KILL = "ALLOW", "EPERM", "ENOSYS", "KILL"
ACTIONS = {0x7fff0000: ALLOW, 0x00050001: EPERM, 0x00050026: ENOSYS, 0x80000000: KILL}


def our_programs(bin_dir, machine, sets):
    text = subprocess.run([bin_dir / "security-seccomp-filter", machine, *[f"{s:x}" for s in sets]],
                          capture_output=True, text=True, check=True).stdout
    programs = [[tuple(map(int, line.split())) for line in part.splitlines()[1:]]
                for part in text.split("program ")[1:]]
    return dict(zip(sets, programs))


def evaluate(program, arch, number, argument):
    """What the kernel would decide; linux/filter.h, linux/seccomp.h."""
    data = {0: number & 0xffffffff, 4: arch, 16: argument & 0xffffffff, 20: argument >> 32}
    value, at = 0, 0
    while True:
        code, yes, no, k = program[at]
        at += 1
        if code == 0x20:
            value = data.get(k, 0)
        elif code == 0x05:
            at += k
        elif code == 0x54:
            value &= k
        elif code == 0x06:
            return ACTIONS.get(k, hex(k))
        else:
            taken = {0x15: value == k, 0x25: value > k, 0x35: value >= k, 0x45: value & k != 0}[code]
            at += yes if taken else no


def name_of(library, arch, number):
    if number in NEWER:
        return NEWER[number]
    if arch == ARCHITECTURES["x86_64"][1] and number in NEWER_OF_X86_64:
        return NEWER_OF_X86_64[number]
    if number >= 600 and not (arch == 0x40000003 and number in (983041, 983045)):
        return None
    text = library.seccomp_syscall_resolve_num_arch(arch, number)
    return ctypes.cast(text, ctypes.c_char_p).value.decode() if text else None


def condition_holds(condition, argument):
    wanted = condition["value"]
    if condition["op"] == "SCMP_CMP_MASKED_EQ":
        return argument & wanted == condition.get("valueTwo", 0)
    return {"SCMP_CMP_EQ": operator.eq, "SCMP_CMP_NE": operator.ne, "SCMP_CMP_LT": operator.lt,
            "SCMP_CMP_LE": operator.le, "SCMP_CMP_GT": operator.gt, "SCMP_CMP_GE": operator.ge}[condition["op"]](
                argument, wanted)


class Profile:
    """containerd's, for one machine and capability: the first rule of a name that applies decides."""

    def __init__(self, profile, capability):
        change = profile["capabilities"].get("CAP_" + capability, {}) if capability else {}
        self.rules = {}
        for rule in [r for r in profile["syscalls"] if r not in change.get("removed", [])] + change.get("added", []):
            for name in rule["names"]:
                self.rules.setdefault(name, []).append(rule)
        if profile["defaultAction"] != "SCMP_ACT_ERRNO":
            raise ValueError("containerd's profile has a new default action")

    def decide(self, name, argument):
        for rule in self.rules.get(name, []):
            conditions = rule.get("args") or []
            if any(c["index"] != 0 for c in conditions):
                raise ValueError(f"{name}: a condition on another argument")
            if all(condition_holds(c, argument) for c in conditions):
                if rule["action"] == "SCMP_ACT_ALLOW":
                    return ALLOW
                return ENOSYS if rule.get("errnoRet") == 38 else EPERM
        return EPERM


def print_profile(machine):
    """As the Go program says. containerd's package decides by the machine it is built for, so the program runs
    with a copy of it that has the machine's name in place."""
    with tempfile.TemporaryDirectory() as work:
        program = pathlib.Path(work) / "containerd"
        shutil.copytree(HERE / "containerd", program)
        # (Not `go list`: where the module was never asked for it names no folder.)
        module = json.loads(subprocess.run(
            ["go", "mod", "download", "-json", "github.com/containerd/containerd/v2"],
            cwd=program, capture_output=True, text=True, check=True).stdout)
        source = (pathlib.Path(module["Dir"]) / "contrib/seccomp/seccomp_default.go").read_text()
        (program / "seccomp").mkdir()
        (program / "seccomp/default.go").write_text(
            source.replace("runtime.GOARCH", f'"{GOARCH[machine]}"') + "\nvar _ = runtime.GOARCH\n")
        main = program / "main.go"
        main.write_text(main.read_text().replace("github.com/containerd/containerd/v2/contrib/seccomp",
                                                 "holdfast.dev/tests/security/seccomp/containerd/seccomp"))
        return subprocess.run(["go", "run", ".", *["CAP_" + c for c in CAPABILITIES]], cwd=program,
                              capture_output=True, text=True, check=True).stdout


def profile_of(machine, write):
    kept = HERE / f"containerd/profile.{machine}.json"
    if shutil.which("go"):
        text = print_profile(machine)
        if write:
            kept.write_text(text)
        elif text != kept.read_text():
            raise SystemExit(f"{kept.name} is not what the Go program prints: compare.py BIN_DIR --write, and review")
    return json.loads(kept.read_text())


def differences(bin_dir, write):
    """(architecture, call, arguments, ours, theirs) -> for which capabilities, and how many were compared."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_syscall_resolve_num_arch.restype = ctypes.c_void_p
    library.seccomp_syscall_resolve_num_arch.argtypes = [ctypes.c_uint32, ctypes.c_int]
    found, compared = {}, 0
    sets = {"": 0, **{c: 1 << i for i, c in enumerate(CAPABILITIES)}}
    profiles = {machine: profile_of(machine, write) for machine in GOARCH}
    for label, (machine, arch) in ARCHITECTURES.items():
        programs = our_programs(bin_dir, machine, sets.values())
        calls = [(n, name_of(library, arch, n)) for n in NUMBERS]
        for capability, mask in sets.items():
            theirs = Profile(profiles[machine], capability)
            for number, name in calls:
                for argument in ARGUMENTS.get(name, ELSEWHERE):
                    compared += 1
                    mine = evaluate(programs[mask], arch, number, argument)
                    other = theirs.decide(name, argument)
                    if mine != other:
                        key = (label, name or "(none)", mine, other)
                        found.setdefault(key, {}).setdefault(capability or "-", set()).add(
                            argument if name in ARGUMENTS else number)
    return found, compared


def lines_of(found):
    for (arch, name, mine, other), by_capability in sorted(found.items()):
        groups = {}
        for capability, values in by_capability.items():
            groups.setdefault(tuple(sorted(values)), []).append(capability)
        for values, capabilities in sorted(groups.items()):
            whose = "every" if len(capabilities) == len(CAPABILITIES) + 1 else ",".join(capabilities)
            if len(capabilities) == len(CAPABILITIES):
                whose = "all-but-" + ",".join({"-", *CAPABILITIES} - set(capabilities))
            yield f"{arch} {name} {ranges(values)} {mine} {other} {whose}"


def ranges(values):
    parts, first, last = [], None, None
    for value in [*values, None]:
        if first is not None and value == last + 1:
            last = value
            continue
        if first is not None:
            parts.append(hex(first) if first == last else f"{first:#x}-{last:#x}")
        first = last = value
    return ",".join(parts)


def main():
    bin_dir = pathlib.Path(sys.argv[1])
    name = "seccomp.DifferencesFromContainerdAreTheReviewedOnes"
    print(f"[ RUN      ] {name}")
    found, compared = differences(bin_dir, "--write" in sys.argv)
    lines = set(lines_of(found))
    reviewed = {line.partition("#")[0].strip() for line in (HERE / "reviewed.txt").read_text().splitlines()} - {""}
    for line in sorted(lines - reviewed):
        print(f"not reviewed: {line}")
    for line in sorted(reviewed - lines):
        print(f"reviewed, and no longer so: {line}")
    print(f"{compared} decisions compared, {len(lines)} differences, {len(reviewed)} reviewed")
    print(f"[{'       OK ' if lines == reviewed else '  FAILED  '}] {name} (0 ms)")
    return 0 if lines == reviewed else 1


if __name__ == "__main__":
    sys.exit(main())
