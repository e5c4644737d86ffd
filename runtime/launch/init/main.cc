// SPDX-License-Identifier: Apache-2.0
// Process 1 of a pod with shareProcessNamespace: lets the kernel reap orphans and sleeps. It ends
// by SIGKILL only, which ends the whole namespace. No libc: three system calls.
#include <asm/unistd.h>

namespace {

#if defined(__x86_64__)
long Call(long number, long a, long b, long c, long d) {
  long result = 0;
  register long r10 asm("r10") = d;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
               : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
long Call(long number, long a, long b, long c, long d) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  return x0;
}
#else
#error "no system call sequence for this architecture"
#endif

constexpr long kSigChld = 17;
constexpr long kIgnore = 1;  // SIG_IGN
constexpr long kSetName = 15;
constexpr long kSetDumpable = 4;

// struct sigaction of the kernel.
struct Action {
  long handler;
  unsigned long flags;
  long restorer;
  unsigned long mask;
};

}  // namespace

extern "C" [[noreturn]] void _start() {
  // Nobody in the pod may trace a process that was born outside of it.
  Call(__NR_prctl, kSetDumpable, 0, 0, 0);
  Call(__NR_prctl, kSetName, reinterpret_cast<long>("holdfast-init"), 0, 0);
  // An ignored SIGCHLD makes the kernel reap, adopted children included.
  const Action action{kIgnore, 0, 0, 0};
  Call(__NR_rt_sigaction, kSigChld, reinterpret_cast<long>(&action), 0, sizeof action.mask);
  for (;;) Call(__NR_ppoll, 0, 0, 0, 0);
}
