/* SPDX-License-Identifier: Apache-2.0 */
/* Says where it was executed from and ends. Without libc: it may be run as an ELF interpreter too.
 */
#include <sys/syscall.h>

static long Call(long number, long a, long b, long c) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#else
#error "no system calls for this architecture"
#endif
}

void _start(void) {
  static const char text[] = "PROOF-FROM-THE-" PLACE "\n";
  Call(SYS_write, 1, (long)text, sizeof text - 1);
  for (;;) Call(SYS_exit_group, 0, 0, 0);
}
