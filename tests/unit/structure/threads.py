#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""threads.py TOP: each library that starts a thread is linked by a test that runs under ThreadSanitizer (holdfast_test(… TSAN))."""
import pathlib
import re
import sys

STARTS = re.compile(r"\bStartThread\(|\bstd::jthread\b|\bstd::thread\s*[({]")
# Why nothing of these is run under ThreadSanitizer.
LEFT_OUT = {
    "agent_cli": "each thread has one stream of gRPC's, which is compiled without it",
    "runtime_sys_netlink": "a thread that is joined in the statement behind its start",
}


def commands(file, name):
    return [c.split() for c in re.findall(rf"^{name}\(([^)]*)\)", file.read_text(), re.MULTILINE)]


def starting_libraries(top):
    """library -> the file in it that starts a thread"""
    found = {}
    for room in ("agent", "runtime", "netproxy"):
        for file in sorted((top / room).rglob("*.[ch]*")):
            made = file.parent / "CMakeLists.txt"
            if file.suffix not in (".cc", ".h") or not made.exists() or not STARTS.search(file.read_text()):
                continue
            for words in commands(made, "holdfast_library"):
                found.setdefault(words[0], file.relative_to(top))
    return found


def sanitized_libraries(top):
    tests = [words for made in (top / "tests").rglob("CMakeLists.txt") for words in commands(made, "holdfast_test")]
    return {library for words in tests if "TSAN" in words for library in words[words.index("LIBS") + 1:]}


def main():
    top = pathlib.Path(sys.argv[1])
    starting, sanitized = starting_libraries(top), sanitized_libraries(top)
    faults = [f"{file}: starts a thread, and no test with TSAN links {library}"
              for library, file in starting.items() if library not in sanitized and library not in LEFT_OUT]
    faults += [f"{library}: is left out without need" for library in LEFT_OUT if library not in starting or library in sanitized]
    if len(starting) < 15:
        faults.append(f"only {len(starting)} libraries start threads: is the tree read?")
    print("\n".join(faults) or f"{len(starting)} libraries start threads; {len(LEFT_OUT)} of them not under ThreadSanitizer")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
