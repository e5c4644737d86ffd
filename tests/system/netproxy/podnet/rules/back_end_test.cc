// SPDX-License-Identifier: Apache-2.0
// Our batches against the kernel and against nft itself: what we send must be what our own printed
// form means to `nft -f`, and nft must be able to list it.
#include "netproxy/podnet/rules/back_end.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "netproxy/podnet/rules/compile.h"

namespace holdfast::netproxy::nft {
namespace {

struct Output {
  int status = -1;
  std::string text;
};

// Runs nft in the calling thread's network namespace; stderr goes into the text as well.
Output Nft(std::vector<std::string> arguments) {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  std::string program = "nft";
  std::vector<char*> argv = {program.data()};
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(writer.get(), STDOUT_FILENO);
    ::dup2(writer.get(), STDERR_FILENO);
    ::execvp("nft", argv.data());
    ::_exit(127);
  }
  writer.Reset();
  Output out;
  out.text = sys::ReadFd(reader.get(), 64 << 20).value();
  int status = 0;
  ::waitpid(pid, &status, 0);
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

IpAddress Ip(const std::string& text) { return IpAddress::Parse(text).value(); }

model::HostPortRow Row(const std::string& host_ip, model::L4Protocol protocol, uint16_t port,
                       const std::string& pod, uint16_t pod_port) {
  return {Ip(host_ip), protocol, port, {Ip(pod), pod_port}};
}

model::ProxyTable Example() {
  model::ProxyTable t;
  t.pod_cidrs = {Cidr::Parse("10.88.0.0/16").value(), Cidr::Parse("fd00:88::/64").value()};
  t.pod_interface_prefix = "hf";
  t.host_ports = {Row("0.0.0.0", model::L4Protocol::kTcp, 8080, "10.88.0.2", 80),
                  Row("0.0.0.0", model::L4Protocol::kUdp, 5353, "10.88.0.3", 53),
                  Row("192.0.2.2", model::L4Protocol::kSctp, 99, "10.88.0.2", 98),
                  Row("::", model::L4Protocol::kTcp, 8080, "fd00:88::2", 80),
                  Row("2001:db8::2", model::L4Protocol::kUdp, 53, "fd00:88::3", 53)};
  return t;
}

class BackEndTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    Fresh();
  }

  // An empty network namespace and a back end in it.
  void Fresh() {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    auto opened = PodRulesBackEnd::Open("holdfast");
    ASSERT_TRUE(opened) << opened.error().message();
    back_end_.emplace(std::move(*opened));
  }

  void Apply(const model::ProxyTable& table) {
    auto done = back_end_->Apply(table);
    ASSERT_TRUE(done) << done.error().message();
  }

  // Every tier: nft prints our rules, as text and as JSON.
  std::string Listing() {
    const Output json = Nft({"-j", "list", "ruleset"});
    EXPECT_EQ(json.status, 0) << json.text;
    const Output text = Nft({"list", "ruleset"});
    EXPECT_EQ(text.status, 0) << text.text;
    return text.text;
  }

  // Our tables in fixed order: a repaired one comes last in the whole listing.
  std::string OurTables() {
    Listing();  // prints at all
    return Nft({"list", "table", "ip", "holdfast"}).text +
           Nft({"list", "table", "ip6", "holdfast"}).text;
  }

  std::string LoadedByNft(const std::string& text) {
    char path[] = "/tmp/holdfast-nft-XXXXXX";
    const UniqueFd fd(::mkstemp(path));
    EXPECT_TRUE(sys::WriteAll(fd.get(), text));
    const Output loaded = Nft({"-f", path});
    ::unlink(path);
    EXPECT_EQ(loaded.status, 0) << loaded.text << text;
    return Listing();
  }

  std::optional<PodRulesBackEnd> back_end_;
};

TEST_F(BackEndTest, KernelHoldsWhatThePrintedTransactionMeansToNft) {
  const Transaction transaction = Compile(Example(), nullptr, "holdfast");
  Apply(Example());
  const std::string ours = Listing();
  EXPECT_NE(ours.find("udp . 5353 : 10.88.0.3 . 53"), std::string::npos) << ours;
  Fresh();
  EXPECT_EQ(LoadedByNft(transaction.ToString()), ours);
}

TEST_F(BackEndTest, ListingLoadsAgainIntoTheSame) {
  Apply(Example());
  const std::string ours = Listing();
  Fresh();
  EXPECT_EQ(LoadedByNft(ours), ours);
}

TEST_F(BackEndTest, ChangeOfElementsGivesTheSameAsAFullLoad) {
  Apply(Example());
  const model::ProxyTable before = Example();
  model::ProxyTable changed = before;
  changed.host_ports.erase(changed.host_ports.begin() + 1);
  changed.host_ports[0].endpoint.ip = Ip("10.88.0.9");
  changed.host_ports.push_back(Row("::", model::L4Protocol::kUdp, 1, "fd00:88::9", 2));
  for (const Operation& o : Compile(changed, &before, "holdfast").operations) {
    EXPECT_TRUE(std::holds_alternative<AddElements>(o.change) ||
                std::holds_alternative<DeleteElements>(o.change))
        << ToString(o);
  }
  Apply(changed);
  const std::string by_steps = Listing();
  Fresh();
  Apply(changed);
  EXPECT_EQ(Listing(), by_steps);
}

TEST_F(BackEndTest, EnsureTouchesNothingThatIsRightAndRepairsTheRest) {
  Apply(Example());
  const std::string right = OurTables();
  EXPECT_EQ(back_end_->Ensure(Example()).value(), false);
  const std::vector<std::vector<std::string>> damages = {
      {"flush", "ruleset"},
      {"delete", "table", "ip", "holdfast"},
      {"flush", "chain", "ip6", "holdfast", "postrouting"},
      {"insert", "rule", "ip", "holdfast", "prerouting", "drop"},
      {"flush", "map", "ip", "holdfast", "host_ports"},
      {"add", "element", "ip", "holdfast", "host_ports", "{", "tcp", ".", "22", ":", "10.88.0.2",
       ".", "22", "}"},
      {"add", "chain", "ip", "holdfast", "foreign"},
  };
  for (const auto& damage : damages) {
    const Output done = Nft(damage);
    ASSERT_EQ(done.status, 0) << done.text;
    EXPECT_NE(OurTables(), right) << damage[0];
    EXPECT_EQ(back_end_->Ensure(Example()).value(), true) << damage[0] << " " << damage[1];
    EXPECT_EQ(OurTables(), right);
    EXPECT_EQ(back_end_->Ensure(Example()).value(), false);
  }
}

TEST_F(BackEndTest, ApplyRepairsWhenTheKernelRefusesTheChange) {
  Apply(Example());
  ASSERT_EQ(Nft({"flush", "ruleset"}).status, 0);
  model::ProxyTable changed = Example();
  changed.host_ports.pop_back();
  Apply(changed);
  EXPECT_EQ(back_end_->Ensure(changed).value(), false);
}

TEST_F(BackEndTest, ForeignTablesStayAndRemoveTakesOursAway) {
  ASSERT_EQ(Nft({"add", "table", "ip", "foreign"}).status, 0);
  ASSERT_EQ(
      Nft({"add", "chain", "ip", "foreign", "c", "{ type filter hook input priority 0; }"}).status,
      0);
  const std::string before = Listing();
  Apply(Example());
  EXPECT_NE(Listing(), before);
  auto removed = back_end_->Remove();
  ASSERT_TRUE(removed) << removed.error().message();
  EXPECT_EQ(Listing(), before);
  EXPECT_TRUE(back_end_->Remove());
}

TEST_F(BackEndTest, FamilyWithoutPodsHasNoTable) {
  Apply(Example());
  model::ProxyTable v4 = Example();
  v4.pod_cidrs.pop_back();
  std::erase_if(v4.host_ports, [](const auto& row) { return row.endpoint.ip.v6; });
  Apply(v4);
  EXPECT_EQ(Listing().find("table ip6"), std::string::npos);
  Apply(Example());
  EXPECT_NE(Listing().find("table ip6"), std::string::npos);
  auto fresh = PodRulesBackEnd::Open("holdfast");  // a restarted agent with another configuration
  EXPECT_EQ(fresh->Ensure(v4).value(), true);
  EXPECT_EQ(Listing().find("table ip6"), std::string::npos);
}

TEST_F(BackEndTest, ThousandsOfElementsFitOneTransaction) {
  model::ProxyTable many = Example();
  many.host_ports.clear();
  for (uint32_t port = 1; port <= 10000; ++port) {
    many.host_ports.push_back(
        Row("::", model::L4Protocol::kTcp, static_cast<uint16_t>(port), "fd00:88::2", 80));
  }
  Apply(many);
  EXPECT_EQ(back_end_->Ensure(many).value(), false);
}

}  // namespace
}  // namespace holdfast::netproxy::nft
