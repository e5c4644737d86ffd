// SPDX-License-Identifier: Apache-2.0
// kill -9 of the process that wires pods: at every pause point, and at thousands of random moments
// on a subnet that is nearly full (FT-35). Afterwards books and kernel agree and nothing is left.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "holdfast/sys/files.h"
#include "tests/support/killed_process.h"
#include "tests/system/netproxy/podnet/driver.h"
#include "tests/system/netproxy/podnet/recorded_pods.h"

namespace holdfast::netproxy {
namespace {

std::vector<std::string> Words(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) {
    if (!word.empty()) out.push_back(word);
  }
  return out;
}

std::string Joined(const std::vector<std::string>& words, const char* separator) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : separator) + w;
  return out.empty() ? "-" : out;
}

std::string Answer(PodNet& net, const std::vector<std::string>& words) {
  const auto text = [](const auto& done) {
    return done ? std::string("ok") : "error " + done.error().message();
  };
  if (words[0] == "ensure") return text(net.Ensure());
  if (words[0] == "teardown") return text(net.Teardown(PodUid(words[1])));
  if (words[0] == "addresses") return "ok " + Joined(net.Addresses(PodUid(words[1])), " ");
  if (words[0] == "setup") {  // setup UID NETNS-PATH HOSTPORT
    auto netns = sys::OpenAt(AT_FDCWD, words[2], O_RDONLY);
    if (!netns) return text(netns);
    PodNetworkRequest request;
    request.uid = PodUid(words[1]);
    request.network_namespace = netns->get();
    const auto port = static_cast<uint16_t>(std::stoi(words[3]));
    if (port != 0) request.host_ports = {{"", port, 53, HostPort::Protocol::kUdp}};
    auto ips = net.Setup(request);
    return ips ? "ok " + Joined(*ips, " ") : text(ips);
  }
  if (words[0] == "ready") {  // ready NETNS-PATH
    auto netns = sys::OpenAt(AT_FDCWD, words[1], O_RDONLY);
    if (!netns) return text(netns);
    auto made = net.MakeReady(netns->get());
    // The round before has made it, and perhaps given it to a pod.
    return !made && made.error().code() == Code::kAlreadyExists ? "ok" : text(made);
  }
  if (words[0] == "audit") {  // audit UID,UID,… | -
    std::vector<PodUid> live;
    for (const std::string& uid : Words(words[1], ',')) live.emplace_back(uid);
    auto found = net.Audit(live, true);
    return found ? StrCat("ok ", found->size()) : text(found);
  }
  return "error unknown command";
}

TEST(Driver, DISABLED_Serve) {
  const char* root = std::getenv("HOLDFAST_DRIVER_ROOT");
  if (root == nullptr) GTEST_SKIP() << "only for the crash tests";
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  model::Instance instance;
  instance.root_dir = root;
  instance.pod_cidrs = Words(std::getenv("HOLDFAST_DRIVER_CIDRS"), ',');
  std::unique_ptr<PodNet> net;
  for (std::string line; std::getline(std::cin, line);) {
    std::string answer;
    if (!net) {
      auto opened = PodNet::Open(instance);
      if (opened) net = std::move(*opened);
      if (!opened) answer = "error " + opened.error().message();
    }
    if (net) answer = Answer(*net, Words(line, ' '));
    answer += "\n";
    ASSERT_EQ(::write(3, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
  }
}

class Crash : public NetFixture {
 protected:
  void SetUp() override {
    NetFixture::SetUp();
    net_.reset();  // the driver owns the address book
  }

  static NsFd Namespace() {
    auto netns = sys::NewNetworkNamespace();
    EXPECT_OK(netns);
    return std::move(*netns);
  }
  // As the driver finds it: it holds no namespace longer than a command takes.
  static std::string PathOf(const NsFd& netns) {
    return StrCat("/proc/", ::getpid(), "/fd/", netns.get());
  }

  static size_t CountInterfaces() {
    auto rtnl = sys::Rtnl::Open();
    const auto links = rtnl->ListLinks();
    return static_cast<size_t>(std::count_if(links->begin(), links->end(), [](const sys::Link& l) {
      return !PodInterface("hf", l).empty();
    }));
  }

  // Waits until the kernel has destroyed the interfaces of dropped namespaces.
  static void WaitForInterfaces(size_t count) {
    for (int i = 0; i < kTimeoutMs && CountInterfaces() != count; ++i) ::usleep(1000);
    EXPECT_EQ(CountInterfaces(), count);
  }

  static bool NothingLiesReady() {
    for (int i = 0; i < kTimeoutMs; ++i, ::usleep(1000)) {
      if (Command("ip -o link").find(" hfp") == std::string::npos) return true;
    }
    return false;
  }

  static void WaitForInterfacesAtMost(size_t count) {
    for (int i = 0; i < kTimeoutMs && CountInterfaces() > count; ++i) ::usleep(1000);
    EXPECT_LE(CountInterfaces(), count);
  }

  static std::set<std::string> AddressesIn(const NsFd& netns) {
    auto rtnl = sys::Rtnl::OpenIn(netns.get());
    auto eth0 = rtnl->GetLink("eth0");
    std::set<std::string> out;
    if (!eth0) return out;
    const auto all = rtnl->ListAddresses();
    for (const sys::Address& a : *all) {
      if (a.link == eth0->index && a.prefix == a.ip.MaxPrefix()) out.insert(a.ip.ToString());
    }
    return out;
  }

  // What an agent does with one pod from nothing to nothing, every pause point on the way.
  // Returns false when the driver stopped at one.
  bool Script(Driver& driver, const NsFd (&ns)[3]) {
    const std::vector<std::string> steps = {
        "ensure",
        StrCat("setup pod ", PathOf(ns[0]), " 5353"),
        StrCat("setup pod ", PathOf(ns[0]), " 5354"),  // other ports
        StrCat("ready ", PathOf(ns[1])),
        StrCat("setup pod ", PathOf(ns[1]), " 5354"),  // the sandbox was made anew
        StrCat("ready ", PathOf(ns[2])),
        StrCat("setup lost ", PathOf(ns[2]), " 0"),
        "audit pod",
        "teardown pod",
        "audit -",
    };
    for (const std::string& step : steps) {
      const std::string answer = driver.Ask(step);
      if (driver.stopped()) return false;
      EXPECT_TRUE(answer.starts_with("ok")) << step << ": " << answer;
    }
    return true;
  }
};

TEST_F(Crash, EveryPausePointIsFollowedByAWorkingStart) {
  const std::string cidrs = "10.88.0.0/29,fd00:88::/64";
  std::vector<std::string> environment = {"HOLDFAST_PAUSE_DIR=" + directory_,
                                          "HOLDFAST_PAUSE_AT=?"};
  // The fixture's rules are for another range: written anew once, and not in what is counted.
  ASSERT_TRUE(Driver(directory_, cidrs).Ask("ensure").starts_with("ok"));
  {
    const NsFd ns[3] = {Namespace(), Namespace(), Namespace()};
    Driver driver(directory_, cidrs, environment);
    ASSERT_TRUE(Script(driver, ns));
  }
  const std::map<std::string, int> passages = test_support::Passages(directory_);
  ASSERT_GE(passages.size(), 18u) << "built without pause points?";

  for (const auto& [name, count] : passages) {
    for (int passage = 1; passage <= std::min(count, 4); ++passage) {
      SCOPED_TRACE(StrCat(name, ":", passage));
      NsFd ns[3] = {Namespace(), Namespace(), Namespace()};
      environment[1] = StrCat("HOLDFAST_PAUSE_AT=", name, ":", passage);
      Driver victim(directory_, cidrs, environment);
      const bool finished = Script(victim, ns);
      victim.Kill();
      // The node's parameters are set at the first passage only, ever.
      if (!name.starts_with("podnet.node.sysctl")) {
        EXPECT_FALSE(finished) << "the point was not reached";
      }
      // A sandbox that was being made ready is no pod's, ever (runtime/containers/sandbox_pool.h).
      if (name == "podnet.ready.veth_added") ns[passage] = Namespace();

      Driver next(directory_, cidrs);
      EXPECT_TRUE(Script(next, ns));
      EXPECT_EQ(next.Ask("audit -"), "ok 0");
      EXPECT_EQ(CountInterfaces(), 0u);
      EXPECT_TRUE(NothingLiesReady());
      EXPECT_TRUE(RecordedPods(directory_).empty());
      EXPECT_EQ(Command("ip route; ip -6 route").find("dev hf"), std::string::npos);
      EXPECT_EQ(Command("nft list map ip holdfast host_ports").find("elements"), std::string::npos);
      Command("nft -j list ruleset");
    }
  }
}

// FT-35: five addresses for pods, at most four pods at a time, kills at random moments.
TEST_F(Crash, NearlyFullSubnetLosesAndDoublesNoAddressUnderRandomKills) {
  const std::string cidrs = "10.88.0.0/29";
  // HOLDFAST_KILLS=1300 makes it ten thousand pods.
  const char* wanted = std::getenv("HOLDFAST_KILLS");
  const int kills = wanted != nullptr ? std::stoi(wanted) : 30;
  constexpr size_t kMaxPods = 4;
  std::mt19937 random(static_cast<unsigned>(::getpid()));
  struct Live {
    NsFd netns;
    std::string ip;  // "" while Setup was not confirmed
  };
  std::map<std::string, Live> pods;
  size_t given = 0;
  size_t serial = 0;
  for (int kill = 0; kill < kills; ++kill) {
    Driver driver(directory_, cidrs);
    std::vector<std::string> uids;
    for (const auto& [uid, live] : pods) uids.push_back(uid);
    ASSERT_EQ(driver.Ask("ensure"), "ok");
    ASSERT_TRUE(driver.Ask("audit " + Joined(uids, ",")).starts_with("ok"));
    std::set<std::string> held;
    for (auto& [uid, live] : pods) {  // every pod that was there has kept its address
      const std::string answer = driver.Ask(StrCat("setup ", uid, " ", PathOf(live.netns), " 0"));
      ASSERT_TRUE(answer.starts_with("ok ")) << answer;
      if (!live.ip.empty()) {
        EXPECT_EQ(answer, "ok " + live.ip);
      }
      live.ip = answer.substr(3);
      EXPECT_TRUE(held.insert(live.ip).second) << live.ip << " given twice";
      EXPECT_EQ(AddressesIn(live.netns), std::set<std::string>{live.ip});
    }
    for (size_t left = 5 + random() % 30; left-- > 0;) {
      if (pods.size() >= kMaxPods || (!pods.empty() && random() % 3 == 0)) {
        const auto victim =
            std::next(pods.begin(), static_cast<std::ptrdiff_t>(random() % pods.size()));
        driver.Send("teardown " + victim->first);
        pods.erase(victim);  // the runtime drops the namespace meanwhile
        if (left > 0) {
          EXPECT_EQ(driver.Receive(), "ok");
        }
        continue;
      }
      const std::string uid = StrCat("pod-", ++serial);
      Live live{Namespace(), ""};
      driver.Send(StrCat("setup ", uid, " ", PathOf(live.netns), " 0"));
      if (left > 0) {
        const std::string answer = driver.Receive();
        if (!answer.starts_with("ok ")) {  // dying namespaces still hold the rest of the range
          EXPECT_NE(answer.find("no IP addresses available"), std::string::npos) << answer;
          ASSERT_EQ(driver.Ask("teardown " + uid), "ok");
          WaitForInterfacesAtMost(pods.size());
          continue;
        }
        live.ip = answer.substr(3);
        for (const auto& [other, l] : pods) EXPECT_NE(l.ip, live.ip) << other;
        ++given;
      }
      pods.insert_or_assign(uid, std::move(live));
    }
    ::usleep(
        static_cast<useconds_t>(random() % 1500));  // the moment of death, not a wait for anything
    driver.Kill();
    WaitForInterfacesAtMost(pods.size());
  }
  std::cout << given << " pods, " << kills << " kills\n";
  pods.clear();
  WaitForInterfaces(0);
  std::vector<NsFd> all;
  for (int i = 0; i < 5; ++i) all.push_back(Namespace());
  Driver driver(directory_, cidrs);
  ASSERT_TRUE(driver.Ask("audit -").starts_with("ok"));
  std::set<std::string> rest;
  for (const NsFd& netns : all) {
    rest.insert(driver.Ask(StrCat("setup end-", netns.get(), " ", PathOf(netns), " 0")));
  }
  EXPECT_EQ(rest, (std::set<std::string>{"ok 10.88.0.2", "ok 10.88.0.3", "ok 10.88.0.4",
                                         "ok 10.88.0.5", "ok 10.88.0.6"}));
}

}  // namespace
}  // namespace holdfast::netproxy
