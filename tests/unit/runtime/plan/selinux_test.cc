// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/selinux.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/plan/compile.h"

namespace holdfast::runtime {
namespace {

using model::SelinuxContexts;
using model::SelinuxOptions;

const SelinuxContexts kNode{"system_u:system_r:container_t:s0",
                            "system_u:object_r:container_file_t:s0"};

std::string Compiled(const SelinuxContexts& node, const SelinuxOptions& asked,
                     const std::string& level, bool privileged = false) {
  const auto labels = CompileSelinuxLabels(node, asked, level, privileged);
  return labels ? StrCat(labels->process, " ", labels->mount) : labels.error().message();
}

TEST(SelinuxPlanTest, ContextsAsThePoliciesOfDistributionsHaveThem) {
  const char* text =
      "; a comment = x\n# file = \"x\"\n\nprocess = \"system_u:system_r:container_t:s0\"\n"
      "content = \"system_u:object_r:virt_var_lib_t:s0\"\r\n"
      "  file=system_u:object_r:container_file_t:s0  \nro_file=\"a:b:c\"\nsandbox_lxc_process = "
      "\"d\"\nno equals";
  EXPECT_EQ(ParseSelinuxContexts(text), kNode);
  EXPECT_EQ(ParseSelinuxContexts(""), SelinuxContexts());
  EXPECT_EQ(ParseSelinuxContexts("process=\nfile=\"\"").process, "");
}

TEST(SelinuxPlanTest, ThePolicysNameIsNoPath) {
  EXPECT_EQ(ParseSelinuxType("# SELINUXTYPE=mls\nSELINUX=enforcing\nSELINUXTYPE=default\n"),
            "default");
  for (const char* config :
       {"", "SELINUXTYPE=", "SELINUXTYPE=../..", "SELINUXTYPE=a/b", "SELINUXTYPE=.."}) {
    EXPECT_EQ(ParseSelinuxType(config), "targeted") << config;
  }
}

TEST(SelinuxPlanTest, WhoAsksForNothingGetsThePolicysLabelsWithThePodsLevel) {
  EXPECT_EQ(Compiled(kNode, {}, "s0:c1,c2"),
            "system_u:system_r:container_t:s0:c1,c2 system_u:object_r:container_file_t:s0:c1,c2");
  EXPECT_EQ(Compiled(kNode, {}, "s0:c1,c2", true), " system_u:object_r:container_file_t:s0:c1,c2")
      << "a privileged container's processes have no label of their own";
  EXPECT_EQ(Compiled(kNode, {}, ""), " ") << "the pod was made without SELinux";
  EXPECT_EQ(Compiled(kNode, {"", "", "spc_t", ""}, ""),
            "seLinuxOptions: the pod was made when the node had no labels for containers");
  const SelinuxContexts no_levels{"a:b:process_t", "a:c:file_t"};
  EXPECT_EQ(Compiled(no_levels, {}, ""), "a:b:process_t a:c:file_t");
  EXPECT_EQ(Compiled({}, {}, "s0:c1,c2"), " ");
}

// User and level are its files' too; the type of the files is the policy's.
TEST(SelinuxPlanTest, WhatIsAskedForTakesThePlaceOfThePolicysParts) {
  EXPECT_EQ(Compiled(kNode, {"u", "r", "spc_t", "s0:c7,c8"}, "s0:c1,c2"),
            "u:r:spc_t:s0:c7,c8 u:object_r:container_file_t:s0:c7,c8");
  EXPECT_EQ(Compiled(kNode, {"", "", "container_init_t", ""}, "s0:c1,c2"),
            "system_u:system_r:container_init_t:s0:c1,c2 "
            "system_u:object_r:container_file_t:s0:c1,c2");
}

TEST(SelinuxPlanTest, WhatIsNoLabelIsRefusedByName) {
  for (const char* level : {"s0", "s1:c1", "s0-s1", "s0-s0:c1.c1023", "s0:c1,c2.c3,c1023"}) {
    EXPECT_TRUE(CompileSelinuxLabels(kNode, {"", "", "", level}, "", false)) << level;
  }
  for (const char* level : {"0", "s", "s0:", "s0:c", "s0:c1,", "s0:c12345", "s0:c1..c2", "s0 ",
                            "s10", "s0-s1-s2", "c1,c2", "s0:c1:c2", "s0:c1\"", "SystemLow"}) {
    EXPECT_EQ(Compiled(kNode, {"", "", "", level}, "s0:c1,c2"),
              StrCat("the format of 'level' \"", level, "\" is not correct"));
  }
  for (const char* type : {"a:b", "a b", "a\"", "a,b", "a\nb"}) {
    EXPECT_EQ(Compiled(kNode, {"", "", type, ""}, "s0:c1,c2"),
              StrCat("seLinuxOptions.type \"", type, "\": not a part of an SELinux label"));
  }
  EXPECT_FALSE(CompileSelinuxLabels(kNode, {std::string(256, 'u'), "", "", ""}, "", false));
  EXPECT_NE(Compiled({}, {"", "", "spc_t", ""}, "").find("has no labels for containers"),
            std::string::npos);
  EXPECT_EQ(Compiled({"process", "a:b:c"}, {}, "s0"), "SELinux label \"process\": malformed");
}

class SelinuxLevelTest : public testing::Test {
 protected:
  Result<std::string> Choose(const SelinuxOptions& pod = {}) {
    return ChooseSelinuxLevel(
        node_, pod, [this] { return at_ < random_.size() ? random_[at_++] : 0; },
        [this](const std::string& level) { return taken_.contains(level); });
  }
  SelinuxContexts node_ = kNode;
  std::vector<uint32_t> random_;
  size_t at_ = 0;
  std::set<std::string> taken_;
};

TEST_F(SelinuxLevelTest, TwoCategoriesInTheirOrder) {
  random_ = {1023, 5, 7, 7, 1024 + 3, 4};
  EXPECT_EQ(*Choose(), "s0:c5,c1023");
  EXPECT_EQ(*Choose(), "s0:c3,c4") << "one category twice is no pair";
}

TEST_F(SelinuxLevelTest, NoOtherPodHasThem) {
  random_ = {1, 2, 2, 1, 8, 9};
  taken_ = {"s0:c1,c2"};
  EXPECT_EQ(*Choose(), "s0:c8,c9");
  EXPECT_EQ(*Choose(), "s0:c0,c1") << "chance gave none";
  for (uint32_t low = 0; low < kSelinuxCategories; ++low) {
    for (uint32_t high = low + 1; high < kSelinuxCategories; ++high) {
      taken_.insert(StrCat("s0:c", low, ",c", high));
    }
  }
  taken_.erase("s0:c1022,c1023");
  EXPECT_EQ(*Choose(), "s0:c1022,c1023");
  taken_.insert("s0:c1022,c1023");
  EXPECT_EQ(Choose().error().code(), Code::kResourceExhausted);
}

TEST_F(SelinuxLevelTest, ThePodsOwnOrNone) {
  taken_ = {"s0:c1,c2"};
  EXPECT_EQ(*Choose({"", "", "", "s0:c1,c2"}), "s0:c1,c2") << "asked for, it may be shared";
  EXPECT_EQ(Choose({"", "", "", "c1"}).error().code(), Code::kInvalidArgument);
  node_.process = "a:b:c";
  EXPECT_EQ(*Choose(), "") << "the policy has no levels";
  node_ = {};
  EXPECT_EQ(*Choose(), "");
}

TEST(SelinuxPlanTest, AContainerHasBothLabelsAndAnExecItsProcesses) {
  model::ContainerSpec spec;
  spec.argv = {"a"};
  spec.root_fs = {{"/layer"}, "/scratch"};
  spec.namespaces.network = spec.namespaces.ipc = spec.namespaces.uts = model::NamespaceMode::kHost;
  ContainerInput input;
  input.process.labels = {"u:r:process_t:s0", "u:r:file_t:s0"};
  const auto plan = CompileContainer(spec, sys::HostFacts(), input);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->process.selinux, "u:r:process_t:s0");
  EXPECT_EQ(plan->selinux, "u:r:file_t:s0");
  ExecSpec exec;
  exec.argv = {"b"};
  const auto later = CompileExec(spec, exec, sys::HostFacts(), input.process, 0, false);
  ASSERT_TRUE(later) << later.error().message();
  EXPECT_EQ(later->process.selinux, "u:r:process_t:s0");
}

}  // namespace
}  // namespace holdfast::runtime
