// SPDX-License-Identifier: Apache-2.0
// What the attacker's program can do from inside a container. Each verb prints one finding per line
// and a line "done …" at its end, so that a verb that was cut short is told from one without
// findings; its value is the exit code. Sources: docs/security.md, the rows of its tests.
#pragma once

#include <string>
#include <vector>

namespace attacker {

using Words = std::vector<std::string>;

// calls.cc
int Calls();     // "NAME RESULT" for calls that a default container must not make
int Devices();   // "b|c MAJOR:MINOR RESULT" of nodes that opened after mknod
int Families();  // "FAMILY RESULT" of every socket family
// cgroups.cc
int MountCgroups();  // "HIERARCHY mounted|RESULT [release_agent RESULT]"
// files.cc
int OpenForWriting(const Words& roots);  // every file below that opens for writing
int OpenForReading(const Words& roots);  // every file below that opens for reading
int Descend(const Words& words);         // DIRECTORY DEPTH: directories one in another
int Exchange(const Words& words);        // SECONDS A B: exchanges two names as fast as it can
int Fill(const Words& words);  // FILE MIB: writes until refused; how much there was room for
// frames.cc
int Martian(const Words& words);  // INTERFACE GATEWAY-MAC ADDRESS PORT: UDP to a foreign loopback
int Neighbours(
    const Words& words);  // SECONDS INTERFACE: a datagram each to ever new link-local addresses
// processes.cc
int Fork(const Words& words);      // MOST: children that wait; how many there were
int PushBack(const Words& words);  // TEXT: TIOCSTI and TIOCLINUX on each standard stream
int Identity();                    // ids, groups, capabilities, open descriptors
// objects.cc
int Objects(
    const Words& words);  // KIND MOST: makes so many, says how many there are, and keeps them
// spinner.cc
int Spin(const Words& words);  // SECONDS PATH: reads PATH of the node through processes that enter

// "ok" or the name of errno.
std::string Outcome(long result);

}  // namespace attacker
