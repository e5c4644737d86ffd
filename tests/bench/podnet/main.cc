// SPDX-License-Identifier: Apache-2.0
// bench_podnet [--json FILE]: cost of wiring and unwiring pods in a network namespace of its own,
// beside the bare kernel work for the same links, addresses and routes ("limit").
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/podnet/pod_net.h"
#include "tests/bench/measure.h"
#include "tests/bench/podnet/bare_wiring.h"

namespace holdfast::netproxy {
namespace {

constexpr size_t kPods = 500;
constexpr size_t kWindow = 100;  // pods per row: the first and the last ones

using bench::Clock;
using bench::Figures;
using bench::MicrosecondsSince;
using bench::Of;
using bench::OrDie;

std::vector<double> Window(const std::vector<double>& all, size_t begin) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(begin + kWindow)};
}

double BareWiring(sys::Rtnl& node, size_t i) {
  const NsFd netns = OrDie(sys::NewNetworkNamespace());
  const auto start = Clock::now();
  OrDie(bench::WireBare(node, netns.get(), StrCat("bare", i)));
  return MicrosecondsSince(start);
}

// Processor time so far of each kernel worker that may run the removal of network namespaces
// (workqueue "netns", which has no CPU of its own), in nanoseconds.
std::map<int, double> KernelWorkers() {
  std::map<int, double> used;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm") >> std::ws, name);
    if (!name.starts_with("kworker/u")) continue;
    std::ifstream(entry.path() / "schedstat") >> used[pid];
  }
  return used;
}

double MillisecondsSince(const std::map<int, double>& before) {
  double sum = 0;
  for (const auto& [pid, now] : KernelWorkers()) {
    const auto known = before.find(pid);
    sum += now - (known == before.end() ? 0 : known->second);
  }
  return sum / 1e6;
}

double SystemMilliseconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(used.ru_stime.tv_usec) / 1e3;
}

struct Measured {
  std::vector<double> bare;
  std::vector<double> bare_at_500;
  std::vector<double> setup;
  std::vector<double> setup_ready;
  double teardown_all = 0;
  double gone_all = 0;
  double kernel_of_calls = 0;  // milliseconds
  double kernel_of_workers = 0;
};

// Of pods whose links lie ready.
std::vector<double> SetUpReady(PodNet& net) {
  std::vector<double> took;
  for (size_t i = 0; i < kWindow; ++i) {
    const NsFd netns = OrDie(sys::NewNetworkNamespace());
    OrDie(net.MakeReady(netns.get()));
    PodNetworkRequest request;
    request.uid = PodUid(StrCat("ready-", i));
    request.network_namespace = netns.get();
    const auto start = Clock::now();
    OrDie(net.Setup(request));
    took.push_back(MicrosecondsSince(start));
    OrDie(net.Teardown(request.uid));
  }
  return took;
}

Measured Measure(const model::Instance& instance) {
  Measured out;
  sys::Rtnl node = OrDie(sys::Rtnl::Open());
  for (size_t i = 0; i < kWindow; ++i) out.bare.push_back(BareWiring(node, i));

  auto net = OrDie(PodNet::Open(instance));
  OrDie(net->Ensure());
  std::vector<NsFd> namespaces;
  for (size_t i = 0; i < kPods; ++i) namespaces.push_back(OrDie(sys::NewNetworkNamespace()));
  for (size_t i = 0; i < kPods; ++i) {
    PodNetworkRequest request;
    request.uid = PodUid(StrCat("pod-", i));
    request.network_namespace = namespaces[i].get();
    const auto start = Clock::now();
    OrDie(net->Setup(request));
    out.setup.push_back(MicrosecondsSince(start));
  }
  out.setup_ready = SetUpReady(*net);
  for (size_t i = 0; i < kWindow; ++i) out.bare_at_500.push_back(BareWiring(node, kWindow + i));

  const std::map<int, double> workers = KernelWorkers();
  const double system = SystemMilliseconds();
  auto start = Clock::now();
  for (size_t i = 0; i < kPods; ++i) OrDie(net->Teardown(PodUid(StrCat("pod-", i))));
  out.teardown_all = MicrosecondsSince(start);
  start = Clock::now();
  namespaces.clear();
  out.kernel_of_calls = SystemMilliseconds() - system;
  while (!OrDie(net->Audit({}, false)).empty()) {
    ::usleep(10000);
    OrDie(net->Ensure());
  }
  out.gone_all = MicrosecondsSince(start);
  out.kernel_of_workers = MillisecondsSince(workers);
  return out;
}

}  // namespace
}  // namespace holdfast::netproxy

int main(int argc, char** argv) {
  using namespace holdfast;            // NOLINT(google-build-using-namespace)
  using namespace holdfast::netproxy;  // NOLINT(google-build-using-namespace)
  if (::unshare(CLONE_NEWNET) != 0) {
    std::perror("bench_podnet: unshare");
    return 1;
  }
  char pattern[] = "/tmp/holdfast-bench-XXXXXX";
  model::Instance instance;
  instance.root_dir = ::mkdtemp(pattern);
  const Measured m = Measure(instance);
  std::filesystem::remove_all(instance.root_dir);

  const std::string limit = Figures(Of(m.bare));
  const std::string limit_at_500 = Figures(Of(m.bare_at_500));
  std::string rows;
  rows += StrCat("{\"row\":\"podnet.setup.empty\",\"unit\":\"us\",\"n\":", kWindow,
                 ",\"ours\":", Figures(Of(Window(m.setup, 0))), ",\"limit\":", limit,
                 ",\"aim\":\"1000 p50\"}\n");
  rows += StrCat("{\"row\":\"podnet.setup.at500\",\"unit\":\"us\",\"n\":", kWindow,
                 ",\"ours\":", Figures(Of(Window(m.setup, kPods - kWindow))),
                 ",\"limit\":", limit_at_500, ",\"aim\":\"1000 p50\"}\n");
  rows += StrCat("{\"row\":\"podnet.setup.ready\",\"unit\":\"us\",\"n\":", kWindow,
                 ",\"ours\":", Figures(Of(m.setup_ready)), ",\"limit\":", limit_at_500, "}\n");
  rows += StrCat("{\"row\":\"podnet.teardown500.calls\",\"unit\":\"us\",\"n\":1,\"ours\":{\"p50\":",
                 m.teardown_all, "}}\n");
  rows += StrCat("{\"row\":\"podnet.teardown500.gone\",\"unit\":\"us\",\"n\":1,\"ours\":{\"p50\":",
                 m.gone_all, "}}\n");
  const auto kernel = [](const char* name, double milliseconds, const char* aim) {
    return StrCat("{\"row\":\"podnet.teardown500.kernel", name,
                  "\",\"unit\":\"ms\",\"n\":1,\"ours\":{\"p50\":", milliseconds, "}", aim, "}\n");
  };
  rows += kernel("", m.kernel_of_calls + m.kernel_of_workers, ",\"aim\":150");
  rows += kernel(".calls", m.kernel_of_calls, "");
  rows += kernel(".workers", m.kernel_of_workers, "");
  if (argc >= 3 && std::string(argv[1]) == "--json") {
    std::ofstream(argv[2]) << rows;
  } else {
    std::fputs(rows.c_str(), stdout);
  }
  return 0;
}
