// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/fetch/network_calls.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>

#include "holdfast/base/address_sanitizer.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime::fetch {
namespace {

constexpr std::array kCalls = {
    // bytes on what is open, and the few files of the cage
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
    SCMP_SYS(lseek), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(close), SCMP_SYS(fcntl),
    SCMP_SYS(pipe2), SCMP_SYS(eventfd2), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(ioctl),
    // the network
    SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(getsockname), SCMP_SYS(getpeername),
    SCMP_SYS(setsockopt), SCMP_SYS(getsockopt), SCMP_SYS(sendto), SCMP_SYS(recvfrom),
    SCMP_SYS(sendmsg), SCMP_SYS(recvmsg), SCMP_SYS(sendmmsg), SCMP_SYS(shutdown),
    // memory and threads
    SCMP_SYS(brk), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(futex),
    SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(restart_syscall), SCMP_SYS(exit), SCMP_SYS(exit_group),
    // what the libraries ask about
    SCMP_SYS(getrandom), SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(getpid),
    SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getegid),
    SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(clock_nanosleep)};

#if HOLDFAST_ADDRESS_SANITIZER
constexpr std::array kSanitizerCalls = {SCMP_SYS(sigaltstack), SCMP_SYS(prctl), SCMP_SYS(readlink)};
#else
constexpr std::array<int, 0> kSanitizerCalls = {};
#endif

struct FilterRelease {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};

class Filter {
 public:
  Filter() : context_(::seccomp_init(SCMP_ACT_KILL_PROCESS)) {}

  template <class... Conditions>
  void Rule(uint32_t action, int call, Conditions... conditions) {
    if (context_ == nullptr || status_ != 0) return;
    status_ = ::seccomp_rule_add(context_.get(), action, call, sizeof...(conditions),
                                 scmp_arg_cmp(conditions)...);
  }
  Result<void> Load() {
    if (context_ == nullptr) return Internal("sandbox: seccomp_init");
    if (status_ == 0) status_ = ::seccomp_load(context_.get());
    if (status_ != 0) return Error::FromErrno(-status_, "sandbox: seccomp");
    return {};
  }

 private:
  std::unique_ptr<void, FilterRelease> context_;
  int status_ = 0;
};

constexpr scmp_arg_cmp Equals(unsigned argument, uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}
constexpr scmp_arg_cmp Masked(unsigned argument, uint64_t mask, uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

void AllowSockets(Filter& filter) {
  const int call = SCMP_SYS(socket);
  filter.Rule(SCMP_ACT_ALLOW, call, Equals(0, AF_INET));
  filter.Rule(SCMP_ACT_ALLOW, call, Equals(0, AF_INET6));
  filter.Rule(SCMP_ACT_ALLOW, call, Equals(0, AF_NETLINK), Equals(2, NETLINK_ROUTE));
  // The C library asks for a name service's socket, and goes without.
  filter.Rule(SCMP_ACT_ERRNO(EAFNOSUPPORT), call, Equals(0, AF_UNIX));
  // libcurl wakes its own threads by it.
  filter.Rule(SCMP_ACT_ALLOW, SCMP_SYS(socketpair), Equals(0, AF_UNIX));
}

void AllowMemoryAndThreads(Filter& filter) {
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)}) {
    filter.Rule(SCMP_ACT_ALLOW, call, Masked(2, PROT_EXEC, 0));
  }
  // Threads, no processes. The flags of clone3 cannot be seen: the C library falls back to clone.
  filter.Rule(SCMP_ACT_ALLOW, SCMP_SYS(clone), Masked(0, CLONE_THREAD, CLONE_THREAD));
  filter.Rule(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
}

void AllowReading(Filter& filter) {
  filter.Rule(SCMP_ACT_ALLOW, SCMP_SYS(openat), Masked(2, O_ACCMODE | O_CREAT | O_TRUNC, 0));
  // Not there: the C library goes without.
  filter.Rule(SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(access));
  filter.Rule(SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(faccessat2));
}

}  // namespace

Result<void> ConfineCalls() {
  Filter filter;
  for (const int call : kCalls) filter.Rule(SCMP_ACT_ALLOW, call);
  for (const int call : kSanitizerCalls) filter.Rule(SCMP_ACT_ALLOW, call);
  AllowSockets(filter);
  AllowMemoryAndThreads(filter);
  AllowReading(filter);
  return filter.Load();
}

}  // namespace holdfast::runtime::fetch
