// SPDX-License-Identifier: Apache-2.0
// security-seccomp-filter MACHINE CAPABILITIES…: our default program for a machine as uname names
// it and for each set of capabilities (hexadecimal): a line "program SET", then "code jt jf k"
// lines.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/plan/seccomp.h"

int main(int argc, char** argv) {
  using holdfast::runtime::SeccompMachine;
  if (argc < 3) return 2;
  const SeccompMachine machine =
      std::string(argv[1]) == "aarch64" ? SeccompMachine::kAarch64 : SeccompMachine::kX86_64;
  for (int i = 2; i < argc; ++i) {
    std::printf("program %s\n", argv[i]);
    const auto program =
        holdfast::runtime::DefaultSeccompProgram(std::strtoull(argv[i], nullptr, 16), machine);
    for (const auto& step : program) {
      std::printf("%u %u %u %u\n", step.code, step.jt, step.jf, step.k);
    }
  }
  return 0;
}
