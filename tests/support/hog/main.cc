// SPDX-License-Identifier: Apache-2.0
// container_hog processes|memory|files: takes as much of it as it can get, and goes on for ever.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

namespace {

constexpr size_t kChunk = 4u << 20;
constexpr useconds_t kPauseMicros = 10'000;

// Every child forks as well; the ends of those that cannot be are nobody's business.
[[noreturn]] void TakeProcesses() {
  ::signal(SIGCHLD, SIG_IGN);
  for (;;) {
    if (::fork() < 0) ::usleep(kPauseMicros);
  }
}

[[noreturn]] void TakeMemory() {
  for (;;) {
    void* chunk =
        ::mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) {
      ::usleep(kPauseMicros);
    } else {
      std::memset(chunk, 1, kChunk);
    }
  }
}

// As many processes as there may be, each with as many open files as it may have.
[[noreturn]] void TakeFiles() {
  while (::fork() > 0) {
  }
  for (;;) {
    if (::open("/dev/null", O_RDONLY) < 0) ::usleep(kPauseMicros);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  std::puts("hog");
  std::fflush(stdout);
  if (std::strcmp(what, "processes") == 0) TakeProcesses();
  if (std::strcmp(what, "memory") == 0) TakeMemory();
  if (std::strcmp(what, "files") == 0) TakeFiles();
  std::fprintf(stderr, "usage: container_hog processes|memory|files\n");
  return 1;
}
