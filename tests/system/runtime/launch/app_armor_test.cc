// SPDX-License-Identifier: Apache-2.0
// AppArmor profiles, where the kernel has AppArmor and the node its parser.
#include <cstdio>

#include "runtime/gather/app_armor.h"
#include "runtime/gather/prepare.h"
#include "tests/system/runtime/launch/harness.h"

namespace holdfast::runtime {
namespace {

using State = LaunchOutcome::State;

class AppArmorTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped()) return;
    if (!std::filesystem::exists("/sys/kernel/security/apparmor/profiles")) {
      GTEST_SKIP() << "kernel lacks AppArmor";
    }
    name_ = "holdfast test " + std::to_string(::getpid());
    FILE* parser = ::popen("apparmor_parser --replace --skip-cache --quiet", "w");
    ASSERT_NE(parser, nullptr);
    std::fprintf(parser,
                 "profile \"%s\" flags=(attach_disconnected) { file, capability, umount,\n"
                 "signal, deny /forbidden r, }\n",
                 name_.c_str());
    if (::pclose(parser) != 0) {
      name_.clear();
      GTEST_SKIP() << "no apparmor_parser";
    }
    WriteFile("image/forbidden", "secret");
  }
  void TearDown() override {
    if (!name_.empty()) {
      EXPECT_TRUE(sys::WriteControlAt(AT_FDCWD, "/sys/kernel/security/apparmor/.remove", name_));
    }
    LaunchTest::TearDown();
  }

  model::LaunchPlan Plan(std::vector<std::string> argv) {
    model::LaunchPlan plan = BasePlan(std::move(argv));
    plan.process.app_armor = name_;
    return plan;
  }
  std::string Label() const { return name_ + " (enforce)\n"; }

  std::string name_;
};

TEST_F(AppArmorTest, AContainerIsUnderItsProfileWhateverElseConfinesIt) {
  for (const bool no_new_privs : {false, true}) {
    for (const uint32_t uid : {0u, 1000u}) {
      model::LaunchPlan plan = Plan({"probe", "cat", "/proc/self/attr/current"});
      plan.process.no_new_privs = no_new_privs;
      plan.process.uid = uid;
      const RunResult run = Run(plan);
      EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
      EXPECT_EQ(run.output, Label()) << no_new_privs << uid;
    }
  }
  model::LaunchPlan free = Plan({"probe", "cat", "/forbidden"});
  EXPECT_EQ(Run(free).output.find("secret"), std::string::npos);
  free.process.app_armor = "";
  free.root.scratch = Path("scratch");
  EXPECT_EQ(Run(free).output, "secret");
}

TEST_F(AppArmorTest, AnExecIsBornUnderIt) {
  Running container = Start(Plan({"probe", "sleep"}));
  ASSERT_EQ(container.outcome.state, State::kRunning);
  model::ExecPlan exec;
  exec.process = Plan({"probe", "cat", "/proc/self/attr/current"}).process;
  exec.shares_pid_namespace = false;
  exec.target = AddFd(UniqueFd(container.launch->DuplicatePidFd().Release()));
  const RunResult run = Run(exec);
  EXPECT_EQ(run.outcome.state, State::kRunning) << Why(run);
  EXPECT_EQ(run.output, Label());
  Stop(container);
}

TEST_F(AppArmorTest, WhatTheKernelHasNotStartsNothing) {
  model::LaunchPlan plan = Plan({"probe", "facts"});
  plan.process.app_armor = "no such profile";
  const RunResult run = Run(plan);
  EXPECT_NE(run.outcome.state, State::kRunning);
  EXPECT_EQ(run.outcome.step, "AppArmor");
  ASSERT_TRUE(run.outcome.error);
  EXPECT_EQ(run.outcome.error->sys_errno(), ENOENT);
  EXPECT_EQ(run.output, "");

  model::ContainerSpec spec;
  spec.id = NewContainerId();
  spec.root_fs.layers = {Path("image")};
  spec.root_fs.scratch = Path("scratch");
  spec.argv = {"probe", "facts"};
  spec.namespaces.network = spec.namespaces.ipc = spec.namespaces.uts = model::NamespaceMode::kHost;
  spec.security.app_armor_profile = name_;
  EXPECT_TRUE(PrepareContainer(spec, context_.facts, {}));
  spec.security.app_armor_profile = "no such profile";
  const auto refused = PrepareContainer(spec, context_.facts, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().phase, StartFailure::Phase::kCreate);
  EXPECT_EQ(refused.error().error.message(), "apparmor profile not found no such profile");
}

}  // namespace
}  // namespace holdfast::runtime
