// SPDX-License-Identifier: Apache-2.0
#include "agent/process_life.h"

#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <string_view>
#include <thread>

#include <spdlog/spdlog.h>

#include "agent/library_threads.h"
#include "holdfast/sys/process.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::duration<unsigned> kTimeToStop{20};
// Above it a block is a mapping of its own, and as much may lie free at the end of a heap.
constexpr int kLargeBlock = 256 << 10;
// Eight per processor otherwise, each with free memory of its own.
constexpr int kHeaps = 4;

// How this process was begun.
char** g_argv = nullptr;
rlimit g_core_limit{};

// Whatever the destructors wait for (a job in the kernel, a thread of a library), the agent goes:
// its state bears being killed at any instruction. A signal handler, hence only write(2) and
// _exit(2).
void EndAtOnce(int) {
  constexpr std::string_view kWords = "holdfastd: stopping took too long, ended as it stood\n";
  (void)!::write(STDERR_FILENO, kWords.data(), kWords.size());
  ::_exit(0);
}

void BeginAnewForALibrary() {
  spdlog::error("a library was refused a thread and cannot go on: beginning anew, pods go on");
  BeginAnew();
}

// One large manifest or image document would else be kept for ever: the C library raises both limits
// to twice the largest block that was ever freed, and malloc_trim() leaves the ends of the threads'
// heaps. mallopt() refuses values out of range only, which these are not.
void ReturnFreedMemory() {
  (void)::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  (void)::mallopt(M_TRIM_THRESHOLD, kLargeBlock);
  (void)::mallopt(M_ARENA_MAX, kHeaps);
}

}  // namespace

void SetUpProcess(char** argv, const rlimit& core_limit) {
  g_argv = argv;
  g_core_limit = core_limit;
  ReturnFreedMemory();
  // BeginAnew() executes a file of another name. It fails for a bad pointer only.
  (void)::prctl(PR_SET_NAME, "holdfastd");
  sys::PreferShortSlices();
  KeepLibraryThreads(BeginAnewForALibrary);
}

void BeginAnew() {
  std::this_thread::sleep_for(kStartRetry);
  // It was ours before, and only the soft limit was lowered: without it the next one would merely leave no core dumps.
  (void)::setrlimit(RLIMIT_CORE, &g_core_limit);
  ::execv("/proc/self/exe", g_argv);
  ::_exit(70);
}

void LimitTimeToStop() {
  struct sigaction action{};
  action.sa_handler = EndAtOnce;
  // Both fail for what is no signal only.
  (void)::sigaction(SIGALRM, &action, nullptr);
  (void)::alarm(kTimeToStop.count());
}

}  // namespace holdfast::agent
