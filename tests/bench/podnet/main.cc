// SPDX-License-Identifier: Apache-2.0
// bench_podnet [--json FILE] [--n ROUNDS]: what it costs to wire and unwire 500 pods in a network namespace of its own,
// ours (PodNet) and the kernel's work for the same objects (tests/bench/limit/wiring.h) by turns.
#include <net/if.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/netns.h"
#include "netproxy/podnet/pod_net.h"
#include "netproxy/podnet/pod_veth.h"
#include "tests/bench/limit/wiring.h"
#include "tests/bench/measure.h"
#include "tests/bench/podnet/kernel_time.h"

namespace holdfast::bench {
namespace {

constexpr int kPods = 500;
constexpr int kWindow = 100;  // pods per row: the first and the last ones

using netproxy::PodNet;
using Samples = std::vector<double>;

// What one side came to; a sample per pod, and per round.
struct Figures {
  Samples empty, full, ready;              // microseconds
  Samples calls, gone;                     // microseconds
  Samples kernel, call_time, worker_time;  // milliseconds
};

// One of both sides. Pods are numbers below kPods; those that lie ready beside them have higher ones.
class Side {
 public:
  virtual ~Side() = default;
  virtual void SetUp(int pod, int netns) = 0;
  virtual void MakeReady(int pod, int netns) = 0;  // of what SetUp() then takes
  virtual void SetUpReady(int pod, int netns) { SetUp(pod, netns); }
  virtual void TearDown(int pod) = 0;
  virtual void Finish() {}  // once the kernel has let the links go
  virtual std::string LinkName(int pod) const = 0;
};

class Ours : public Side {
 public:
  explicit Ours(const model::Instance& instance) : net_(OrDie(PodNet::Open(instance))) {
    OrDie(net_->Ensure());
  }
  void SetUp(int pod, int netns) override {
    PodNetworkRequest request;
    request.uid = Uid(pod);
    request.network_namespace = netns;
    OrDie(net_->Setup(request));
  }
  void MakeReady(int, int netns) override { OrDie(net_->MakeReady(netns)); }
  void TearDown(int pod) override { OrDie(net_->Teardown(Uid(pod))); }
  // Addresses are free again.
  void Finish() override {
    OrDie(net_->Ensure());
    if (!OrDie(net_->Audit({}, false)).empty()) Die("links or records of pods are left");
  }
  std::string LinkName(int pod) const override {
    return netproxy::InterfaceName(model::Instance().interface_prefix, Uid(pod));
  }

 private:
  static PodUid Uid(int pod) { return PodUid(StrCat("pod-", pod)); }
  std::unique_ptr<PodNet> net_;
};

class Bare : public Side {
 public:
  void SetUp(int pod, int netns) override { WirePod(node_, procfs_, pod, netns); }
  void MakeReady(int pod, int netns) override { MakeReadyPod(node_, procfs_, pod, netns); }
  void SetUpReady(int pod, int netns) override { WireReadyPod(node_, pod, netns); }
  void TearDown(int) override {}  // all of it ends with the namespace
  std::string LinkName(int pod) const override { return BareNode::LinkName(pod); }

 private:
  BareNode node_;
  sys::RenewedProcfs procfs_;
};

double Timed(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return MicrosecondsSince(start);
}

// Asking for a name takes no lock of the kernel's that its workers need.
void AwaitGone(const Side& side, int first, int count) {
  for (int pod = first; pod < first + count; ++pod) {
    while (::if_nametoindex(side.LinkName(pod).c_str()) != 0) ::usleep(1000);
  }
}

void MeasureReady(Side& side, Figures& out) {
  std::vector<NsFd> namespaces;
  for (int pod = kPods; pod < kPods + kWindow; ++pod) {
    namespaces.push_back(OrDie(sys::NewNetworkNamespace()));
    const int netns = namespaces.back().get();
    side.MakeReady(pod, netns);
    out.ready.push_back(Timed([&] { side.SetUpReady(pod, netns); }));
    side.TearDown(pod);
  }
  namespaces.clear();
  ::sleep(1);
}

void MeasureRound(Side& side, Figures& out) {
  std::vector<NsFd> namespaces;
  for (int i = 0; i < kPods; ++i) namespaces.push_back(OrDie(sys::NewNetworkNamespace()));
  for (int i = 0; i < kPods; ++i) {
    const double took = Timed([&] { side.SetUp(i, namespaces[static_cast<size_t>(i)].get()); });
    if (i < kWindow) out.empty.push_back(took);
    if (i >= kPods - kWindow) out.full.push_back(took);
  }
  MeasureReady(side, out);

  const KernelTime used;
  const auto start = Clock::now();
  for (int i = 0; i < kPods; ++i) side.TearDown(i);
  out.calls.push_back(MicrosecondsSince(start));
  namespaces.clear();
  AwaitGone(side, 0, kPods);
  out.gone.push_back(MicrosecondsSince(start));
  side.Finish();
  out.worker_time.push_back(used.WorkerMilliseconds());
  out.call_time.push_back(used.CallMilliseconds());
  out.kernel.push_back(out.worker_time.back() + out.call_time.back());
}

std::string Row(const char* name, const char* unit, const Samples& ours, const Samples& limit,
                const char* aim = "") {
  std::string row = StrCat("{\"row\":\"podnet.", name, "\",\"unit\":\"", unit,
                           "\",\"n\":", ours.size(), ",\"ours\":", bench::Figures(Of(ours)));
  if (!limit.empty()) row += StrCat(",\"limit\":", bench::Figures(Of(limit)));
  if (*aim != 0) row += StrCat(",\"aim\":\"", aim, "\"");
  return row + "}\n";
}

std::string Rows(const Figures& ours, const Figures& limit) {
  constexpr char kAim[] = "1.1 x limit";
  return Row("setup.empty", "us", ours.empty, limit.empty, kAim) +
         Row("setup.at500", "us", ours.full, limit.full, kAim) +
         Row("setup.ready", "us", ours.ready, limit.ready) +
         Row("teardown500.calls", "us", ours.calls, {}) +
         Row("teardown500.gone", "us", ours.gone, limit.gone) +
         Row("teardown500.kernel", "ms", ours.kernel, limit.kernel, kAim) +
         Row("teardown500.kernel.calls", "ms", ours.call_time, limit.call_time) +
         Row("teardown500.kernel.workers", "ms", ours.worker_time, limit.worker_time);
}

std::string Measure(int rounds) {
  model::Instance instance;
  std::string folder = std::filesystem::temp_directory_path() / "holdfast-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) Die("mkdtemp");
  instance.root_dir = folder;
  Figures ours, limit;
  Ours our_side(instance);
  Bare bare;
  for (int round = 0; round < rounds; ++round) {
    MeasureRound(our_side, ours);
    MeasureRound(bare, limit);
  }
  std::filesystem::remove_all(folder);
  return Rows(ours, limit);
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;  // NOLINT(google-build-using-namespace)
  std::string json;
  int rounds = 5;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--json") json = argv[i + 1];
    if (std::string(argv[i]) == "--n") rounds = std::atoi(argv[i + 1]);
  }
  if (::unshare(CLONE_NEWNET) != 0) Die("cannot make a network namespace");
  const std::string rows = Measure(rounds);
  if (json.empty()) {
    std::fputs(rows.c_str(), stdout);
  } else {
    std::ofstream(json) << rows;
  }
  return 0;
}
