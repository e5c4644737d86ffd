# SPDX-License-Identifier: Apache-2.0
"""The 20 pods of the kill test and what each must show for itself at the end.

writer   numbered lines at full speed: no number missing, none twice, over all rotated files
partial  a line in pieces, with pauses between them: every payload line whole and in order
exiter   ends with a known code when its file appears in the `go` folder: the code is reported, and
         its last line is there
looper   fails at once: in back-off most of the time, its restarts are counted, never lost
sleeper  does nothing: same pid and start time for ever
"""
import json

IMAGE = "test/busybox:latest"
WRITER = 'i=0; while :; do i=$((i+1)); echo "n $i 0123456789 0123456789 0123456789 0123456789"; done'
PARTIAL = ('i=0; while :; do i=$((i+1)); printf "n %d " $i; usleep 3000; printf "middle "; usleep 3000; '
           'echo "end"; done')
SLEEPER = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"
EXITERS = 7


def container(name, script, **more):
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never",
            "command": ["/bin/sh", "-c", script], **more}


def manifest(name, containers, **spec):
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "Always", "terminationGracePeriodSeconds": 1,
                 "containers": containers, **spec},
    }


def pod(name, script):
    return manifest(name, [container("main", script)])


def exiter(name, code, go):
    script = f"until [ -e /go/{name} ]; do usleep 50000; done; echo over; exit {code}"
    return manifest(
        name, [container("main", script, volumeMounts=[{"name": "go", "mountPath": "/go"}])],
        restartPolicy="Never", volumes=[{"name": "go", "hostPath": {"path": str(go)}}])


def plan(go):
    """name -> (kind, manifest). `go`: an exiter ends when a file of its name is there."""
    pods = {}
    for i in range(4):
        pods[f"writer-{i}"] = ("writer", pod(f"writer-{i}", WRITER))
    for i in range(2):
        pods[f"partial-{i}"] = ("partial", pod(f"partial-{i}", PARTIAL))
    for i in range(EXITERS):
        pods[f"exiter-{i}"] = ("exiter", exiter(f"exiter-{i}", expected_exit(f"exiter-{i}"), go))
    for i in range(2):
        pods[f"looper-{i}"] = ("looper", pod(f"looper-{i}", "echo once; exit 3"))
    for i in range(5):
        pods[f"sleeper-{i}"] = ("sleeper", pod(f"sleeper-{i}", SLEEPER))
    return pods


def write_manifest(directory, name, body):
    """As a whole or not at all: the agent may read at any moment."""
    new = directory / f".{name}.new"
    new.write_text(json.dumps(body))
    new.rename(directory / f"{name}.json")


def expected_exit(name):
    return 10 + int(name.split("-")[1])
