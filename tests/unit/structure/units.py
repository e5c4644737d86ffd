#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the systemd units, and quickstart in their place, must and must not say: units.py DIR.

The keeper is the parent of every container, which inherits what its unit sets. The agent mounts for
pods, so its unit may not have a mount namespace, which most sandbox options make.
Source: systemd.exec(5). quickstart's log must not lie where the agent mounts its run directory.
"""
import pathlib
import re
import sys

# Each makes a mount namespace, or hides from the agent what its pods use.
MOUNT_NAMESPACE = {
    "BindPaths", "BindReadOnlyPaths", "DynamicUser", "ExecPaths", "InaccessiblePaths", "MountAPIVFS",
    "MountFlags", "NoExecPaths", "PrivateDevices", "PrivateMounts", "PrivateTmp", "ProcSubset",
    "ProtectControlGroups", "ProtectHome", "ProtectKernelLogs", "ProtectKernelModules",
    "ProtectKernelTunables", "ProtectProc", "ProtectSystem", "ReadOnlyPaths", "ReadWritePaths",
    "RootDirectory", "RootImage", "TemporaryFileSystem"}
# Each is inherited over fork and execve.
INHERITED = {
    "AmbientCapabilities", "AppArmorProfile", "CapabilityBoundingSet", "IPCNamespacePath", "LimitCORE",
    "LockPersonality", "MemoryDenyWriteExecute", "NetworkNamespacePath", "NoNewPrivileges", "PrivateIPC",
    "PrivateNetwork", "PrivateUsers", "ProtectClock", "ProtectHostname", "RestrictAddressFamilies",
    "RestrictFileSystems", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "SecureBits",
    "SELinuxContext", "SmackProcessLabel", "SystemCallArchitectures", "SystemCallFilter", "SystemCallLog"}
# The agent unpacks images, whose programs may be set-user-ID, by a child of its own.
BREAKS_IMAGES = {"RestrictSUIDSGID"}

NEVER = {"holdfast-keeper.service": MOUNT_NAMESPACE | INHERITED,
         "holdfastd.service": MOUNT_NAMESPACE | BREAKS_IMAGES}
ALWAYS = {"holdfast-keeper.service": {("KillMode", "process"), ("OOMScoreAdjust", "-999")},
          "holdfastd.service": {("KillMode", "process"), ("OOMScoreAdjust", "-999"), ("LimitCORE", "0"),
                                ("NoNewPrivileges", "yes")}}


def settings(path):
    lines = path.read_text().splitlines()
    return {tuple(part.strip() for part in line.split("=", 1))
            for line in lines if "=" in line and not line.startswith("#")}


def violations(folder):
    for name, never in NEVER.items():
        found = settings(folder / name)
        for key, value in sorted(found):
            if key in never:
                yield f"{name}: {key}={value} reaches containers or hides mounts of pods"
        for key, value in sorted(ALWAYS[name] - found):
            yield f"{name}: {key}={value} is missing"


def hidden_logs(quickstart):
    text = quickstart.read_text()
    logs = re.findall(r'>> ?"?(\S*log\S*?)"? 2>&1', text) + re.findall(r"^log=(\S+)", text, re.MULTILINE)
    run = re.search(r"^run=(\S+)", text, re.MULTILINE).group(1)
    if len(logs) < 2:
        yield "quickstart: where does the agent's log go?"
    for log in logs:
        if log.startswith((run + "/", "$run/")):
            yield f"quickstart: the log {log} is hidden by what the agent mounts at {run}"


def main():
    folder = pathlib.Path(sys.argv[1])
    found = [*violations(folder), *hidden_logs(folder.parent / "quickstart")]
    print("\n".join(found) if found else "units hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
