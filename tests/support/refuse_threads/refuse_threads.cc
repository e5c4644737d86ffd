// SPDX-License-Identifier: Apache-2.0
#include "tests/support/refuse_threads/refuse_threads.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace holdfast::test {
namespace {

std::atomic<uint64_t> g_starts{0};
std::atomic<uint64_t> g_first{0};  // 0: none is refused
std::atomic<uint64_t> g_count{0};

// The number of this start, counted in the file: it goes on when the process executes another
// program.
uint64_t FollowFile(const char* name) {
  uint64_t number = 0;
  const int starts = ::open((std::string(name) + ".starts").c_str(),
                            O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (starts >= 0) {
    (void)!::write(starts, "x", 1);
    struct stat info{};
    if (::fstat(starts, &info) == 0) number = static_cast<uint64_t>(info.st_size);
    ::close(starts);
  }
  unsigned long long first = 0;
  unsigned long long count = 0;
  char text[64] = {};
  const int plan = ::open(name, O_RDONLY | O_CLOEXEC);
  if (plan >= 0) {
    (void)!::read(plan, text, sizeof text - 1);
    ::close(plan);
    if (std::sscanf(text, "%llu %llu", &first, &count) != 2) first = count = 0;
  }
  g_first = first;
  g_count = count;
  return number;
}

}  // namespace

void RefuseThreads(uint64_t skip, uint64_t count) {
  g_first = count == 0 ? 0 : g_starts + skip + 1;
  g_count = count;
}

bool IsRefused() {
  const char* name = std::getenv("HOLDFAST_REFUSE_THREADS");
  const uint64_t number = name != nullptr ? FollowFile(name) : ++g_starts;
  const uint64_t first = g_first;
  return first != 0 && number >= first && number - first < g_count;
}

}  // namespace holdfast::test

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  if (holdfast::test::IsRefused()) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}
