// SPDX-License-Identifier: Apache-2.0
// The Service book under kill -9: who was told an address or a port has it for ever, and nobody
// else.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "agent/proxy/service_allocations.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/killed_process.h"

namespace holdfast::agent {
namespace {

constexpr int kBatch = 40;
constexpr int kServices = 400;  // names go round; each is forgotten before it comes again

ServiceRanges Ranges() {
  ServiceRanges ranges;
  ranges.cluster_ips = {*Cidr::Parse("10.96.0.0/16"), *Cidr::Parse("fd00:96::/112")};
  return ranges;
}

corev1::Service NodePortService(const std::string& name) {
  corev1::Service service;
  service.mutable_metadata()->set_namespace_("default");
  service.mutable_metadata()->set_name(name);
  service.mutable_spec()->set_type("NodePort");
  service.mutable_spec()->set_ipfamilypolicy("PreferDualStack");
  auto* port = service.mutable_spec()->add_ports();
  port->set_protocol("TCP");
  port->set_port(80);
  return service;
}

// "10.96.0.7,fd00:96::7,30007".
std::string GivenTo(const corev1::Service& service) {
  std::string out;
  for (const std::string& ip : service.spec().clusterips()) out += ip + ",";
  return out + std::to_string(service.spec().ports(0).nodeport());
}

// Gives and takes for ever, and says what it gave ("has NAME WHAT", when it may be used) and what
// it is about to take ("takes NAME").
TEST(Driver, DISABLED_GivesAndTakes) {
  const char* directory = std::getenv("BOOK_DIRECTORY");
  if (directory == nullptr) GTEST_SKIP() << "only for the tests below";
  const SystemClock clock;
  auto book = ServiceAllocations::Open(std::string(directory) + "/services", Ranges(), clock);
  ASSERT_TRUE(book) << book.error().message();
  std::ofstream said(std::string(directory) + "/said", std::ios::app);
  const int parent = std::stoi(std::getenv("BOOK_PARENT"));
  for (int i = std::stoi(std::getenv("BOOK_FROM")); ::getppid() == parent; i += kBatch) {
    std::vector<corev1::Service> services;
    for (int k = 0; k < kBatch; ++k) {
      const std::string name = StrCat("s", (i + k) % kServices);
      if (book->Knows({"default", name})) {
        said << "takes " << name << std::endl;
        book->Forget({"default", name});
      }
      services.push_back(NodePortService(name));
      ASSERT_TRUE(book->Complete(&services.back()).empty());
    }
    ASSERT_TRUE(book->Sync());
    std::string lines;
    for (const auto& service : services) {
      lines += StrCat("has ", service.metadata().name(), " ", GivenTo(service), "\n");
    }
    said << lines << std::flush;
  }
}

TEST(Driver, DISABLED_GivesToFiveThousand) {
  const char* directory = std::getenv("BOOK_DIRECTORY");
  if (directory == nullptr) GTEST_SKIP() << "only for the tests below";
  const SystemClock clock;
  auto book = ServiceAllocations::Open(std::string(directory) + "/services", Ranges(), clock);
  ASSERT_TRUE(book);
  for (int i = 0; i < 5000; ++i) {
    corev1::Service service = NodePortService(StrCat("s", i));
    service.mutable_spec()->set_type("ClusterIP");
    (void)book->Complete(&service);
  }
  ASSERT_TRUE(book->Sync());
}

class ServiceAllocationsKillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-book-XXXXXX";
    dir_ = ::mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  pid_t StartDriver(const std::string& test, const std::string& pause_at) {
    return test_support::StartDriver(
        test,
        {"BOOK_DIRECTORY=" + dir_, StrCat("BOOK_PARENT=", ::getpid()), StrCat("BOOK_FROM=", from_),
         "HOLDFAST_PAUSE_DIR=" + dir_, "HOLDFAST_PAUSE_AT=" + pause_at});
  }
  // 0 or the signal that ended it.
  static int Kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  // What the driver said counts: who has what, and about whom nothing is known.
  void ReadSaid(std::map<std::string, std::string>& has, std::set<std::string>& open) {
    const std::string path = dir_ + "/said";
    std::ifstream file(path);
    size_t whole = 0;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      whole += line.size() + 1;
      std::istringstream words(line);
      std::string verb, name, what;
      words >> verb >> name >> what;
      has.erase(name);
      open.erase(name);
      if (verb == "has") {
        has[name] = what;
      } else {
        open.insert(name);
      }
    }
    // A line that the kill cut short was not said, and the next life does not go on with it.
    std::filesystem::resize_file(path, whole);
  }
  void Check() {
    std::map<std::string, std::string> has;
    std::set<std::string> open;
    ReadSaid(has, open);
    const SystemClock clock;
    auto book = ServiceAllocations::Open(dir_ + "/services", Ranges(), clock);
    ASSERT_TRUE(book) << book.error().message();
    EXPECT_TRUE(book->TakeWarnings().empty());
    for (const auto& [name, what] : has) {
      ASSERT_TRUE(book->Knows({"default", name})) << name << " lost " << what;
      corev1::Service service = NodePortService(name);
      EXPECT_TRUE(book->Complete(&service).empty());
      EXPECT_EQ(GivenTo(service), what) << name;
    }
    // Nobody has what somebody else has; the book's own check finds it as trouble.
    for (const model::ServiceName& name : book->Names()) {
      corev1::Service service = NodePortService(name.name);
      EXPECT_TRUE(book->Complete(&service).empty()) << name.name;
      from_ = std::max(from_, std::stoi(name.name.substr(1)));
    }
    for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/services")) {
      EXPECT_EQ(entry.path().filename(), "records");
    }
    said_ = has.size();
  }

  std::string dir_;
  int from_ = 0;
  size_t said_ = 0;
};

TEST_F(ServiceAllocationsKillTest, AtEveryPausePoint) {
  for (const char* point :
       {"proxy.records.written:1", "proxy.records.synced:1", "proxy.records.written:5",
        "proxy.records.synced:5", "proxy.records.replaced:1", "proxy.records.replaced:2"}) {
    const pid_t pid = StartDriver("Driver.DISABLED_GivesAndTakes", point);
    const std::string name(point, std::string(point).find(':'));
    const std::string arrived = StrCat(dir_, "/", name, ".", pid);
    ASSERT_TRUE(test_support::Eventually([&] { return std::filesystem::exists(arrived); }))
        << point;
    EXPECT_EQ(Kill(pid), SIGKILL) << point;
    std::filesystem::remove(arrived);
    ASSERT_NO_FATAL_FAILURE(Check()) << point;
  }
  EXPECT_GT(said_, 100u);
}

TEST_F(ServiceAllocationsKillTest, AtRandomMoments) {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<useconds_t> microseconds(0, 20'000);
  const auto said = [this](std::string_view beginning) {
    std::ifstream file(dir_ + "/said");
    size_t count = 0;
    for (std::string line; std::getline(file, line);) count += line.starts_with(beginning) ? 1 : 0;
    return count;
  };
  for (int i = 0; i < 60; ++i) {
    // Every other life gets as far as giving something, on a slow machine too; the others may end earlier.
    const std::string_view beginning = i % 2 == 0 ? "has " : "";
    const size_t before = said(beginning);
    const pid_t pid = StartDriver("Driver.DISABLED_GivesAndTakes", "none");
    ASSERT_TRUE(test_support::Eventually([&] { return said(beginning) > before; }));
    ::usleep(microseconds(random));
    EXPECT_EQ(Kill(pid), SIGKILL) << "it ended by itself";
    ASSERT_NO_FATAL_FAILURE(Check()) << "kill " << i;
  }
  EXPECT_GT(said_, 100u);
}

TEST_F(ServiceAllocationsKillTest, FiveThousandServicesCostOneSync) {
  const pid_t pid = StartDriver("Driver.DISABLED_GivesToFiveThousand", "?");
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  const auto passed = test_support::Passages(dir_);
  int syncs = 0;
  for (const char* point : {"proxy.records.synced", "proxy.records.replaced"}) {
    if (const auto found = passed.find(point); found != passed.end()) syncs += found->second;
  }
  EXPECT_EQ(syncs, 1);
}

}  // namespace
}  // namespace holdfast::agent
