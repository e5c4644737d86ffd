// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/podnet/kernel_time.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace holdfast::bench {
namespace {

std::map<int, double> Workers() {
  std::map<int, double> used;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm") >> std::ws, name);
    if (!name.starts_with("kworker/u")) continue;
    std::ifstream(entry.path() / "schedstat") >> used[pid];
  }
  return used;
}

double SystemMilliseconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(used.ru_stime.tv_usec) / 1e3;
}

}  // namespace

KernelTime::KernelTime() : workers_(Workers()), calls_(SystemMilliseconds()) {}

double KernelTime::CallMilliseconds() const { return SystemMilliseconds() - calls_; }

double KernelTime::WorkerMilliseconds() const {
  constexpr int kLooks = 40;
  constexpr useconds_t kBetween = 50'000;
  constexpr double kIdle = 0.5;  // milliseconds between two looks
  double before = WorkersSoFar();
  for (int look = 0; look < kLooks; ++look) {
    ::usleep(kBetween);
    const double now = WorkersSoFar();
    if (now - before < kIdle) return now;
    before = now;
  }
  return before;
}

double KernelTime::WorkersSoFar() const {
  double sum = 0;
  for (const auto& [pid, now] : Workers()) {
    const auto known = workers_.find(pid);
    sum += now - (known == workers_.end() ? 0 : known->second);
  }
  return sum / 1e6;
}

}  // namespace holdfast::bench
