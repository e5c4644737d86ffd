# SPDX-License-Identifier: Apache-2.0
"""The 22 pods of the kill test and what each must show for itself at the end.

writer   numbered lines at full speed, as far as its reader allows (logs.Follower); at the end it
         writes down how many: each of them is in its log once, in order, from the first on
partial  the same with a line in pieces, with pauses between them
exiter   six containers; each ends with a known code when its bell rings: the code is reported, and
         its last line is there
looper   fails at once: in back-off most of the time, its restarts are counted, never lost
returner fails when its bell rings, and runs again
sleeper  does nothing: same pid and start time for ever
"""
import json
import os

IMAGE = "test/busybox:latest"
# None of them starts a process while it waits: 50 that do so keep an emulated machine busy.
WRITER = """exec 9<> /go/never
i=0
while :; do
  read limit < /go/NAME.limit
  [ "$limit" != stop ] || break
  [ $i -lt $limit ] || read -t 0.1 nothing <&9
  while [ $i -lt $limit ]; do i=$((i+1)); echo "n $i 0123456789 0123456789 0123456789 0123456789"; done
done
echo $i > /go/NAME.count
exec sleep 1000000"""
PARTIAL = """exec 9<> /go/never
i=0
while read limit < /go/NAME.limit; [ "$limit" != stop ]; do
  [ $i -lt $limit ] || { read -t 0.1 nothing <&9; continue; }
  i=$((i+1)); printf "n %d " $i; read -t 0.003 nothing <&9; printf "middle "; read -t 0.003 nothing <&9; echo "end"
done
echo $i > /go/NAME.count
exec sleep 1000000"""
EXITER = "read told < /go/NAME; echo over; exit CODE"
RETURNER = "echo begin; read told < /go/NAME; exit 3"
RETURNERS = ("returner-0", "returner-1")
SLEEPER = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"
EXITERS = 7
EXITS_OF_EACH = 6


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


def told_by_files(name, scripts, go, **spec):
    """A container for each of `scripts` (name -> script), all with the folder `go`."""
    containers = [container(key, script, volumeMounts=[{"name": "go", "mountPath": "/go"}])
                  for key, script in scripts.items()]
    return manifest(name, containers, volumes=[{"name": "go", "hostPath": {"path": str(go)}}], **spec)


def exiter(number, go):
    scripts = {}
    for exit in [e for e in exits() if e.pod == f"exiter-{number}"]:
        scripts[exit.container] = EXITER.replace("NAME", exit.file).replace("CODE", str(exit.code))
    return told_by_files(f"exiter-{number}", scripts, go, restartPolicy="Never")


class Exit:
    """One container that ends when it is told to."""

    def __init__(self, number):
        self.pod = f"exiter-{number // EXITS_OF_EACH}"
        self.container = f"c{number % EXITS_OF_EACH}"
        self.file = f"{self.pod}.{self.container}"
        self.code = 10 + number


def exits():
    return [Exit(number) for number in range(EXITERS * EXITS_OF_EACH)]


class Bells:
    """A FIFO in the `go` folder for each container that waits for its end. One that rings before the container
    begins is heard all the same."""

    def __init__(self, go):
        self.doors = {}
        for name in [*(e.file for e in exits()), *RETURNERS, "never"]:
            os.mkfifo(go / name)
            # Both ends: what is written waits, though nobody reads.
            self.doors[name] = os.open(go / name, os.O_RDWR | os.O_NONBLOCK)

    def ring(self, name):
        os.write(self.doors[name], b"now\n")


def plan(go):
    """name -> (kind, manifest). `go`: the folder by which the pods are told what to do."""
    pods = {}
    names = [("writer", f"writer-{i}", WRITER) for i in range(4)]
    names += [("partial", f"partial-{i}", PARTIAL) for i in range(2)]
    names += [("returner", name, RETURNER) for name in RETURNERS]
    for kind, name, script in names:
        pods[name] = (kind, told_by_files(name, {"main": script.replace("NAME", name)}, go))
    for i in range(EXITERS):
        pods[f"exiter-{i}"] = ("exiter", exiter(i, go))
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


def restarts(pod):
    return pod["status"]["containerStatuses"][0]["restartCount"]
