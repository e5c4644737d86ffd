#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests/run says at its end of tests that failed."""
import sys

import reasons
from suite import check, equal, run_tests

PYTHON = """\
1: Test command: /usr/bin/unshare python3 services_test.py
2: [ RUN      ] Other.Fine
1: [ RUN      ] test_first
1: AssertionError: is not the reason of anybody
1: [       OK ] test_first (10 ms)
1: [ RUN      ] test_second
1:   killed there
2: [       OK ] Other.Fine (1 ms)
1: AssertionError: new connection 7: 'timed out', wanted 'a'
1: [  FAILED  ] test_second (3010 ms)
1: [ RUN      ] test_third
1: [       OK ] test_third (1 ms)
1: log of the agent
1/2 Test #1: e2e_services .....................***Failed   12.01 sec
2/2 Test #2: unit_other .......................   Passed    0.01 sec
"""

GOOGLE = """\
7: [ RUN      ] Table.Keeps/3
7: /src/tests/unit/table_test.cc:10: Failure
7: Expected equality of these values:
7:   got
7: [  FAILED  ] Table.Keeps/3, where GetParam() = 4 (0 ms)
7: [  FAILED  ] Table.Keeps/3, where GetParam() = 4
1/1 Test  #7: unit_table .......................***Failed    0.01 sec
"""

KILLED = """\
52: [ RUN      ] Turns.End
52: waiting
1/2 Test #52: unit_turns ...........Subprocess terminated***Exception: 313.96 sec
53: x.cc:3: no tests
2/2 Test #53: e2e_kill .........................***Failed    0.01 sec
"""


def said(text):
    return reasons.summary(reasons.reasons_of("tier", text))


def test_a_python_test_is_told_with_its_error_and_what_was_before(_):
    equal(said(PYTHON), ["FAILED e2e_services: test_second", "    killed there",
                         "  AssertionError: new connection 7: 'timed out', wanted 'a'"], "summary")


def test_a_googletest_case_is_told_from_its_first_failure_on(_):
    equal(said(GOOGLE), ["FAILED unit_table: Table.Keeps/3", "  /src/tests/unit/table_test.cc:10: Failure",
                         "  Expected equality of these values:", "    got"], "summary")


def test_a_program_that_ended_early_is_told_with_its_last_words(_):
    equal(said(KILLED), ["FAILED unit_turns: Turns.End (Exception: 313.96 sec)", "  waiting",
                         "FAILED e2e_kill (Failed 0.01 sec)", "  x.cc:3: no tests"], "summary")


def test_a_log_of_a_step_is_told_by_its_first_error(_):
    lines = [f"line {n}" for n in range(50)] + ["a.cc:1:2: error: no", "  here"] + ["ninja: stopped"] * 30
    out = said("\n".join(lines))
    equal(out[:2], ["FAILED tier", "  line 35"], "the beginning")
    check("  a.cc:1:2: error: no" in out, out)
    equal(len(out), 1 + reasons.BEFORE + reasons.AFTER, "lines")
    equal(said("one\ntwo"), ["FAILED tier", "  one", "  two"], "without any")
    equal(said("[ RUN      ] t\nTimeoutError: x\n[  FAILED  ] t (9 ms)"), ["FAILED tier: t", "  TimeoutError: x"],
          "with tests")


def test_many_share_the_lines_and_long_ones_are_cut(_):
    def failing(number):
        return (f"1: [ RUN      ] t{number}\n" + "1: before\n" * 20 + "1: ValueError: " + "x" * 999 +
                f"\n1: [  FAILED  ] t{number} (1 ms)\n")
    end = "1/1 Test #1: e2e ....***Failed 1 sec\n"
    for count in (1, 3, 20, 40, 41, 500):
        out = said("".join(failing(n) for n in range(count)) + end)
        check(len(out) <= reasons.ALL_LINES, f"{count} tests: {len(out)} lines")
        check(all(len(line) <= reasons.WIDTH for line in out), f"{count} tests: {max(map(len, out))} wide")
        equal(sum(line.startswith("FAILED") for line in out), min(count, 39 if count > 40 else 40), f"of {count}")
        if count <= 20:
            equal(sum("ValueError" in line for line in out), count, f"reasons of {count}")
    equal(out[-1], "and 461 more", "the rest")


def main():
    return 1 if run_tests(None, [(n, t) for n, t in globals().items() if n.startswith("test_")]) else 0


if __name__ == "__main__":
    sys.exit(main())
