// SPDX-License-Identifier: Apache-2.0
// The cage itself, asked from inside: a child enters it and tries what a taken-over helper would.
#include "runtime/image/unpack/sandbox.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>

#include "tests/system/runtime/image/unpack/layer_fixture.h"

namespace holdfast::runtime::unpack {
namespace {

constexpr int kEntered = 40;
constexpr int kNotEntered = 99;

// How a child ended that entered `cage` with our directory as fd 1 and then did `act`: the exit
// status `act` gave, or minus the signal.
int InCage(Cage cage, const std::string& directory, const std::function<int()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::dup2(fd, 1);
    ::close_range(3, ~0U, 0);
    if (!EnterSandbox(cage, 1)) ::_exit(kNotEntered);
    ::_exit(act());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_F(LayerTest, TheCageHoldsNothingButItsDirectory) {
  EXPECT_EQ(InCage(Cage::kLayer, base_ + "/root",
                   [] {
                     if (::openat(AT_FDCWD, "/etc/passwd", O_RDONLY) >= 0) return 1;
                     if (::openat(AT_FDCWD, "/../canary/file", O_RDONLY) >= 0) return 2;
                     if (::openat(1, "../canary/file", O_RDONLY) >= 0) return 3;
                     if (::openat(1, "../../../../etc/passwd", O_RDONLY) >= 0) return 4;
                     if (::openat(AT_FDCWD, "/proc/self/status", O_RDONLY) >= 0) return 5;
                     if (::openat(1, "mine", O_WRONLY | O_CREAT, 0600) < 0) return 6;
                     return kEntered;
                   }),
            kEntered);
  EXPECT_TRUE(Exists("mine"));
  ExpectCanaryUntouched();
}

TEST_F(LayerTest, OnlyALayerMayHaveOwnersAndNodes) {
  const auto make_node = [] {
    return ::mknodat(1, "null", S_IFCHR | 0666, makedev(1, 3)) == 0 &&
                   ::fchownat(1, "null", 5, 6, AT_SYMLINK_NOFOLLOW) == 0
               ? kEntered
               : 1;
  };
  EXPECT_EQ(InCage(Cage::kLayer, base_ + "/root", make_node), kEntered);
  EXPECT_EQ(Stat("null").st_uid, 5u);
  EXPECT_EQ(InCage(Cage::kArchive, base_ + "/root", make_node), -SIGSYS);
}

TEST_F(LayerTest, CallsOutsideTheListKill) {
  const std::pair<const char*, std::function<int()>> tries[] = {
      {"socket", [] { return ::socket(AF_INET, SOCK_STREAM, 0); }},
      {"fork", [] { return ::fork(); }},
      {"exec", [] { return ::execl("/bin/true", "true", nullptr); }},
      {"kill", [] { return ::kill(1, 0); }},
      {"setuid", [] { return ::setuid(0); }},
      {"mount", [] { return ::mount("none", "/", "tmpfs", 0, nullptr); }},
      {"rename", [] { return ::renameat(1, "a", 1, "b"); }},
  };
  for (const Cage cage : {Cage::kStream, Cage::kArchive, Cage::kLayer}) {
    for (const auto& [name, act] : tries) {
      EXPECT_EQ(InCage(cage, base_ + "/root", act), -SIGSYS) << name;
    }
  }
  EXPECT_EQ(InCage(Cage::kStream, base_ + "/root", [] { return ::openat(1, "x", O_RDONLY); }),
            -SIGSYS);
  // Memory that can be executed.
  EXPECT_EQ(InCage(Cage::kLayer, base_ + "/root",
                   [] {
                     return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
                   }),
            -SIGSYS);
}

TEST_F(LayerTest, TheHelperDiesWithItsParent) {
  int alive[2];  // held by the helper for as long as it lives, never written to
  int ready[2];
  ASSERT_EQ(::pipe2(alive, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    char byte = 0;
    if (::fork() == 0) {
      if (!EnterSandbox(Cage::kStream, -1)) ::_exit(kNotEntered);
      const bool told = ::write(ready[1], &byte, 1) == 1;
      // Blocks: this process holds the writing end itself.
      ::_exit(told && ::read(alive[0], &byte, 1) == 1 ? 1 : 2);
    }
    ::close(alive[1]);
    ::_exit(::read(ready[0], &byte, 1) == 1 ? 0 : 1);
  }
  ::close(alive[1]);
  int status = 0;
  ::waitpid(parent, &status, 0);
  EXPECT_EQ(status, 0) << "the helper entered its cage";
  char byte = 0;
  EXPECT_EQ(::read(alive[0], &byte, 1), 0) << "end of file: nobody holds it any more";
  for (const int fd : {alive[0], ready[0], ready[1]}) ::close(fd);
}

}  // namespace
}  // namespace holdfast::runtime::unpack
