// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/seccomp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "runtime/gather/seccomp.h"
#include "runtime/launch/bpf_evaluator.h"
#include "runtime/launch/filter.h"
#include "runtime/plan/bpf_tree.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/seccomp_table.h"

namespace holdfast::runtime {
namespace {

using testing::HasSubstr;

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kPerm = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kNosys = SECCOMP_RET_ERRNO | ENOSYS;

uint32_t Decide(const BpfProgram& program, uint32_t arch, int number, uint64_t argument = 0) {
  seccomp_data data{};
  data.nr = number;
  data.arch = arch;
  data.args[0] = argument;
  const auto result = Evaluate(program, data);
  EXPECT_TRUE(result.has_value()) << number;
  return result ? result->action : 0xdead;
}

struct Row {
  const char* name;
  int number;
  uint64_t argument;
  uint32_t expected;
};

#ifdef __x86_64__
TEST(DefaultSeccompTest, DecidesByTableOnTheNativeArchitecture) {
  const BpfProgram program = DefaultSeccompProgram(DefaultCapabilities());
  const Row rows[] = {
      {"read", SYS_read, 0, kAllow},
      {"execve", SYS_execve, 0, kAllow},
      {"openat2", SYS_openat2, 0, kAllow},
      {"chroot", SYS_chroot, 0, kAllow},  // CAP_SYS_CHROOT is a default capability
      {"fchmodat2", 452, 0, kAllow},
      {"mount", SYS_mount, 0, kPerm},
      {"unshare", SYS_unshare, 0, kPerm},
      {"setns", SYS_setns, 0, kPerm},
      {"bpf", SYS_bpf, 0, kPerm},
      {"keyctl", SYS_keyctl, 0, kPerm},
      {"add_key", SYS_add_key, 0, kPerm},
      {"userfaultfd", SYS_userfaultfd, 0, kPerm},
      {"io_uring_setup", 425, 0, kPerm},
      {"io_uring_enter", 426, 0, kPerm},
      {"kexec_load", SYS_kexec_load, 0, kPerm},
      {"perf_event_open", SYS_perf_event_open, 0, kPerm},
      {"open_by_handle_at", SYS_open_by_handle_at, 0, kPerm},
      {"syslog", SYS_syslog, 0, kPerm},
      {"move_mount", SYS_move_mount, 0, kPerm},
      {"clone3", 435, 0, kNosys},
      {"clone SIGCHLD", SYS_clone, SIGCHLD, kAllow},
      {"clone threads", SYS_clone, 0x3d0f00, kAllow},
      {"clone NEWUSER", SYS_clone, 0x10000000, kPerm},
      {"clone NEWNS", SYS_clone, 0x00020000, kPerm},
      {"clone NEWNET", SYS_clone, 0x40000000, kPerm},
      {"clone NEWCGROUP", SYS_clone, 0x02000000, kPerm},
      {"socket unix", SYS_socket, 1, kAllow},
      {"socket inet", SYS_socket, 2, kAllow},
      {"socket netlink", SYS_socket, 16, kAllow},
      {"socket packet", SYS_socket, 17, kAllow},
      {"socket 37", SYS_socket, 37, kAllow},
      {"socket alg", SYS_socket, 38, kPerm},
      {"socket alg, high half set", SYS_socket, 0x100000026, kPerm},
      {"socket 39", SYS_socket, 39, kAllow},
      {"socket vsock", SYS_socket, 40, kPerm},
      {"socket 41", SYS_socket, 41, kAllow},
      {"personality linux", SYS_personality, 0, kAllow},
      {"personality linux32", SYS_personality, 8, kAllow},
      {"personality uname26", SYS_personality, 0x20000, kAllow},
      {"personality query", SYS_personality, 0xffffffff, kAllow},
      {"personality no randomisation", SYS_personality, 0x40000, kPerm},
      {"socket mctp", SYS_socket, 45, kAllow},
      {"socket of a family to come", SYS_socket, 46, kPerm},
      {"socket, negative", SYS_socket, 0xffffffff, kPerm},
      {"lsm_set_self_attr", 460, 0, kAllow},
      {"removexattrat", 466, 0, kAllow},
      {"newer than the table", 467, 0, kNosys},
      {"far newer", 100000, 0, kNosys},
      {"x32 read", 0x40000000, 0, kNosys},
      {"x32 socket alg", 0x40000000 + SYS_socket, 38, kNosys},
      {"minus one", -1, 0, kNosys},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Decide(program, AUDIT_ARCH_X86_64, row.number, row.argument), row.expected)
        << row.name;
  }
}

// runtime/launch/step_birth.cc: else an exec could not be put under it before the pod sees it.
TEST(DefaultSeccompTest, AllowsWhatIsLeftToDoOfABirth) {
  for (const uint64_t capabilities : {uint64_t{0}, DefaultCapabilities(), ~uint64_t{0}}) {
    const BpfProgram program = DefaultSeccompProgram(capabilities);
    EXPECT_TRUE(FilterAllows(program, SYS_clone, CLONE_PARENT | SIGCHLD));
    for (const long call :
         {SYS_capset, SYS_read, SYS_write, SYS_setsid, SYS_ioctl, SYS_exit_group}) {
      EXPECT_TRUE(FilterAllows(program, call)) << call;
    }
  }
  EXPECT_FALSE(FilterAllows(DefaultSeccompProgram(0), SYS_mount));
  EXPECT_FALSE(FilterAllows(DefaultSeccompProgram(0), SYS_clone, CLONE_NEWUSER | SIGCHLD));
  EXPECT_FALSE(FilterAllows({}, SYS_read));
}

TEST(DefaultSeccompTest, ThirtyTwoBitProgramsHaveTheirOwnNumbers) {
  const BpfProgram program = DefaultSeccompProgram(DefaultCapabilities());
  const Row rows[] = {
      {"read", 3, 0, kAllow},
      {"socketcall", 102, 1, kAllow},
      {"socket inet", 359, 2, kAllow},
      {"socket alg", 359, 38, kPerm},
      {"socket vsock", 359, 40, kPerm},
      {"mount", 21, 0, kPerm},
      {"clone NEWUSER", 120, 0x10000000, kPerm},
      {"clone", 120, SIGCHLD, kAllow},
      {"clone3", 435, 0, kNosys},
      {"io_uring_setup", 425, 0, kPerm},
      {"keyctl", 288, 0, kPerm},
      {"unshare", 310, 0, kPerm},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Decide(program, AUDIT_ARCH_I386, row.number, row.argument), row.expected) << row.name;
  }
  EXPECT_EQ(Decide(program, AUDIT_ARCH_ARM, 3), SECCOMP_RET_KILL_PROCESS);
}
#endif

TEST(DefaultSeccompTest, CapabilitiesOpenTheirCalls) {
  const struct {
    int capability;
    int number;
  } rows[] = {{CAP_SYS_ADMIN, SYS_mount},
              {CAP_SYS_ADMIN, SYS_unshare},
              {CAP_SYS_ADMIN, 435 /* clone3 */},
              {CAP_SYS_PTRACE, SYS_kcmp},
              {CAP_SYS_MODULE, SYS_init_module},
              {CAP_SYS_TIME, SYS_settimeofday},
              {CAP_SYS_NICE, SYS_mbind},
              {CAP_SYSLOG, SYS_syslog},
              {CAP_BPF, SYS_bpf},
              {CAP_PERFMON, SYS_perf_event_open},
              {CAP_SYS_BOOT, SYS_reboot},
#ifdef __x86_64__
              {CAP_SYS_RAWIO, SYS_iopl},
#endif
              {CAP_SYS_PACCT, SYS_acct},
              {CAP_SYS_TTY_CONFIG, SYS_vhangup},
              {CAP_DAC_READ_SEARCH, SYS_open_by_handle_at}};
  const uint32_t arch =
#ifdef __x86_64__
      AUDIT_ARCH_X86_64;
#else
      AUDIT_ARCH_AARCH64;
#endif
  const BpfProgram without = DefaultSeccompProgram(0);
  for (const auto& row : rows) {
    const BpfProgram with = DefaultSeccompProgram(1ull << row.capability);
    EXPECT_EQ(Decide(with, arch, row.number), kAllow) << CapabilityName(row.capability);
    EXPECT_NE(Decide(without, arch, row.number), kAllow) << CapabilityName(row.capability);
  }
}

// Every number, one by one, against the table: the tree loses and adds nothing.
TEST(DefaultSeccompTest, TheTreeSaysWhatTheTableSays) {
#ifdef __x86_64__
  const BpfProgram program = DefaultSeccompProgram(0);
  std::map<int, bool> allowed;
  for (const AllowedSyscall& call : AllowedSyscalls()) allowed[call.x86_64] = true;
  for (int number = 0; number <= static_cast<int>(kNewestSyscall); ++number) {
    if (number == SYS_clone || number == 435 || number == SYS_personality || number == SYS_socket) {
      continue;
    }
    EXPECT_EQ(Decide(program, AUDIT_ARCH_X86_64, number), allowed[number] ? kAllow : kPerm)
        << number;
  }
#endif
}

TEST(DefaultSeccompTest, IsSmallAndShallow) {
  const BpfProgram program = DefaultSeccompProgram(DefaultCapabilities());
  EXPECT_LT(program.size(), 260u);  // both architectures
  int deepest = 0;
  for (int number = 0; number < 500; ++number) {
    seccomp_data data{};
    data.nr = number;
#ifdef __x86_64__
    data.arch = AUDIT_ARCH_X86_64;
#else
    data.arch = AUDIT_ARCH_AARCH64;
#endif
    const auto result = Evaluate(program, data);
    ASSERT_TRUE(result.has_value());
    deepest = std::max(deepest, result->steps);
  }
  EXPECT_LE(deepest, 18);
}

// Both ways of writing a tree, with verdicts of every kind at random places.
TEST(BpfTreeTest, EveryNumberGetsItsVerdictWhateverTheSize) {
  for (const uint32_t count : {1u, 2u, 50u, 120u, 400u, 1000u}) {
    SyscallRanges ranges;
    ranges[0] = {kPerm, {}};
    for (uint32_t i = 0; i < count; ++i) {
      SetVerdict(ranges, i * 3 + 1, {kAllow, {}});
      SetVerdict(ranges, i * 3 + 2,
                 i % 7 == 0 ? SyscallVerdict{0, {BpfLoadArgumentLow(0), BpfReturn(kNosys)}}
                            : SyscallVerdict{kNosys, {}});
    }
    const BpfProgram program = WriteSeccompProgram({{AUDIT_ARCH_X86_64, ranges}}, 7);
    for (uint32_t number = 0; number < count * 3 + 5; ++number) {
      const uint32_t expected = number == 0 || number > count * 3 || number % 3 == 0 ? kPerm
                                : number % 3 == 1                                    ? kAllow
                                                                                     : kNosys;
      ASSERT_EQ(Decide(program, AUDIT_ARCH_X86_64, static_cast<int>(number)), expected)
          << number << " of " << count;
    }
    EXPECT_EQ(Decide(program, AUDIT_ARCH_ARM, 1), 7u);
  }
}

class ProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-seccomp-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    ::unlink((directory_ + "/p.json").c_str());
    ::unlink((directory_ + "/fifo").c_str());
    ::rmdir(directory_.c_str());
  }
  std::string Profile(const std::string& text) {
    std::ofstream(directory_ + "/p.json") << text;
    return directory_ + "/p.json";
  }
  std::string directory_;
};

TEST_F(ProfileTest, CompilesAnOciProfile) {
  const auto plan = LoadSeccompProfile(
      Profile(R"({"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_X86_64"],
        "syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO","errnoRet":13},
                    {"names":["personality"],"action":"SCMP_ACT_ERRNO",
                     "args":[{"index":0,"value":8,"op":"SCMP_CMP_EQ"}]}]})"),
      0);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
#ifdef __x86_64__
  EXPECT_EQ(Decide(plan->program, AUDIT_ARCH_X86_64, SYS_mkdir), SECCOMP_RET_ERRNO | EACCES);
  EXPECT_EQ(Decide(plan->program, AUDIT_ARCH_X86_64, SYS_read), kAllow);
  EXPECT_EQ(Decide(plan->program, AUDIT_ARCH_X86_64, SYS_personality, 8), kPerm);
  EXPECT_EQ(Decide(plan->program, AUDIT_ARCH_X86_64, SYS_personality, 0), kAllow);
#endif
}

TEST_F(ProfileTest, AnythingWrongRefusesAndNeverRunsUnconfined) {
  ASSERT_EQ(::mkfifo((directory_ + "/fifo").c_str(), 0600), 0);
  const std::string good = "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}";
  for (const std::string& path :
       {std::string(), std::string("relative.json"), directory_ + "/missing.json", directory_,
        directory_ + "/fifo", directory_ + "/x/../p.json"}) {
    Profile(good);
    EXPECT_FALSE(LoadSeccompProfile(path, 0).has_value()) << path;
  }
  for (
      const char* text :
      {"", "{", "[]", "{}", R"({"defaultAction":"SCMP_ACT_WHATEVER"})",
       R"({"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_PDP11"]})",
       R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["no_such_call"],"action":"SCMP_ACT_ERRNO"}]})",
       R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"],"action":"NO"}]})",
       R"({"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO","args":[{"index":9,"op":"SCMP_CMP_EQ"}]}]})"}) {
    auto program = LoadSeccompProfile(Profile(text), 0);
    EXPECT_FALSE(program.has_value()) << text;
  }
  model::SecuritySpec security;
  security.seccomp = model::SecuritySpec::Seccomp::kLocalhost;
  EXPECT_FALSE(SeccompOf(security, 0).has_value());
}

// Read as absent, each would be a condition, a refusal or an architecture less.
TEST_F(ProfileTest, AFieldOfAnotherKindIsRefused) {
  const auto refusal = [&](const std::string& text) {
    const auto program = LoadSeccompProfile(Profile(text), 0);
    return program ? "read" : program.error().message();
  };
  const auto of_profile = [&](const std::string& field) {
    return refusal(R"({"defaultAction":"SCMP_ACT_ALLOW",)" + field + "}");
  };
  const auto of_group = [&](const std::string& field) {
    return of_profile(R"("syscalls":[{"action":"SCMP_ACT_ERRNO",)" + field + "}]");
  };
  const auto of_argument = [&](const std::string& field) {
    return of_group(R"("names":["mkdir"],"args":[{"op":"SCMP_CMP_EQ",)" + field + "}]");
  };
  EXPECT_THAT(of_profile(R"("syscalls":{})"), HasSubstr("syscalls: not a list of objects"));
  EXPECT_THAT(of_profile(R"("syscalls":["mkdir"])"), HasSubstr("syscalls: not a list of objects"));
  EXPECT_THAT(of_profile(R"("defaultErrnoRet":"13")"), HasSubstr("defaultErrnoRet: not a whole"));
  EXPECT_THAT(of_profile(R"("architectures":"SCMP_ARCH_X86")"), HasSubstr("not a list of strings"));
  EXPECT_THAT(
      of_profile(R"("archMap":[{"architecture":"SCMP_ARCH_X86_64","subArchitectures":[1]}])"),
      HasSubstr("subArchitectures: not a list of strings"));
  EXPECT_THAT(of_group(R"("names":"mkdir")"), HasSubstr("names: not a list of strings"));
  EXPECT_THAT(of_group(R"("name":["mkdir"])"), HasSubstr("name: not a string"));
  EXPECT_THAT(of_group(R"("names":["mkdir"],"errnoRet":-1)"), HasSubstr("errnoRet: not a whole"));
  EXPECT_THAT(of_group(R"("names":["mkdir"],"args":{"index":0})"), HasSubstr("args: not a list"));
  EXPECT_THAT(of_group(R"("names":["mkdir"],"excludes":["CAP_SYS_ADMIN"])"),
              HasSubstr("excludes: not an object"));
  EXPECT_THAT(of_group(R"("names":["mkdir"],"includes":{"caps":"CAP_SYS_ADMIN"})"),
              HasSubstr("caps: not a list of strings"));
  EXPECT_THAT(of_argument(R"("index":0,"value":"8")"), HasSubstr("value: not a whole number"));
  EXPECT_THAT(of_argument(R"("index":0,"valueTwo":1.5)"), HasSubstr("valueTwo: not a whole"));
  EXPECT_THAT(of_argument(R"("index":"0")"), HasSubstr("index: not a whole number"));
  EXPECT_EQ(of_group(R"("names":["mkdir"],"errnoRet":null,"args":null,"includes":null)"), "read");
}

TEST_F(ProfileTest, FlagsSayHowItIsLoaded) {
  const auto with = [&](const std::string& flags) {
    return LoadSeccompProfile(Profile(R"({"defaultAction":"SCMP_ACT_ALLOW")" + flags + "}"), 0);
  };
  for (const char* none : {"", R"(,"flags":null)", R"(,"flags":[])"}) {
    const auto plan = with(none);
    ASSERT_TRUE(plan) << none;
    EXPECT_TRUE(plan->spec_allow && !plan->log) << none;
  }
  const auto log = with(R"(,"flags":["SECCOMP_FILTER_FLAG_TSYNC","SECCOMP_FILTER_FLAG_LOG"])");
  ASSERT_TRUE(log);
  EXPECT_TRUE(log->log && !log->spec_allow);
  const auto both =
      with(R"(,"flags":["SECCOMP_FILTER_FLAG_SPEC_ALLOW","SECCOMP_FILTER_FLAG_LOG"])");
  ASSERT_TRUE(both);
  EXPECT_TRUE(both->log && both->spec_allow);
  const auto other = with(R"(,"flags":["SECCOMP_FILTER_FLAG_NEW_LISTENER"])");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("unknown flag \"SECCOMP_FILTER_FLAG_NEW_LIST"));
  EXPECT_FALSE(with(R"(,"flags":"SECCOMP_FILTER_FLAG_LOG")"));
}

TEST_F(ProfileTest, AnAllowedCallThatTheLibraryDoesNotKnowStaysRefused) {
  auto program = LoadSeccompProfile(Profile(R"({"defaultAction":"SCMP_ACT_ERRNO",
        "syscalls":[{"names":["read","a_call_of_the_future"],"action":"SCMP_ACT_ALLOW"}]})"),
                                    0);
  ASSERT_TRUE(program.has_value()) << program.error().message();
}

}  // namespace
}  // namespace holdfast::runtime
