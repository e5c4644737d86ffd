#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""config.py CONFIG SECCOMP: makes an OCI `spec` start /bin/payload without a terminal, under the seccomp
profile that podman installs (the rows that hold for the default capabilities) and with the same
capabilities as ours."""
import json
import sys

CAPABILITIES = ["CAP_" + name for name in (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP",
    "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE")]
KEYS = ("names", "action", "args", "errnoRet")


def main():
    path, profile = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(profile, encoding="utf-8") as file:
        seccomp = json.load(file)
    rows = []
    for row in seccomp["syscalls"]:
        needs = row.get("includes", {})
        if needs.get("caps") or needs.get("minKernel") or (needs.get("arches") and "amd64" not in needs["arches"]):
            continue
        if row.get("excludes", {}).get("arches") and "amd64" in row["excludes"]["arches"]:
            continue
        if row.get("names"):
            rows.append({k: row[k] for k in KEYS if row.get(k) is not None})
    config["process"]["terminal"] = False
    config["process"]["args"] = ["/bin/payload"]
    config["process"]["capabilities"] = {
        which: CAPABILITIES for which in ("bounding", "effective", "permitted")}
    config["root"]["readonly"] = False
    config["linux"]["seccomp"] = {
        "defaultAction": seccomp["defaultAction"],
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "syscalls": rows,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)


main()
