// SPDX-License-Identifier: Apache-2.0
// bench_rested_limit: what a small system call costs, of 80 that follow 10 s of rest and of as many right after themselves,
// in nanoseconds of processor time: "RESTS RESTED HOT". What whoever looks at the node every ten seconds has to expect of this machine.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

#include "holdfast/base/unique_fd.h"
#include "tests/bench/limit/must.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

constexpr int kFileCount = 20;
constexpr int kCalls = kFileCount * 4;  // open, two reads, close

// Files of a kind that the agent reads.
void ReadSome() {
  constexpr const char* kFiles[] = {"/proc/meminfo", "/proc/loadavg", "/proc/sys/kernel/pid_max",
                                    "/etc/hosts", "/proc/sys/kernel/threads-max"};
  char buffer[16384];
  for (int i = 0; i < kFileCount; ++i) {
    const UniqueFd file(
        static_cast<int>(Must(::open(kFiles[i % 5], O_RDONLY | O_CLOEXEC), kFiles[i % 5])));
    while (::read(file.get(), buffer, sizeof buffer) > 0) continue;
  }
}

// Of a call.
long CostOf(int times) {
  const long before = NanosOf(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < times; ++i) ReadSome();
  return (NanosOf(CLOCK_PROCESS_CPUTIME_ID) - before) / times / kCalls;
}

}  // namespace
}  // namespace holdfast::bench

int main() {
  using namespace holdfast::bench;  // NOLINT(google-build-using-namespace)
  constexpr int kRests = 6;
  long rested = 0;
  for (int i = 0; i < kRests; ++i) {
    ::sleep(10);  // the rest whose price is measured, as long as the agent's
    rested += CostOf(1) / kRests;
  }
  std::printf("%d %ld %ld\n", kRests, rested, CostOf(1000));
  return 0;
}
