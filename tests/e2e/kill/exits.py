# SPDX-License-Identifier: Apache-2.0
"""Containers that end at the moment somebody is killed, or while nobody of ours lives, and what is
then known of them."""
import json
import pathlib
import time

import logs
import pods as pod_plan
from machine import cgroups_in, pids_in
from pods import restarts

UNKNOWN = (137, "ContainerStatusUnknown")


def alive(machine, container_id):
    """What /proc says of a container's processes."""
    for cgroup in cgroups_in(machine.container_trees()[0]):
        if cgroup.name == container_id.removeprefix("holdfast://"):
            for pid in pids_in(cgroup):
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
                yield " ".join(stat.split()[:4])


class Exits:
    """The exits of the plan, one after the other. What may be missing of one depends on who died when
    it ended: its code when holder and launcher did, its last words when holder and logger did."""

    def __init__(self, bells):
        self.bells = bells
        self.waiting = pod_plan.exits()
        self.told = []
        self.may_be_unknown = set()
        self.may_be_silent = set()
        self.unknown = self.silent = 0

    def end_one(self, dying=()):
        """`dying`: the roles that are killed about now."""
        exit = self.waiting.pop(0)
        if {"hold", "launch"} <= set(dying):
            self.may_be_unknown.add(exit.file)
        if {"hold", "log"} <= set(dying):
            self.may_be_silent.add(exit.file)
        self.told.append(exit)
        self.bells.ring(exit.file)
        return exit

    def outstanding(self, seen):
        """(exit, status) of those that were told to end and have not, by what is shown."""
        shown = [(e, status_of(seen[e.pod], e.container)) for e in self.told]
        return [(e, status) for e, status in shown if "terminated" not in status["state"]]

    def ended_too_early(self, machine):
        """What is known of those that nobody has told to end, and that do not run."""
        seen = machine.patient_pods()
        for exit in self.waiting:
            status = status_of(seen[exit.pod], exit.container)
            if "running" not in status["state"]:
                yield f"{exit.file}: {json.dumps(status)}"

    def tell_outstanding(self, machine):
        """What is known of each, for a person: its status, and what of it is alive."""
        for exit, status in self.outstanding(machine.patient_pods()):
            yield f"{exit.file}: {json.dumps(status)}, alive {list(alive(machine, status.get('containerID', '')))}"

    def check(self, machine, tally):
        """Returns how many are lost: neither known nor allowed to be unknown."""
        seen = machine.patient_pods()
        lost = 0
        for exit in self.told + self.waiting:
            status = status_of(seen[exit.pod], exit.container)
            ended = status["state"].get("terminated", {})
            got = (ended.get("exitCode"), ended.get("reason"))
            if got == UNKNOWN and exit.file in self.may_be_unknown:
                self.unknown += 1
            elif got != ((exit.code, "Error") if exit in self.told else (None, None)):
                lost += 1
                tally.expect(False, f"{exit.file}: {got}, {json.dumps(status)}")
            tally.expect(status["restartCount"] == 0, f"{exit.file}: {status['restartCount']} restarts")
            if exit in self.told:
                self.check_last_words(machine, tally, seen[exit.pod]["metadata"], exit)
        return lost

    def check_last_words(self, machine, tally, meta, exit):
        told = list(logs.payload_lines(
            machine.logs, f"default_{meta['name']}_{meta['uid']}", exit.container))
        if not told and exit.file in self.may_be_silent:
            self.silent += 1
        else:
            tally.expect(told == [b"over"], f"{exit.file}: last words {told}")


def status_of(pod, container="main"):
    return next(s for s in pod["status"]["containerStatuses"] if s["name"] == container)


class Nobody:
    """Agent, holder, launcher and logger are dead, all at the same time and for a while: containers end
    meanwhile, and a back-off runs out. Then the agent is started, and nothing else."""

    ROLES = ("agent", "hold", "launch", "log")
    CRASHING, ENDING = pod_plan.RETURNERS

    def __init__(self, machine, tally, exits, bells):
        self.machine = machine
        self.tally = tally
        self.exits = exits
        self.bells = bells

    def run(self, how_many):
        """`how_many` exits; returns how many processes were killed."""
        machine = self.machine
        back_off = self.crash_twice()
        seen = machine.patient_pods()
        ending = [(e.pod, e.container) for e in self.exits.waiting[:how_many]] + [(self.ENDING, "main")]
        processes = {key: machine.first_process(seen[key[0]], key[1]) for key in ending}
        killed = machine.end_all()
        for _ in range(how_many):
            self.exits.end_one(self.ROLES)
        self.bells.ring(self.ENDING)
        machine.wait_alone("containers ended", lambda: not any(map(machine.is_alive, processes.values())))
        machine.wait_alone("the back-off is over", lambda: time.time() > back_off + 1)
        self.tally.expect(not machine.anybody(), f"somebody lives: {machine.anybody()}")
        machine.wait("the returners run again", self.all_returned, 60)
        self.check_returners()
        return killed

    def crash_twice(self):
        """The first restart is at once, the second waits. Returns when it may happen."""
        for times in (1, 2):
            self.machine.wait(f"{self.CRASHING} runs", lambda t=times: self.runs(self.CRASHING, t - 1))
            self.bells.ring(self.CRASHING)
        def waits():
            state = status_of(self.machine.pods()[self.CRASHING])["state"]
            return state.get("waiting", {}).get("reason") == "CrashLoopBackOff"
        self.machine.wait(f"{self.CRASHING} is in back-off", waits)
        return time.time() + 10

    def runs(self, name, count):
        pod = self.machine.pods()[name]
        return "running" in status_of(pod)["state"] and restarts(pod) == count

    def all_returned(self):
        return self.runs(self.CRASHING, 2) and self.runs(self.ENDING, 1)

    def check_returners(self):
        """Each run began once, as far as its log is kept (the run before the present one), and the last
        of each ended as it did or as nobody saw."""
        seen = self.machine.patient_pods()
        for name, count in ((self.CRASHING, 2), (self.ENDING, 1)):
            meta = seen[name]["metadata"]
            told = list(logs.payload_lines(self.machine.logs, f"default_{meta['name']}_{meta['uid']}"))
            self.tally.expect(told == [b"begin"] * 2, f"{name}: {told} in the last two of {count + 1} runs")
            last = status_of(seen[name])["lastState"]["terminated"]
            got = (last["exitCode"], last["reason"])
            wanted = [(3, "Error")] + ([UNKNOWN] if name == self.ENDING else [])
            self.tally.expect(got in wanted, f"{name}: last run ended as {got}")
