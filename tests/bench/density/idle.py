#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""idle.py BIN_DIR --json FILE [--pods N] [--seconds S]: processor time of agent and keeper at rest, without pods and with N that
sleep, and how often the agent wakes up: how often one of its threads begins to wait. Besides: what a system call costs on this
machine that follows ten seconds of rest, beside one that follows another."""
import pathlib
import subprocess
import time

from pods import Ours, add_rows, arguments, machine_for_pods

CALM = 30  # seconds; all that a start or a burst leaves to be done is done by then, and nothing tells when


def seconds_used(pids):
    """Processor time, that of threads which ended included: the clock of another process, clock_getcpuclockid(3). The ticks of
    /proc/PID/stat (machine.usage) are too coarse for what rests: six of them in a minute."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def wakeups(pid):
    """{thread: how often it began to wait}"""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        lines = (line.split() for line in (task / "status").read_text().splitlines())
        found[task.name] = next(int(words[1]) for words in lines if words[0] == "voluntary_ctxt_switches:")
    return found


def at_rest(ours, pods, seconds):
    """Rows of what the daemons used in so many seconds, in percent of one processor."""
    time.sleep(CALM)
    daemons = ours.daemons()
    before, woken_before = {name: seconds_used(pids) for name, pids in daemons.items()}, wakeups(ours.machine.agent.pid)
    time.sleep(seconds)  # the span that is measured
    used = {name: (seconds_used(pids) - before[name]) / seconds * 100 for name, pids in daemons.items()}
    woken = sum(count - woken_before.get(thread, 0) for thread, count in wakeups(ours.machine.agent.pid).items()) / seconds
    for name, unit, value, aim in (("idle_cpu", "% of a core", round(sum(used.values()), 4), "<= 0.03"),
                                   ("idle_cpu.agent", "% of a core", round(used["agent"], 4), "-"),
                                   ("idle_wakeups.agent", "1/s", round(woken, 2), "<= 1")):
        yield {"row": f"density.{name}.{pods}pods", "unit": unit, "n": seconds, "ours": {"p50": value}, "aim": aim}


def rested_calls(bin_dir):
    """The row of what bench_rested_limit says."""
    rests, rested, hot = subprocess.run([pathlib.Path(bin_dir) / "bench_rested_limit"], check=True, capture_output=True, text=True).stdout.split()
    return {"row": "density.rested_call", "unit": "us", "n": int(rests), "ours": {"p50": int(rested) / 1000}, "limit": {"p50": int(hot) / 1000},
            "aim": "-"}


def main():
    args = arguments(pods=100, seconds=60)
    with machine_for_pods(args.bin, "idle", args.pods) as (machine, import_image):
        import_image()
        ours = Ours(machine)
        rows = [*at_rest(ours, 0, args.seconds)]
        ours.start(args.pods)
        rows += at_rest(ours, args.pods, args.seconds)
        ours.stop()
        rows.append(rested_calls(args.bin))
        add_rows(args.json, rows)


main()
