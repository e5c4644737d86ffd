// SPDX-License-Identifier: Apache-2.0
// RuntimeDefault, and the choice between the kinds of profile.
//
// On x86_64 programs for i386 are let in, with their own numbers; x32 is not (its numbers lie above
// the table, so it gives ENOSYS, as a kernel without x32 does). socketcall(2) of i386 stays
// allowed: its arguments lie in memory that a filter cannot read, and 32-bit libcs know no other
// way. The default profiles of containerd and Docker leave the same gap.
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/plan/bpf_tree.h"
#include "runtime/plan/seccomp.h"
#include "runtime/plan/seccomp_table.h"

namespace holdfast::runtime {
namespace {

constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
constexpr uint32_t kCloneNamespaces = 0x7e020000;

// Families that were ways out of containers: kernel crypto, and the hypervisor's sockets.
constexpr uint32_t kFamilyAlg = 38;
constexpr uint32_t kFamilyVsock = 40;
constexpr uint32_t kNewestFamily = 45;  // AF_MCTP; a newer one is refused until it was looked at

// Linux, Linux with 32-bit addresses or old uname, both, and the query.
constexpr uint32_t kPersonalities[] = {0, 0x0008, 0x20000, 0x20008, 0xffffffff};

struct ArchitectureNumbers {
  SeccompMachine machine;
  uint32_t audit_arch;
  int16_t AllowedSyscall::* number;
  uint32_t clone;
  uint32_t clone3;
  uint32_t personality;
  uint32_t socket;
};

constexpr ArchitectureNumbers kArchitectures[] = {
    {SeccompMachine::kX86_64, AUDIT_ARCH_X86_64, &AllowedSyscall::x86_64, 56, 435, 135, 41},
    {SeccompMachine::kX86_64, AUDIT_ARCH_I386, &AllowedSyscall::i386, 120, 435, 136, 359},
    {SeccompMachine::kAarch64, AUDIT_ARCH_AARCH64, &AllowedSyscall::aarch64, 220, 435, 92, 198},
};

model::BpfInstruction JumpIf(uint16_t test, uint32_t value, size_t jump_true) {
  return {static_cast<uint16_t>(BPF_JMP | test | BPF_K), static_cast<uint8_t>(jump_true), 0, value};
}

SyscallVerdict CloneWithoutNamespaces() {
  return {0,
          {BpfLoadArgumentLow(0), JumpIf(BPF_JSET, kCloneNamespaces, 1),
           BpfReturn(SECCOMP_RET_ALLOW), BpfReturn(kRefuse)}};
}

// The kernel takes the family as an int, so only the low half counts; comparing 64 bits would let
// 0x100000026 through.
SyscallVerdict SocketFamilies() {
  return {0,
          {BpfLoadArgumentLow(0), JumpIf(BPF_JEQ, kFamilyAlg, 3), JumpIf(BPF_JEQ, kFamilyVsock, 2),
           JumpIf(BPF_JGT, kNewestFamily, 1), BpfReturn(SECCOMP_RET_ALLOW), BpfReturn(kRefuse)}};
}

SyscallVerdict HarmlessPersonalities() {
  BpfProgram block = {BpfLoadArgumentLow(0)};
  const size_t count = std::size(kPersonalities);
  for (size_t i = 0; i < count; ++i) block.push_back(JumpIf(BPF_JEQ, kPersonalities[i], count - i));
  block.push_back(BpfReturn(kRefuse));
  block.push_back(BpfReturn(SECCOMP_RET_ALLOW));
  return {0, std::move(block)};
}

ArchitectureRules RulesFor(const ArchitectureNumbers& numbers, uint64_t capabilities) {
  const SyscallVerdict allow{SECCOMP_RET_ALLOW, {}};
  ArchitectureRules rules{numbers.audit_arch, {}};
  rules.ranges[0] = {kRefuse, {}};
  rules.ranges[kNewestSyscall + 1] = {kUnknown, {}};
  auto set = [&](const AllowedSyscall& call) {
    const int number = call.*numbers.number;
    if (number >= 0) SetVerdict(rules.ranges, static_cast<uint32_t>(number), allow);
  };
  for (const AllowedSyscall& call : AllowedSyscalls()) set(call);
  for (const PrivilegedSyscall& row : PrivilegedSyscalls()) {
    if ((capabilities >> row.capability & 1) != 0) set(row.call);
  }
  const bool admin = (capabilities >> CAP_SYS_ADMIN & 1) != 0;
  SetVerdict(rules.ranges, numbers.clone, admin ? allow : CloneWithoutNamespaces());
  // Its flags lie in memory: ENOSYS makes libc use clone(2).
  SetVerdict(rules.ranges, numbers.clone3, admin ? allow : SyscallVerdict{kUnknown, {}});
  SetVerdict(rules.ranges, numbers.personality, HarmlessPersonalities());
  SetVerdict(rules.ranges, numbers.socket, SocketFamilies());
  return rules;
}

}  // namespace

std::vector<model::BpfInstruction> DefaultSeccompProgram(uint64_t capabilities,
                                                         SeccompMachine machine) {
  std::vector<ArchitectureRules> rules;
  for (const ArchitectureNumbers& numbers : kArchitectures) {
    if (numbers.machine == machine) rules.push_back(RulesFor(numbers, capabilities));
  }
  return WriteSeccompProgram(rules, SECCOMP_RET_KILL_PROCESS);
}

}  // namespace holdfast::runtime
