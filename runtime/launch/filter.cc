// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/filter.h"

#include <linux/audit.h>

#include "runtime/launch/bpf_evaluator.h"

namespace holdfast::runtime {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "which architecture do seccomp programs see?"
#endif

}  // namespace

bool FilterAllows(std::span<const model::BpfInstruction> program, long call,
                  uint64_t first_argument) {
  seccomp_data data{};
  data.nr = static_cast<int>(call);
  data.arch = kArchitecture;
  data.args[0] = first_argument;
  const auto decision = Evaluate(program, data);
  return decision && (decision->action == SECCOMP_RET_ALLOW || decision->action == SECCOMP_RET_LOG);
}

}  // namespace holdfast::runtime
