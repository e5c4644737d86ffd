// SPDX-License-Identifier: Apache-2.0
// logs: of one container, of all containers of a pod, or of the pods of a selector.
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include "agent/cli/commands.h"
#include "agent/cli/lists.h"
#include "agent/cli/output.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr int64_t kTailOfSelector = 10;

struct LogOptions {
  std::string pod;
  std::string container_word;  // second word, as kubectl takes it
  std::string container;
  std::string selector;
  std::string since;
  std::string since_time;
  std::string stream = "all";
  int64_t tail = -1;
  int64_t limit_bytes = 0;
  bool follow = false;
  bool previous = false;
  bool timestamps = false;
  bool all_containers = false;
  bool prefix = false;
};

struct Target {
  std::string name_space;
  std::string pod;
  std::string container;
};

// Chunks of several followers never mix within a line.
class Printer {
 public:
  Printer(bool timestamps, bool prefix) : timestamps_(timestamps), prefix_(prefix) {}

  void Print(const Target& target, const v1::LogsResponse& response, bool& line_start) {
    std::string out;
    for (const v1::LogLine& line : response.lines()) {
      if (line_start && prefix_) {
        out += StrCat("[pod/", target.pod, "/", target.container, "] ");
      }
      if (line_start && timestamps_) {
        constexpr int64_t kBillion = 1'000'000'000;
        const int64_t nanos = line.time_unix_nanos();
        out += kube::FormatRfc3339(
            {.seconds = nanos / kBillion, .nanos = static_cast<int32_t>(nanos % kBillion)}, 9);
        out += " ";
      }
      out += line.text();
      line_start = !line.partial();
      if (line_start) out += "\n";
    }
    const std::lock_guard lock(mutex_);
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  }

 private:
  const bool timestamps_;
  const bool prefix_;
  std::mutex mutex_;
};

v1::LogsRequest MakeRequest(const LogOptions& options, const Target& target) {
  v1::LogsRequest request;
  request.set_namespace_(target.name_space);
  request.set_pod(target.pod);
  request.set_container(target.container);
  request.set_follow(options.follow);
  request.set_previous(options.previous);
  if (!options.since.empty()) {
    const auto since = CurrentTime().since_epoch - DurationFlag("--since", options.since);
    request.set_since_unix_nanos(since.count());
  }
  if (!options.since_time.empty()) {
    const auto time = kube::ParseRfc3339(options.since_time);
    if (!time) throw CLI::ValidationError("--since-time", "not a time like 2026-01-31T15:04:05Z");
    request.set_since_unix_nanos(time->seconds * 1'000'000'000 + time->nanos);
  }
  int64_t tail = options.tail;
  if (tail < 0 && !options.selector.empty()) tail = kTailOfSelector;
  if (tail >= 0) request.set_tail_lines(tail);
  if (options.limit_bytes > 0) request.set_limit_bytes(options.limit_bytes);
  if (options.stream == "stdout") request.set_stream(v1::LOG_STREAM_STDOUT);
  if (options.stream == "stderr") request.set_stream(v1::LOG_STREAM_STDERR);
  return request;
}

int PrintLog(Session& session, const LogOptions& options, const Target& target, Printer& printer) {
  grpc::ClientContext context;
  const auto reader = session.stub().Logs(&context, MakeRequest(options, target));
  v1::LogsResponse response;
  bool line_start = true;
  while (reader->Read(&response)) printer.Print(target, response, line_start);
  const grpc::Status status = reader->Finish();
  if (status.ok()) return kOk;
  // A container that is not there yet is the caller's mistake, in Kubernetes' words.
  const bool waiting = status.error_message().find("waiting to start") != std::string::npos;
  return Report(waiting ? grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, status.error_message())
                        : status);
}

std::vector<std::string> ContainerNames(const core::Pod& pod) {
  std::vector<std::string> names;
  for (const auto& container : pod.spec().initcontainers()) names.push_back(container.name());
  for (const auto& container : pod.spec().containers()) names.push_back(container.name());
  for (const auto& container : pod.spec().ephemeralcontainers()) {
    names.push_back(container.ephemeralcontainercommon().name());
  }
  return names;
}

// The container to take when none was named: the annotated one, else the first, with a word on it.
std::string DefaultContainer(const core::Pod& pod) {
  const auto& annotations = pod.metadata().annotations();
  const auto annotated = annotations.find("kubectl.kubernetes.io/default-container");
  if (annotated != annotations.end()) return annotated->second;
  if (pod.spec().containers_size() == 0) return "";
  const std::string& first = pod.spec().containers(0).name();
  const std::vector<std::string> all = ContainerNames(pod);
  if (all.size() > 1) {
    std::string list;
    for (const std::string& name : all) list += (list.empty() ? "" : ", ") + name;
    std::fprintf(stderr, "Defaulted container \"%s\" out of: %s\n", first.c_str(), list.c_str());
  }
  return first;
}

void AddTargets(const LogOptions& options, const core::Pod& pod, std::vector<Target>& targets) {
  const auto& meta = pod.metadata();
  if (options.all_containers) {
    for (const std::string& name : ContainerNames(pod)) {
      targets.push_back({meta.namespace_(), meta.name(), name});
    }
    return;
  }
  std::string container = options.container.empty() ? options.container_word : options.container;
  if (container.empty()) container = DefaultContainer(pod);
  targets.push_back({meta.namespace_(), meta.name(), container});
}

grpc::Status FindTargets(Session& session, const LogOptions& options,
                         std::vector<Target>& targets) {
  if (options.selector.empty()) {
    core::Pod pod;
    grpc::Status found = FindPod(session, options.pod, pod);
    if (found.ok()) AddTargets(options, pod, targets);
    return found;
  }
  const auto [status, pods] = ListPods(session, session.options().name_space, options.selector);
  for (const core::Pod& pod : pods) AddTargets(options, pod, targets);
  return status;
}

int RunLogs(const LogOptions& options, const GlobalOptions& global) {
  if (options.pod.empty() == options.selector.empty()) {
    throw CLI::ValidationError("logs", "expected POD or a selector (-l)");
  }
  (void)MakeRequest(options, {});  // reports bad times before anything is asked
  return WithSession(global, [&](Session& session) {
    std::vector<Target> targets;
    const grpc::Status found = FindTargets(session, options, targets);
    if (!found.ok()) return Report(found);
    if (targets.empty()) {
      ReportNothingFound(global.name_space);
      return kOk;
    }
    Printer printer(options.timestamps, options.prefix);
    std::atomic<int> code = kOk;
    const auto print = [&](const Target& target) {
      const int one = PrintLog(session, options, target, printer);
      if (one != kOk) code = one;
    };
    if (!options.follow || targets.size() == 1) {
      for (const Target& target : targets) print(target);
      return code.load();
    }
    std::vector<std::thread> followers;
    for (const Target& target : targets) {
      auto follower = sys::StartThread("follow", [&] { print(target); });
      if (follower) {
        followers.push_back(std::move(*follower));
      } else {
        code = Report(follower.error());
      }
    }
    for (std::thread& follower : followers) follower.join();
    return code.load();
  });
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<LogOptions>();
  CLI::App* command = app.add_subcommand("logs", "Print the log of a container");
  command->fallthrough();
  command->add_option("pod", options->pod, "Pod: a name, pod/NAME, namespace/NAME or a beginning");
  command->add_option("container_name", options->container_word, "Container (as -c)");
  command->add_option("-c,--container", options->container, "Container of the pod");
  command->add_option("-l,--selector", options->selector, "All pods with these labels");
  command->add_flag("-f,--follow", options->follow,
                    "Go on as lines come, over rotation and restarts");
  command->add_flag("-p,--previous", options->previous, "The run before the present one");
  command->add_flag("--timestamps", options->timestamps, "Each line with its time");
  command->add_flag("--all-containers", options->all_containers, "All containers of the pod");
  command->add_flag("--prefix", options->prefix, "Each line with its pod and container");
  command->add_option("--since", options->since, "Only lines of the last 5s, 2m or 3h");
  command->add_option("--since-time", options->since_time,
                      "Only lines at or after an RFC 3339 time");
  command->add_option("--tail", options->tail,
                      "Only the last N lines (default: all; 10 with a selector)");
  command->add_option("--limit-bytes", options->limit_bytes, "Stop after N bytes");
  command->add_option("--stream", options->stream, "all, stdout or stderr")
      ->check(CLI::IsMember({"all", "stdout", "stderr"}));
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunLogs(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
