#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file includes what its folder may not know, with file, line and the rule.

include/holdfast/base, model: the standard library and libc only (and each other, downwards).
runtime/, netproxy/: never each other (only include/holdfast), never gRPC, protobuf, spdlog, fmt.
runtime/http, runtime/json: HTTP and JSON as such; know nothing else of the runtime.
runtime/launch and runtime/keeper: no third-party library at all (static, tiny; log alone inflates).
runtime/keeper: client and the processes know common, the processes also process; nobody knows another's room.
agent: no room but an API's and that of storage plugins knows a transport; base, access, events, view, stream, log, objects, probe know what is below them.
Pure folders (decisions, tables, validation): no descriptors, threads or locks.
Between folders includes lead one way: no folder includes another that leads back to it.
agent/cli: no agent code but the codec, of the runtime only the documents of images; containerd: no API either.
Everywhere: a source includes the header of its name before all others (std headers that it says why of excepted), so
that this header is compiled alone; no program is run through a shell (docs/security.md, NE-12); a thread is started by
sys::StartThread only, since std::thread's constructor throws when the kernel refuses one.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SHELL = re.compile(r'\b(?:std::|::)?(system|popen|wordexp)\s*\(\s*[^)\s]|"(?:/usr)?/bin/(?:ba|da)?sh"')
# A thread, named or not, with arguments; std::async that may not do without one.
THREAD = re.compile(r'\bstd::j?thread(?:\s+\w+)?\s*[({]|\b(?:pthread|thrd)_create\s*\(|\bstd::launch::async\b(?! \| std::launch::deferred)')
THREAD_START = ("runtime/sys/thread.cc", "agent/library_threads.cc")  # and the wrapper around libraries' starts
HEAVY = ("grpc", "google/protobuf", "spdlog", "fmt/", "holdfast/v1/", "k8s/")
THIRD_PARTY = HEAVY + ("netlink/", "libmnl", "libnftnl", "seccomp", "archive", "zstd", "openssl",
                       "nlohmann", "simdjson", "boost/", "nghttp2/", "fyaml", "yaml-cpp", "CLI/", "libfyaml")
# How an API is spoken. What it does knows none.
TRANSPORT = ("grpc", "holdfast/v1/")
# What a folder of pure functions has no use for.
EFFECTS = ("holdfast/sys", "unistd.h", "fcntl.h", "sys/", "mutex", "thread", "condition_variable")


def keeper_rooms(*known: str) -> tuple:
    """The rooms of runtime/keeper beside common that one which knows `known` may not include."""
    rooms = {"client", "process", "hold", "launch", "log"} - set(known)
    return tuple(f"runtime/keeper/{room}/" for room in sorted(rooms))


AGENT_ROOMS = ("access", "api", "base", "cli", "cluster", "cni", "config", "csi", "events", "evict", "health", "http", "identity", "image_archives", "image_gc", "images", "kube", "lease", "leftovers", "log",
               "node", "objects", "openssl", "operate", "pod/admit", "pod/decide", "pod/execute", "pod/operate", "pod/spec", "pod/state",
               "probe", "proxy", "report", "routes", "source", "stats", "stream", "view", "volume")


def agent_rooms(*known: str) -> tuple:
    """The rooms of agent that one which knows `known` may not include; no API's library either."""
    return tuple(f"agent/{room}/" for room in AGENT_ROOMS if room not in known) + TRANSPORT


RUNTIME_ROOMS = tuple(f"runtime/{room}/" for room in ("cgroup", "containers", "gather", "image", "keeper", "launch",
                                                      "plan", "state", "sys"))
# Of images all but documents and the digests in them.
IMAGE_WORKS = tuple(f"runtime/image/{room}" for room in (
    "cage/", "content/blob", "content/copy", "content/partial", "content/room", "fetch/", "pull/", "push/", "snapshot/", "store/",
    "unpack/", "wire/"))

# folder prefix -> include prefixes that are forbidden there
RULES = [
    ("include/holdfast/base/", THIRD_PARTY + ("holdfast/model", "holdfast/sys", "holdfast/interfaces",
                                              "runtime/", "netproxy/", "agent/")),
    ("include/holdfast/model/", THIRD_PARTY + ("holdfast/sys", "holdfast/interfaces", "runtime/",
                                               "netproxy/", "agent/")),
    ("include/holdfast/", THIRD_PARTY + ("runtime/", "netproxy/", "agent/")),
    ("runtime/launch/", THIRD_PARTY),
    ("runtime/keeper/common/", THIRD_PARTY + keeper_rooms()),
    ("runtime/keeper/client/", THIRD_PARTY + keeper_rooms("client")),
    ("runtime/keeper/process/", THIRD_PARTY + keeper_rooms("process")),
    ("runtime/keeper/hold/", THIRD_PARTY + keeper_rooms("process", "hold")),
    ("runtime/keeper/launch/", THIRD_PARTY + keeper_rooms("process", "launch")),
    ("runtime/keeper/log/", THIRD_PARTY + keeper_rooms("process", "log")),
    *((f"runtime/{room}/", HEAVY + RUNTIME_ROOMS + ("holdfast/model", "holdfast/interfaces", "netproxy/", "agent/")) for room in ("http", "json")),
    ("runtime/plan/", tuple(effect for effect in EFFECTS if effect not in ("holdfast/sys", "sys/")) +
     ("holdfast/sys/files", "holdfast/sys/mount", "holdfast/sys/process", "runtime/gather/")),
    ("netproxy/table/", EFFECTS),
    ("agent/pod/decide/", EFFECTS),
    ("agent/pod/spec/", EFFECTS),
    ("agent/kube/validation/", EFFECTS),
    ("runtime/image/documents/", HEAVY + IMAGE_WORKS + ("holdfast/sys", "netproxy/", "agent/")),
    ("runtime/", HEAVY + ("netproxy/", "agent/")),
    ("netproxy/", HEAVY + ("runtime/", "agent/")),
    ("agent/base/", agent_rooms("base") + ("k8s/", "google/protobuf")),
    ("agent/cni/", agent_rooms("cni", "base") + ("k8s/", "google/protobuf", "netproxy/", "runtime/")),
    ("agent/openssl/", agent_rooms("openssl") + ("k8s/", "google/protobuf")),
    ("agent/access/", agent_rooms("access", "base") + ("k8s/", "google/protobuf")),
    ("agent/events/", agent_rooms("events", "kube")),
    ("agent/view/", agent_rooms("view", "events", "kube")),
    ("agent/stream/", agent_rooms("stream", "base") + ("k8s/", "google/protobuf")),
    ("agent/http/", agent_rooms("http", "openssl") + ("k8s/", "google/protobuf")),
    ("agent/stats/", agent_rooms("stats", "config", "kube", "view", "pod/state")),
    ("agent/evict/", agent_rooms("evict", "base", "config", "events", "kube", "stats", "view", "pod/decide", "pod/state")),
    ("agent/objects/", agent_rooms("objects", "cluster", "kube") + ("holdfast/sys",)),
    ("agent/probe/", agent_rooms("probe", "base", "events", "kube")),
    ("agent/identity/", agent_rooms("identity", "base", "cluster", "events", "kube", "openssl")),
    ("agent/image_archives/", agent_rooms("image_archives", "events")),
    ("agent/image_gc/", agent_rooms("image_gc", "base", "config", "events")),
    ("agent/log/", agent_rooms("log", "base", "kube", "view", "pod/state")),
    ("agent/csi/", agent_rooms("csi", "kube", "stats", "volume", "pod/state")[:-len(TRANSPORT)] + ("holdfast/v1/",)),
    *((f"agent/{room}/", ("agent/api/",) + TRANSPORT) for room in AGENT_ROOMS if room not in ("api", "cli", "csi")),
    ("agent/cli/containerd/", HEAVY),
    ("agent/cli/", ("agent/pod", "agent/api", "agent/source", "agent/volume", "agent/config", "runtime/http/",
                    "netproxy/") + IMAGE_WORKS + tuple(room for room in RUNTIME_ROOMS if room != "runtime/image/")),
]
FOLDERS = ("include", "runtime", "netproxy", "agent")


def not_own_header_first(name: str, lines: list):
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or (match.group(1) == "<" and ">  // before " in line):
            continue
        if match.group(2) != name[:-len(".cc")] + ".h":
            yield f"{name}:{number}: includes {match.group(2)} before the header of its own name"
        return


def round_trips(includes: dict):
    """Folders that lead back to themselves. `includes`: folder -> {folder that it includes: where}."""
    def way(start: str, end: str):
        came_from, todo = {start: None}, [start]
        while todo:
            folder = todo.pop(0)
            for after in includes.get(folder, {}):
                if after == end:
                    path = [folder]
                    while came_from[path[0]] is not None:
                        path.insert(0, came_from[path[0]])
                    return path + [end]
                if after not in came_from:
                    came_from[after] = folder
                    todo.append(after)
        return None

    told = set()
    for folder in sorted(includes):
        path = way(folder, folder)
        if path is None or told.intersection(path):
            continue
        told.update(path)
        steps = (f"{includes[one][other]} leads from {one} to {other}" for one, other in zip(path, path[1:]))
        yield "folders include each other in a circle: " + "; ".join(steps)


def violations(root: pathlib.Path):
    seen = 0
    includes = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            seen += 1
            name = path.relative_to(root).as_posix()
            if path.suffix == ".cc" and path.with_suffix(".h").exists():
                yield from not_own_header_first(name, path.read_text().splitlines())
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if SHELL.search(line.split("//")[0]):
                    yield f"{name}:{number}: runs a shell; execute the program itself"
                if THREAD.search(line.split("//")[0]) and name not in THREAD_START:
                    yield f"{name}:{number}: starts a thread; use sys::StartThread"
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(2)
                header = target if target.startswith(FOLDERS) else f"include/{target}"
                own, its = name.rpartition("/")[0], header.rpartition("/")[0]
                if own != its and (root / header).is_file():
                    includes.setdefault(own, {}).setdefault(its, f"{name}:{number}")
                for prefix, forbidden in RULES:
                    if name.startswith(prefix) and target.startswith(forbidden):
                        yield f"{name}:{number}: includes {target}, which {prefix} may not know"
                        break
    yield from round_trips(includes)
    if seen < 10:
        yield f"read only {seen} files below {root}: is this the source tree?"


def main() -> int:
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "boundaries hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
