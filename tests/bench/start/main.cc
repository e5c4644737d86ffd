// SPDX-License-Identifier: Apache-2.0
// bench_start [--json FILE] [--n N] [--peers FILE] [--flood-peers FILE] [--conmon-flood PROGRAM]
//             [--only cold,net,exec,flood,teardown,rate]:
// container starts and execs, ours, the limit program's and the peers' (peer_set.h), interleaved.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/process.h"
#include "netproxy/podnet/pod_net.h"
#include "tests/bench/measure.h"
#include "tests/bench/start/background.h"
#include "tests/bench/start/contenders.h"
#include "tests/bench/start/peer_set.h"
#include "tests/bench/start/quartet.h"

namespace holdfast::bench {
namespace {

class Bench {
 public:
  Bench(std::FILE* out, int rounds) : out_(out), rounds_(rounds), runtime_(node_.Open()) {
    AddPayload(node_);
  }

  void Cold(PeerSet peers) {
    const test_support::RuntimeNode pool_node;
    AddPayload(pool_node);
    const auto pool_runtime = pool_node.Open();
    pool_runtime->KeepReady(kReady);
    Quartet four(MakeOurs(node_, *runtime_), MakeOurs(pool_node, *pool_runtime),
                 MakeLimit(node_.dir(), node_.cgroup_parent()),
                 MakeLimit(node_.dir(), node_.cgroup_parent(), {"pooled"}));
    four.TakeTurns(
        rounds_, [&pool_node] { Calm(pool_node); }, [&](int round) { peers.Round(round); });
    Row("start.cold", "ms", four.ours.samples, 1.15 * Median(four.limit.samples),
        StrCat(",\"peers\":{", peers.Rows(false), "},\"limit\":", Figures(four.limit.samples)));
    Row("start.cold_pooled", "ms", four.pooled.samples, 0.6 * Median(four.limit.samples),
        four.BesidePooled());
    if (!peers.empty()) {
      Row("start.cold_less_version", "ms", four.ours.samples, 0,
          StrCat(",\"peers\":{", peers.Rows(true), "}"));
    }
  }

  // Cold() of pods that get a link and addresses: from a pool whose members have theirs, and without a pool.
  void WithNetwork() {
    const auto net = OpenNetwork();
    const test_support::RuntimeNode pool_node;
    AddPayload(pool_node);
    runtime::RuntimeOptions options = pool_node.Options();
    options.make_network_ready = [&net](int netns) { return net->MakeReady(netns); };
    const auto pool_runtime = OrDie(runtime::MakeContainerRuntime(std::move(options)));
    pool_runtime->KeepReady(kReady);
    Quartet four(MakeOurs(node_, *runtime_, net.get()),
                 MakeOurs(pool_node, *pool_runtime, net.get()),
                 MakeLimit(node_.dir(), node_.cgroup_parent(), {"net"}),
                 MakeLimit(node_.dir(), node_.cgroup_parent(), {"net", "pooled", "first=30000"}));
    four.TakeTurns(rounds_, [&pool_node] { Calm(pool_node); }, [](int) {});
    Row("start.networked", "ms", four.ours.samples, 1.15 * Median(four.limit.samples),
        StrCat(",\"limit\":", Figures(four.limit.samples)));
    Row("start.networked_pooled", "ms", four.pooled.samples, 0.6 * Median(four.limit.samples),
        four.BesidePooled());
  }

  // In a running container: from the call to the end of the command, whose exit code is known then.
  void Exec() {
    const model::SandboxSpec pod = node_.Sandbox("exec");
    const model::ContainerSpec spec = PayloadContainer(node_, "exec", {"/bin/sleep", "1000"});
    if (!runtime_->EnsureSandbox(pod) || !runtime_->Start(spec)) return;
    Samples samples;
    for (int round = 0; round < rounds_ + 5; ++round) {
      const double begin = NowMillis();
      const auto session = runtime_->Exec(spec.id, {{"/bin/true"}});
      const bool ended = session && (*session)->Wait();
      if (round >= 5) Add(samples, ended ? NowMillis() - begin : -1, "exec");
    }
    (void)runtime_->RemoveSandbox(pod.uid);
    Row("start.exec", "ms", samples, 0, "");
  }

  // Cold() while another container writes to its log as fast as it can, through our logger; the limit program and the
  // peers start theirs under the same flood.
  void WithOurFlood(PeerSet peers) {
    const model::SandboxSpec flood = node_.Sandbox("flood");
    const auto spec = PayloadContainer(node_, "flood", {"/bin/busybox", "yes"});
    if (!runtime_->EnsureSandbox(flood) || !runtime_->Start(spec)) Die("the flood does not start");
    WithFlood("start.with_log_flood", peers);
    (void)runtime_->RemoveSandbox(flood.uid);
  }

  // The same while a conmon has what writes so fast: `program` is one that floods until it is ended.
  void WithConmonFlood(const std::string& program, PeerSet peers) {
    const Background flood(program);
    WithFlood("start.with_conmon_flood", peers);
  }

  // `count` pods with a running container each; then all of it is taken away by one caller.
  void Teardown(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string uid = StrCat("down-", i);
      (void)runtime_->EnsureSandbox(node_.Sandbox(uid));
      (void)runtime_->Start(PayloadContainer(node_, uid, {"/bin/sleep", "1000"}));
    }
    Samples samples;
    for (int i = 0; i < count; ++i) {
      const double begin = NowMillis();
      (void)runtime_->RemoveSandbox(PodUid(StrCat("down-", i)));
      samples.push_back(NowMillis() - begin);
    }
    Row("start.teardown_per_pod", "ms", samples, 0, "");
  }

  // Open loop: a start is due every `1/rate` seconds whatever became of the ones before.
  void WhenDue(int rate, int seconds) {
    std::atomic<int> next{0};
    const int total = rate * seconds;
    std::vector<Samples> samples(kDrivers);
    std::vector<std::thread> threads;
    const double begin = NowMillis();
    for (size_t t = 0; t < kDrivers; ++t) {
      threads.emplace_back([&, t] {
        for (int i = next++; i < total; i = next++) {
          const double due = begin + 1000.0 * i / rate;
          const double wait = due - NowMillis();
          if (wait > 0) ::usleep(static_cast<useconds_t>(wait * 1000));
          const std::string uid = StrCat("rate-", i);
          const auto ensured = runtime_->EnsureSandbox(node_.Sandbox(uid));
          const auto started = runtime_->Start(PayloadContainer(node_, uid, {"/bin/true"}));
          if (ensured && started) samples[t].push_back(NowMillis() - due);
          (void)runtime_->RemoveSandbox(PodUid(uid));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Samples all;
    for (const Samples& part : samples) all.insert(all.end(), part.begin(), part.end());
    Row("start.latency_at_200_per_second", "ms", all, 0, "");
  }

  // Closed loop of pods that have a link and addresses: each driver starts the next once its last is gone.
  void Rate(int turns, int seconds) {
    const auto net = OpenNetwork();
    std::vector<std::unique_ptr<Contender>> ours, limits;
    for (size_t driver = 0; driver < kDrivers; ++driver) {
      ours.push_back(MakeOurs(node_, *runtime_, net.get()));
      limits.push_back(
          MakeLimit(node_.dir(), node_.cgroup_parent(), {"net", StrCat("first=", driver * 5000)}));
    }
    Samples our_rates, limit_rates;
    for (int turn = 0; turn < turns; ++turn) {
      our_rates.push_back(StartsPerSecond(ours, seconds));
      limit_rates.push_back(StartsPerSecond(limits, seconds));
    }
    Row("start.rate", "1/s", our_rates.size(), Figures(OfRates(our_rates)), 300,
        StrCat(",\"limit\":", Figures(OfRates(limit_rates))));
  }

 private:
  static constexpr size_t kDrivers = 4;
  static constexpr size_t kReady = 4;  // sandboxPoolSize's default

  std::unique_ptr<netproxy::PodNet> OpenNetwork() const {
    model::Instance instance;
    instance.root_dir = node_.dir() + "/net";
    auto net = OrDie(netproxy::PodNet::Open(instance));
    OrDie(net->Ensure());
    return net;
  }

  static double StartsPerSecond(const std::vector<std::unique_ptr<Contender>>& drivers,
                                int seconds) {
    std::atomic<int> started{0};
    const double begin = NowMillis(), end = begin + 1000.0 * seconds;
    std::vector<std::thread> threads;
    for (const auto& driver : drivers) {
      threads.emplace_back([&] {
        while (NowMillis() < end) started += driver->StartOnce() >= 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return 1000 * started / (NowMillis() - begin);
  }

  // Until the pool is full and what the one before has left to the kernel is done: for all alike.
  static void Calm(const test_support::RuntimeNode& node) {
    const double deadline = NowMillis() + 10000;
    const auto keeper = node.Keeper();
    while (keeper.ListMembers()->size() < kReady && NowMillis() < deadline) ::usleep(1000);
    ::usleep(50000);
  }

  void WithFlood(const char* row, PeerSet& peers) {
    ::usleep(500000);
    const auto ours = MakeOurs(node_, *runtime_);
    const auto limit = MakeLimit(node_.dir(), node_.cgroup_parent());
    Samples our_samples, limit_samples;
    for (int round = 0; round < rounds_ / 2; ++round) {
      Add(our_samples, ours->StartOnce(), "ours");
      Add(limit_samples, limit->StartOnce(), "limit");
      peers.Round(round);
    }
    Row(row, "ms", our_samples, 1.3 * Median(limit_samples),
        StrCat(",\"peers\":{", peers.Rows(false), "},\"limit\":", Figures(limit_samples)));
  }

  static void AddPayload(const test_support::RuntimeNode& node) {
    std::filesystem::copy_file(BinDir() + "/bench_start_payload",
                               node.dir() + "/root/layer/bin/payload");
  }

  void Row(const char* name, const char* unit, const Samples& ours, double aim,
           const std::string& rest) {
    Row(name, unit, ours.size(), Figures(ours), aim, rest);
  }

  void Row(const char* name, const char* unit, size_t n, const std::string& ours, double aim,
           const std::string& rest) {
    std::fprintf(out_, "{\"row\":\"%s\",\"unit\":\"%s\",\"n\":%zu,\"ours\":%s%s", name, unit, n,
                 ours.c_str(), rest.c_str());
    if (aim > 0) std::fprintf(out_, ",\"aim\":%g", aim);
    std::fprintf(out_, "}\n");
    std::fflush(out_);
  }

  std::FILE* out_;
  const int rounds_;
  test_support::RuntimeNode node_;
  std::unique_ptr<ContainerRuntime> runtime_;
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  std::string json = "/dev/stdout", peers, flood_peers, conmon_flood;
  std::string only = "cold,net,exec,flood,teardown,rate";
  int rounds = 200;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--json") json = argv[i + 1];
    if (option == "--peers") peers = argv[i + 1];
    if (option == "--flood-peers") flood_peers = argv[i + 1];
    if (option == "--conmon-flood") conmon_flood = argv[i + 1];
    if (option == "--n") rounds = std::atoi(argv[i + 1]);
    if (option == "--only") only = argv[i + 1];
  }
  const auto wanted = [&only](const char* part) { return only.find(part) != std::string::npos; };
  holdfast::sys::PreferShortSlices();  // as the agent does
  std::FILE* out = std::fopen(json.c_str(), "a");
  if (out == nullptr) return 1;
  holdfast::bench::Bench bench(out, rounds);
  if (wanted("cold")) bench.Cold(holdfast::bench::PeerSet(peers));
  if (wanted("net")) bench.WithNetwork();
  if (wanted("exec")) bench.Exec();
  if (wanted("flood")) bench.WithOurFlood(holdfast::bench::PeerSet(flood_peers));
  if (wanted("flood") && !conmon_flood.empty()) {
    bench.WithConmonFlood(conmon_flood, holdfast::bench::PeerSet(flood_peers));
  }
  if (wanted("teardown")) bench.Teardown(rounds);
  if (wanted("rate")) {
    bench.WhenDue(200, 10);
    bench.Rate(5, 3);
  }
  std::fclose(out);
  return 0;
}
