// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/start/contenders.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "holdfast/base/strings.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

namespace fs = std::filesystem;

// The payload's number in milliseconds, 0 when `text` has none.
double ParseNanos(const std::string& text) {
  const double nanos = std::strtod(text.c_str(), nullptr);
  return nanos / 1e6;
}

class Ours : public Contender {
 public:
  Ours(const test_support::RuntimeNode& node, ContainerRuntime& runtime, PodNetwork* network)
      : node_(node), runtime_(runtime), network_(network) {}

  double StartOnce() override {
    // Never used before on this node: the log of a former pod of that name would be read instead.
    static std::atomic<int> count = 0;
    const std::string uid = StrCat("start-", ++count);
    const model::SandboxSpec sandbox = node_.Sandbox(uid);
    const model::ContainerSpec spec = PayloadContainer(node_, uid, {"/bin/payload"});
    const double begin = NowMillis();
    auto ensured = runtime_.EnsureSandbox(sandbox);
    if (ensured && network_ != nullptr) ensured = SetUpNetwork(sandbox);
    const auto started = runtime_.Start(spec);
    double end = -1;
    if (ensured && started) end = AwaitLog(spec.log.path);
    if (!ensured) std::fprintf(stderr, "ours: %s\n", ensured.error().message().c_str());
    if (!started) std::fprintf(stderr, "ours: %s\n", started.error().error.message().c_str());
    if (network_ != nullptr) (void)network_->Teardown(sandbox.uid);
    (void)runtime_.RemoveSandbox(sandbox.uid);
    return end < 0 ? -1 : end - begin;
  }

 private:
  Result<void> SetUpNetwork(const model::SandboxSpec& sandbox) {
    ASSIGN_OR_RETURN(const NsFd netns, runtime_.NetworkNamespace(sandbox.uid));
    PodNetworkRequest request;
    request.uid = sandbox.uid;
    request.pod_namespace = sandbox.pod_namespace;
    request.pod_name = sandbox.pod_name;
    request.network_namespace = netns.get();
    RETURN_IF_ERROR(network_->Setup(request));
    return {};
  }

  // "<time> stdout F <nanoseconds>"
  static double AwaitLog(const std::string& path) {
    const double deadline = NowMillis() + 10000;
    while (NowMillis() < deadline) {
      std::ifstream in(path);
      std::string time, stream, tag, text;
      if (in >> time >> stream >> tag >> text) return ParseNanos(text);
      ::usleep(200);
    }
    return -1;
  }

  const test_support::RuntimeNode& node_;
  ContainerRuntime& runtime_;
  PodNetwork* network_;
};

class Limit : public Contender {
 public:
  Limit(std::string dir, std::string parent, std::vector<std::string> kind) {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    std::string program = BinDir() + "/bench_start_limit";
    std::vector<char*> argv = {program.data(), dir.data(), parent.data()};
    for (std::string& word : kind) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ) != 0) {
      std::abort();
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(to[0]);
    ::close(from[1]);
    requests_ = UniqueFd(to[1]);
    answers_ = ::fdopen(from[0], "r");
  }
  ~Limit() override {
    requests_.Reset();
    ::fclose(answers_);
    ::waitpid(pid_, nullptr, 0);
  }
  double StartOnce() override {
    if (::write(requests_.get(), "g", 1) != 1) return -1;
    char line[64];
    if (std::fgets(line, sizeof line, answers_) == nullptr) return -1;
    return ParseNanos(line);
  }

 private:
  pid_t pid_ = 0;
  UniqueFd requests_;
  std::FILE* answers_ = nullptr;
};

struct Ran {
  std::string output;
  bool good = false;
};

Ran Run(std::vector<std::string> words) {
  int from[2];
  if (::pipe2(from, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(from[1]);
  const UniqueFd output(from[0]);
  if (failed != 0) return {};
  Ran ran;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(output.get(), buffer, sizeof buffer)) > 0;) {
    ran.output.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  ran.good = status == 0;
  return ran;
}

class Command : public Contender {
 public:
  Command(std::vector<std::string> words, std::vector<std::string> cleanup)
      : words_(std::move(words)), cleanup_(std::move(cleanup)) {}
  double StartOnce() override {
    std::vector<std::string> words = words_;
    const std::string id = StrCat("hfbench-", ::getpid(), "-", count_++);
    for (std::string& word : words) {
      const size_t at = word.find("{id}");
      if (at != std::string::npos) word.replace(at, 4, id);
    }
    const double begin = NowMillis();
    const Ran ran = Run(std::move(words));
    const double end = cleanup_.empty() ? ParseNanos(ran.output) : NowMillis();
    if (!cleanup_.empty()) (void)Run(cleanup_);
    return ran.good ? end - begin : -1;
  }

 private:
  const std::vector<std::string> words_;
  const std::vector<std::string> cleanup_;
  int count_ = 0;
};

}  // namespace

double NowMillis() { return static_cast<double>(NanosOf(CLOCK_MONOTONIC)) / 1e6; }

std::string BinDir() { return fs::read_symlink("/proc/self/exe").parent_path(); }

model::ContainerSpec PayloadContainer(const test_support::RuntimeNode& node, const std::string& uid,
                                      std::vector<std::string> argv) {
  model::ContainerSpec spec = node.Container(uid, "a", std::move(argv));
  spec.id = NewContainerId();
  return spec;
}

std::unique_ptr<Contender> MakeOurs(const test_support::RuntimeNode& node,
                                    ContainerRuntime& runtime, PodNetwork* network) {
  return std::make_unique<Ours>(node, runtime, network);
}

std::unique_ptr<Contender> MakeLimit(const std::string& dir, const std::string& cgroup_parent,
                                     std::vector<std::string> kind) {
  return std::make_unique<Limit>(dir, cgroup_parent, std::move(kind));
}

std::unique_ptr<Contender> MakeCommand(std::vector<std::string> words,
                                       std::vector<std::string> cleanup) {
  return std::make_unique<Command>(std::move(words), std::move(cleanup));
}

double RunOnce(const std::vector<std::string>& words) {
  const double begin = NowMillis();
  return Run(words).good ? NowMillis() - begin : -1;
}

}  // namespace holdfast::bench
