// SPDX-License-Identifier: Apache-2.0
// bench_pods --socket SOCKET --limit DIR --cgroup PARENT [--peers FILE] [--json FILE] [--n N]: a
// pod with its own network from the Apply call to the moment at which WatchPods tells that it runs;
// beside the kernel work for it (bench_start_limit … net) and the peers' commands, interleaved. And a
// deletion with 30 s of grace of a pod that ends at once when it is asked to, from the call to DELETED.
//
// bench_pods --socket SOCKET --limit DIR --cgroup PARENT --standing COUNT [--json FILE] [--n N]: beside
// COUNT pods that stand there, a new pod from Apply to Running and the kernel work for it, interleaved;
// an exit from the kill to the status that tells it, and a deletion from the call to DELETED.
#include <grpcpp/grpcpp.h>

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/v1/node_agent.grpc.pb.h"
#include "tests/bench/start/contenders.h"
#include "tests/bench/start/peer_set.h"

namespace holdfast::bench {
namespace {

constexpr int kWarmUps = 5;
// On SIGTERM; a program that does not heed it keeps its pod for two seconds in any case.
constexpr char kEndsAtOnce[] = R"([/bin/sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"])";
constexpr useconds_t kCalm = 100'000;  // by then it heeds it, and nothing of the start is under way

class Pods : public Contender {
 public:
  explicit Pods(const std::string& socket)
      : api_(v1::NodeAgent::NewStub(
            ::grpc::CreateChannel("unix:" + socket, ::grpc::InsecureChannelCredentials()))),
        changes_(api_->WatchPods(&watching_, v1::WatchPodsRequest())) {
    while (changes_->Read(&change_) && change_.type() != v1::BOOKMARK) continue;
  }
  ~Pods() override { watching_.TryCancel(); }

  // Pods that stay until the end.
  bool Stand(int count) {
    for (int i = 0; i < count; ++i) {
      if (!Apply(StrCat("standing-", i), kEndsAtOnce)) return false;
    }
    for (int running = 0; running < count;) {
      if (!changes_->Read(&change_)) return false;
      running += change_.pod().metadata().name().starts_with("standing-") &&
                 change_.pod().status().phase() == "Running" &&
                 stood_.insert(change_.pod().metadata().name()).second;
    }
    return true;
  }
  void TakeAway(int count) {
    for (int i = 0; i < count; ++i) (void)AskToDelete(StrCat("standing-", i), 0);
    for (int gone = 0; gone < count && changes_->Read(&change_);) {
      gone += change_.type() == v1::DELETED;
    }
  }

  struct Life {
    double start = -1;
    double exit = -1;
    double deletion = -1;
  };
  // One pod's life; -1 for what did not come about.
  Life LiveOnce() {
    Life life;
    const std::string name = StrCat("bench-", ++count_);
    const std::string seconds = StrCat(200'000 + count_);
    const double begin = NowMillis();
    if (!Apply(name, Sleep(seconds), "Never")) return life;
    if (!AwaitPhase(name, "Running")) return life;
    life.start = NowMillis() - begin;
    const pid_t pid = FindSleep(seconds);
    if (pid <= 0) return life;
    const double killed = NowMillis();
    ::kill(pid, SIGKILL);
    if (AwaitPhase(name, "Failed")) life.exit = NowMillis() - killed;
    const double deleted = NowMillis();
    Delete(name);
    life.deletion = NowMillis() - deleted;
    return life;
  }

  double StartOnce() override {
    const std::string name = StrCat("bench-", ++count_);
    const double begin = NowMillis();
    if (!Apply(name, kEndsAtOnce)) return -1;
    const bool runs = AwaitPhase(name, "Running");
    const double took = NowMillis() - begin;
    ::usleep(kCalm);
    Delete(name);
    return runs ? took : -1;
  }

  double DeleteOnce() {
    const std::string name = StrCat("ends-", ++count_);
    if (!Apply(name, kEndsAtOnce)) return -1;
    if (!AwaitPhase(name, "Running")) return -1;
    ::usleep(kCalm);
    const double begin = NowMillis();
    return Delete(name, 30) ? NowMillis() - begin : -1;
  }

 private:
  // By its argument, which no other process has.
  static pid_t FindSleep(const std::string& seconds) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      std::string line;
      if (pid <= 0 || !std::getline(std::ifstream(entry.path() / "cmdline"), line)) continue;
      if (line == "/bin/sleep" + std::string(1, '\0') + seconds + std::string(1, '\0')) return pid;
    }
    return -1;
  }

  bool AwaitPhase(const std::string& name, const std::string& phase) {
    return Await(
        name, [&](const v1::PodChange& change) { return change.pod().status().phase() == phase; });
  }

  static std::string Sleep(const std::string& seconds) {
    return StrCat("[/bin/sleep, \"", seconds, "\"]");
  }

  bool Apply(const std::string& name, const std::string& command,
             const std::string& restart = "Always") {
    v1::ApplyRequest request;
    request.set_origin("bench");
    request.set_manifest(
        StrCat("apiVersion: v1\nkind: Pod\nmetadata: {name: ", name,
               "}\nspec:\n  terminationGracePeriodSeconds: 0\n  restartPolicy: ", restart,
               "\n  containers:\n  - name: main\n    image: test/busybox:latest\n"
               "    imagePullPolicy: Never\n    command: ",
               command, "\n"));
    ::grpc::ClientContext context;
    v1::ApplyResponse response;
    return Good(api_->Apply(&context, request, &response));
  }

  bool Delete(const std::string& name, int64_t grace_seconds = 0) {
    return AskToDelete(name, grace_seconds) &&
           Await(name, [](const v1::PodChange& c) { return c.type() == v1::DELETED; });
  }

  bool AskToDelete(const std::string& name, int64_t grace_seconds) {
    v1::DeleteRequest request;
    request.set_namespace_("default");
    request.set_name(name);
    request.set_grace_period_seconds(grace_seconds);
    ::grpc::ClientContext context;
    v1::DeleteResponse response;
    return Good(api_->Delete(&context, request, &response));
  }

  template <class Wanted>
  bool Await(const std::string& name, Wanted wanted) {
    while (changes_->Read(&change_)) {
      if (change_.pod().metadata().name().starts_with(name + "-") && wanted(change_)) return true;
    }
    return false;
  }

  static bool Good(const ::grpc::Status& status) {
    if (!status.ok()) std::fprintf(stderr, "bench_pods: %s\n", status.error_message().c_str());
    return status.ok();
  }

  std::unique_ptr<v1::NodeAgent::Stub> api_;
  ::grpc::ClientContext watching_;
  std::unique_ptr<::grpc::ClientReader<v1::PodChange>> changes_;
  v1::PodChange change_;
  std::set<std::string> stood_;
  int count_ = 0;
};

int Beside(Pods& pods, Contender& limit, int standing, int rounds, std::FILE* out) {
  if (!pods.Stand(standing)) return 1;
  for (int i = 0; i < kWarmUps; ++i) {
    (void)pods.LiveOnce();
    (void)limit.StartOnce();
  }
  Samples start, limit_start, exit, deletion;
  for (int round = 0; round < rounds; ++round) {
    // The kernel goes on taking the one before apart, which is not the next one's to wait for.
    ::usleep(kCalm);
    const Pods::Life life = pods.LiveOnce();
    ::usleep(kCalm);
    Add(limit_start, limit.StartOnce(), "limit");
    Add(start, life.start, "start");
    Add(exit, life.exit, "exit");
    Add(deletion, life.deletion, "deletion");
  }
  const auto row = [&](const char* name, const Samples& samples, const std::string& rest = "") {
    std::fprintf(out, "{\"row\":\"pods.%s_beside_%d\",\"unit\":\"ms\",\"n\":%zu,\"ours\":%s%s}\n",
                 name, standing, samples.size(), Figures(samples).c_str(), rest.c_str());
  };
  row("apply_to_running", start, StrCat(",\"limit\":", Figures(limit_start)));
  row("exit_to_status", exit);
  row("delete_to_gone", deletion);
  pods.TakeAway(standing);
  return start.empty() ? 1 : 0;
}

int Main(const std::map<std::string, std::string>& options, std::FILE* out) {
  const auto option = [&options](const char* name) {
    const auto it = options.find(name);
    return it == options.end() ? std::string() : it->second;
  };
  Pods ours(option("--socket"));
  const auto limit = MakeLimit(option("--limit"), option("--cgroup"), {"net"});
  if (!option("--standing").empty()) {
    const int beside_rounds = option("--n").empty() ? 50 : std::atoi(option("--n").c_str());
    return Beside(ours, *limit, std::atoi(option("--standing").c_str()), beside_rounds, out);
  }
  PeerSet peers(option("--peers"));
  for (int i = 0; i < kWarmUps; ++i) {
    (void)ours.StartOnce();
    (void)limit->StartOnce();
  }
  Samples our_samples, limit_samples, deletions;
  const int rounds = option("--n").empty() ? 200 : std::atoi(option("--n").c_str());
  for (int round = 0; round < rounds; ++round) {
    Add(our_samples, ours.StartOnce(), "ours");
    Add(limit_samples, limit->StartOnce(), "limit");
    Add(deletions, ours.DeleteOnce(), "deletion");
    peers.Round(round);
  }
  const auto row = [&](const char* name, const std::string& rest) {
    std::fprintf(out,
                 "{\"row\":\"%s\",\"unit\":\"ms\",\"n\":%zu,\"ours\":%s,\"aim\":4,\"limit\":%s,"
                 "\"peers\":{%s}}\n",
                 name, our_samples.size(), Figures(our_samples).c_str(),
                 Figures(limit_samples).c_str(), rest.c_str());
  };
  row("pods.apply_to_running", peers.Rows(false));
  row("pods.apply_to_running_less_version", peers.Rows(true));
  std::fprintf(out,
               "{\"row\":\"pods.delete_to_gone\",\"unit\":\"ms\",\"n\":%zu,\"ours\":%s,"
               "\"aim\":10}\n",
               deletions.size(), Figures(deletions).c_str());
  return our_samples.empty() ? 1 : 0;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  std::FILE* out = options.contains("--json") ? std::fopen(options["--json"].c_str(), "a") : stdout;
  if (out == nullptr) return 1;
  const int result = holdfast::bench::Main(options, out);
  std::fclose(out);
  return result;
}
