# SPDX-License-Identifier: Apache-2.0
"""What probed programs wrote down (beat.h), and how late a probe each second came by it."""
import struct

PERIOD = 1_000_000_000
BEAT = struct.Struct("=qq")


def read_beats(file, begin, end):
    """Times in ns of the beats between two moments, in order."""
    return sorted(at for at, _ in BEAT.iter_unpack(file.read_bytes()) if begin <= at < end)


def lateness(times):
    """Of each beat: how long after its moment on the grid of periods that fits all of them, in seconds. A beat that was left
    out moves no other; one that came late and all after it with it (a grid that was given up) are late."""
    if not times:
        return []
    turn, off = 0, [0]
    for before, at in zip(times, times[1:]):
        turn = max(turn + 1, round((at - times[0]) / PERIOD))
        off.append(at - times[0] - turn * PERIOD)
        del before
    return [(one - min(off)) / PERIOD for one in off]
