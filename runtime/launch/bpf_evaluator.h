// SPDX-License-Identifier: Apache-2.0
// Runs a seccomp program in user space: what the kernel would decide for one call.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

struct Evaluation {
  uint32_t action = 0;
  int steps = 0;
};

// nullopt when the program leaves itself, does not end, or holds an instruction it should not.
inline std::optional<Evaluation> Evaluate(std::span<const model::BpfInstruction> program,
                                          const seccomp_data& data) {
  uint32_t a = 0;
  size_t pc = 0;
  for (int steps = 1; pc < program.size(); ++steps) {
    const model::BpfInstruction& i = program[pc++];
    auto jump = [&](bool taken) { pc += taken ? i.jt : i.jf; };
    switch (i.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (i.k % 4 != 0 || i.k + 4 > sizeof data) return std::nullopt;
        std::memcpy(&a, reinterpret_cast<const char*>(&data) + i.k, 4);
        break;
      case BPF_JMP | BPF_JA:
        pc += i.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        jump(a == i.k);
        break;
      case BPF_JMP | BPF_JGE | BPF_K:
        jump(a >= i.k);
        break;
      case BPF_JMP | BPF_JGT | BPF_K:
        jump(a > i.k);
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        jump((a & i.k) != 0);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        a &= i.k;
        break;
      case BPF_RET | BPF_K:
        return Evaluation{i.k, steps};
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace holdfast::runtime
