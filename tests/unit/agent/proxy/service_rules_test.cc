// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/fake_service_back_end.h"

namespace holdfast::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What each mode's rules in the "kernel" are, whoever opened it.
struct Kernel {
  std::map<std::string, bool> has;
  std::vector<std::string> history;           // "apply nftables", "remove iptables"
  std::map<std::string, std::string> broken;  // mode -> what its next call answers
};

class ModeBackEnd : public ServiceBackEnd {
 public:
  ModeBackEnd(std::string mode, Kernel& kernel) : mode_(std::move(mode)), kernel_(kernel) {}
  Result<ServiceApplied> Apply(const model::ServiceChange&) override {
    kernel_.has[mode_] = true;
    kernel_.history.push_back("apply " + mode_);
    RETURN_IF_ERROR(Broken());
    return ServiceApplied{};
  }
  Result<uint64_t> Repair() override { return 0; }
  Result<bool> Remove() override {
    RETURN_IF_ERROR(Broken());
    const bool any = std::exchange(kernel_.has[mode_], false);
    kernel_.history.push_back("remove " + mode_);
    return any;
  }
  Result<std::string> Dump() override { return mode_; }

 private:
  Result<void> Broken() {
    const auto found = kernel_.broken.find(mode_);
    if (found == kernel_.broken.end()) return {};
    return Unavailable(found->second);
  }
  std::string mode_;
  Kernel& kernel_;
};

class ServiceRulesTest : public ::testing::Test {
 protected:
  ServiceRulesTest() {
    char path[] = "/tmp/holdfast-rules-XXXXXX";
    directory_ = ::mkdtemp(path);
  }
  ~ServiceRulesTest() override { std::filesystem::remove_all(directory_); }

  std::string Record() const { return directory_ + "/proxy/modes"; }
  std::string Recorded() const {
    std::ifstream file(Record());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Result<std::unique_ptr<ServiceRules>> Open(const std::string& mode) {
    ServiceRulesOptions options;
    options.mode = mode;
    options.record = Record();
    options.open = [this](const std::string& wanted) -> Result<OpenedBackEnd> {
      if (wanted == "none") return NotFound("no program");
      return OpenedBackEnd{std::make_unique<ModeBackEnd>(wanted, kernel_), nullptr};
    };
    options.remove_unopened = [this](const std::string& wanted) -> Result<std::optional<bool>> {
      if (wanted != "none") return std::optional<bool>();
      kernel_.history.push_back("clean none");
      return std::optional(true);
    };
    options.log = [this](const std::string& line) { lines_.push_back(line); };
    return ServiceRules::Open(std::move(options), std::nullopt);
  }
  static model::ServiceChange Everything() {
    model::ServiceChange change;
    change.complete = true;
    return change;
  }

  std::string directory_;
  Kernel kernel_;
  std::vector<std::string> lines_;
};

TEST_F(ServiceRulesTest, AModeThatTheNodeCannotHaveIsAnErrorAtTheStart) {
  EXPECT_EQ(Open("none").error().code(), Code::kNotFound);
}

// The kernel was another one when the mode was in force.
TEST_F(ServiceRulesTest, AModeThatTheNodeCannotHaveAnyMoreIsTakenAwayAllTheSame) {
  std::filesystem::create_directories(directory_ + "/proxy");
  std::ofstream(Record()) << "none\n";
  auto rules = Open("nftables");
  ASSERT_TRUE(rules);
  ASSERT_TRUE((*rules)->Apply(Everything()));
  EXPECT_THAT(kernel_.history, ElementsAre("apply nftables", "clean none"));
  EXPECT_EQ(Recorded(), "nftables\n");
}

TEST_F(ServiceRulesTest, TheNewModeComesBeforeTheOldOneGoes) {
  auto rules = Open("nftables");
  ASSERT_TRUE(rules);
  ASSERT_TRUE((*rules)->Apply(Everything()));
  EXPECT_EQ(Recorded(), "nftables\n");
  (*rules)->SetMode("iptables");
  ASSERT_TRUE((*rules)->Apply(model::ServiceChange()));
  EXPECT_EQ((*rules)->mode(), "nftables") << "a change of some cannot bring a new mode";
  ASSERT_TRUE((*rules)->Apply(Everything()));
  EXPECT_EQ((*rules)->mode(), "iptables");
  EXPECT_EQ((*rules)->Dump().value_or(""), "# proxy mode iptables\niptables");
  EXPECT_THAT(kernel_.history,
              ElementsAre("apply nftables", "apply nftables", "apply iptables", "remove nftables"));
  EXPECT_EQ(Recorded(), "iptables\n");
}

TEST_F(ServiceRulesTest, AModeThatDoesNotWorkLeavesTheOldOneInForce) {
  auto rules = Open("nftables");
  ASSERT_TRUE(rules);
  ASSERT_TRUE((*rules)->Apply(Everything()));
  kernel_.broken["iptables"] = "xtables lock";
  (*rules)->SetMode("iptables");
  ASSERT_TRUE((*rules)->Apply(Everything()));
  EXPECT_EQ((*rules)->mode(), "nftables");
  EXPECT_THAT(lines_, ElementsAre("proxy mode iptables: xtables lock; nftables goes on",
                                  "rules of proxy mode iptables stay: xtables lock"));
  EXPECT_EQ(Recorded(), "iptables\nnftables\n") << "half of its rules may be there";
  kernel_.broken.clear();
  ASSERT_TRUE((*rules)->Repair());
  EXPECT_FALSE(kernel_.has["iptables"]);
  EXPECT_EQ(Recorded(), "nftables\n");
  (*rules)->SetMode("none");
  ASSERT_TRUE((*rules)->Apply(Everything()));
  EXPECT_EQ(lines_.back(), "proxy mode none: no program; nftables goes on");
}

TEST_F(ServiceRulesTest, ALaterAgentTakesAwayWhatAnotherModeLeft) {
  {
    auto rules = Open("iptables");
    ASSERT_TRUE(rules);
    ASSERT_TRUE((*rules)->Apply(Everything()));
  }
  kernel_.history.clear();
  auto rules = Open("nftables");
  ASSERT_TRUE(rules);
  EXPECT_THAT(kernel_.history, IsEmpty()) << "the old rules work until the new ones are there";
  ASSERT_TRUE((*rules)->Apply(Everything()));
  EXPECT_THAT(kernel_.history, ElementsAre("apply nftables", "remove iptables"));
  ASSERT_TRUE((*rules)->Apply(Everything()));
  EXPECT_THAT(kernel_.history, ElementsAre("apply nftables", "remove iptables", "apply nftables"))
      << "once";
}

TEST_F(ServiceRulesTest, RulesOfAModeThatWasNeverOursAreLeftAlone) {
  kernel_.has["iptables"] = true;  // a kube-proxy's
  auto rules = Open("nftables");
  ASSERT_TRUE(rules);
  ASSERT_TRUE((*rules)->Apply(Everything()));
  ASSERT_TRUE((*rules)->Remove());
  EXPECT_TRUE(kernel_.has["iptables"]);
  EXPECT_FALSE(kernel_.has["nftables"]);
  EXPECT_EQ(Recorded(), "");
}

}  // namespace
}  // namespace holdfast::agent
