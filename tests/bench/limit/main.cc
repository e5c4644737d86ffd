// SPDX-License-Identifier: Apache-2.0
// bench_start_limit DIR CGROUP_PARENT [net] [pooled] [first=N]: the kernel work of a start (pod.h). For each byte on stdin it starts
// /bin/payload of DIR/root/layer once and prints when the payload's main began, less when it was asked, in nanoseconds.
//   net      the pod has a link, addresses and routes
//   pooled   its namespaces (and its link) lie ready by then
//   first=N  its pods are numbered from N; the numbers of two such programs in one network namespace must differ
// bench_start_limit DIR CGROUP_PARENT [net] hold=N: starts N pods that sleep, prints "ready", and keeps them until the
// end of stdin.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/limit/must.h"
#include "tests/bench/limit/pod.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

void ServeStarts(BarePods& pods, int first) {
  constexpr int kAddresses = 20'000;
  char byte = 0;
  for (int count = 0;; ++count) {
    const int number = first + count % kAddresses;
    pods.Prepare(number);
    if (::read(STDIN_FILENO, &byte, 1) != 1) return;
    const long begin = NanosOf(CLOCK_MONOTONIC);
    BarePods::Pod pod = pods.Start(number, {"/bin/payload", nullptr});
    char line[64] = {};
    if (Must(::read(pod.out.get(), line, sizeof line - 1), "payload") == 0)
      Die("the payload said nothing");
    std::printf("%ld\n", std::atol(line) - begin);
    std::fflush(stdout);
    pods.Remove(std::move(pod));
  }
}

void Hold(BarePods& pods, int count) {
  std::vector<BarePods::Pod> all;
  char byte = 0;
  for (int number = 0; number < count; ++number) {
    all.push_back(pods.Start(number, {"/bin/sleep", "100000", nullptr}));
    if (::read(all.back().executed.get(), &byte, 1) != 0) Die("a pod said something");
    all.back().executed.Reset();  // nobody keeps it for a pod
  }
  std::printf("ready\n");
  std::fflush(stdout);
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
  for (const BarePods::Pod& pod : all) ::kill(pod.pid, SIGKILL);
  for (BarePods::Pod& pod : all) pods.Remove(std::move(pod));
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;  // NOLINT(google-build-using-namespace)
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: bench_start_limit DIR CGROUP_PARENT [net] [pooled] [first=N|hold=N]\n");
    return 2;
  }
  PodKind kind;
  int hold = 0, first = 0;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    kind.network = kind.network || word == "net";
    kind.pooled = kind.pooled || word == "pooled";
    if (word.starts_with("hold=")) hold = std::atoi(word.c_str() + 5);
    if (word.starts_with("first=")) first = std::atoi(word.c_str() + 6);
  }
  BarePods pods(argv[1], argv[2], kind);
  if (hold > 0) {
    Hold(pods, hold);
  } else {
    ServeStarts(pods, first);
  }
  return 0;
}
