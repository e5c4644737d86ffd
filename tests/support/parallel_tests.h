// SPDX-License-Identifier: Apache-2.0
// For tests that mostly wait, each in namespaces of its own: a main() that runs every test of the
// program in a process of its own, all at once, and prints what each has to say when it has ended.
// With a filter (or a shard) the program behaves as any other; so it does in the vm tier, which
// always sets one: an emulated machine is too slow for several at once.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace holdfast::test_support {

inline std::vector<std::string> EnabledTests() {
  std::vector<std::string> names;
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const auto& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const std::string test = suite.GetTestInfo(t)->name();
      if (test.find("DISABLED_") == std::string::npos) {
        names.push_back(std::string(suite.name()) + "." + test);
      }
    }
  }
  return names;
}

// Ends with this process.
inline pid_t StartTest(const std::string& program, const std::string& name, FILE* output) {
  const std::string filter = "--gtest_filter=" + name;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::dup2(::fileno(output), STDOUT_FILENO);
  ::dup2(::fileno(output), STDERR_FILENO);
  ::execl(program.c_str(), program.c_str(), filter.c_str(), nullptr);
  ::_exit(127);
}

inline void Print(FILE* output) {
  std::rewind(output);
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, output)) > 0;) {
    std::fwrite(buffer, 1, n, stdout);
  }
  std::fclose(output);
  std::fflush(stdout);
}

// The exit code of the program.
inline int RunTestsInParallel(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const bool all = GTEST_FLAG_GET(filter) == "*" && !GTEST_FLAG_GET(list_tests) &&
                   std::getenv("GTEST_FILTER") == nullptr &&
                   std::getenv("GTEST_TOTAL_SHARDS") == nullptr;
  if (!all) return RUN_ALL_TESTS();
  struct Running {
    std::string name;
    FILE* output;
  };
  std::map<pid_t, Running> running;
  std::vector<std::string> failed;
  for (const std::string& name : EnabledTests()) {
    FILE* output = std::tmpfile();
    const pid_t pid = output == nullptr ? -1 : StartTest("/proc/self/exe", name, output);
    if (pid < 0) {
      std::perror(("start " + name).c_str());
      return 1;
    }
    running[pid] = {name, output};
  }
  while (!running.empty()) {
    int status = 0;
    const auto ended = running.find(::waitpid(-1, &status, 0));
    if (ended == running.end()) continue;
    Print(ended->second.output);
    if (status != 0) failed.push_back(ended->second.name);
    running.erase(ended);
  }
  for (const std::string& name : failed) std::printf("failed: %s\n", name.c_str());
  return failed.empty() ? 0 : 1;
}

}  // namespace holdfast::test_support
