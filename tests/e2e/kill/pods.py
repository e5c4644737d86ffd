# SPDX-License-Identifier: Apache-2.0
"""The 20 pods of the kill test and what each must show for itself at the end.

writer   numbered lines at full speed: no number missing, none twice, over all rotated files
partial  a line in pieces, with pauses between them: every payload line whole and in order
exiter   ends at a known time with a known code: the code is reported, once
looper   fails at once: in back-off most of the time, its restarts are counted, never lost
sleeper  does nothing: same pid and start time for ever
"""
import json

WRITER = 'i=0; while :; do i=$((i+1)); echo "n $i 0123456789 0123456789 0123456789 0123456789"; done'
PARTIAL = ('i=0; while :; do i=$((i+1)); printf "n %d " $i; usleep 3000; printf "middle "; usleep 3000; '
           'echo "end"; done')
SLEEPER = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"


def manifest(name, script, restart="Always"):
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": restart, "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": "test/busybox:latest", "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", script],
            }],
        },
    }


def plan(seconds):
    """name -> (kind, manifest); exiters end spread over `seconds`."""
    pods = {}
    for i in range(4):
        pods[f"writer-{i}"] = ("writer", manifest(f"writer-{i}", WRITER))
    pods["partial-0"] = ("partial", manifest("partial-0", PARTIAL))
    pods["partial-1"] = ("partial", manifest("partial-1", PARTIAL))
    for i in range(6):
        at = 1 + seconds * (i + 1) // 7
        pods[f"exiter-{i}"] = ("exiter", manifest(f"exiter-{i}", f"sleep {at}; exit {10 + i}", "Never"))
    for i in range(2):
        pods[f"looper-{i}"] = ("looper", manifest(f"looper-{i}", "echo once; exit 3"))
    for i in range(6):
        pods[f"sleeper-{i}"] = ("sleeper", manifest(f"sleeper-{i}", SLEEPER))
    return pods


def write_manifests(directory, pods):
    for name, (_, body) in pods.items():
        (directory / f"{name}.json").write_text(json.dumps(body))


def expected_exit(name):
    return 10 + int(name.split("-")[1])
