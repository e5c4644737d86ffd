// SPDX-License-Identifier: Apache-2.0
// logs: of one container, of all containers of a pod, or of the pods of a selector.
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "agent/cli/commands.h"
#include "agent/cli/default_container.h"
#include "agent/cli/lists.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/pod_target.h"
#include "agent/cli/table.h"
#include "agent/kube/containers_of.h"
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
  std::optional<int64_t> tail;
  std::optional<int64_t> limit_bytes;
  bool ignore_errors = false;
  bool follow = false;
  bool previous = false;
  bool timestamps = false;
  bool all_containers = false;
  bool prefix = false;
};

struct LogTarget {
  std::string name_space;
  std::string pod;
  std::string container;
};

// Stateless: chunks of several followers never mix within a line, since each is one Write.
class Printer {
 public:
  Printer(bool timestamps, bool prefix) : timestamps_(timestamps), prefix_(prefix) {}

  // False: nobody reads what is printed.
  bool Print(const LogTarget& target, const v1::LogsResponse& response, bool& line_start) {
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
    return Write(out);
  }

 private:
  const bool timestamps_;
  const bool prefix_;
};

// kubectl's rules, in its words.
Result<void> CheckOptions(const LogOptions& options) {
  if (!options.since.empty() && !options.since_time.empty()) {
    return InvalidArgument("at most one of `sinceTime` or `sinceSeconds` may be specified");
  }
  if (!options.since.empty() && DurationFlag("--since", options.since).count() == 0) {
    return InvalidArgument("--since must be greater than 0");
  }
  if (options.tail.value_or(-1) < -1) {
    return InvalidArgument("--tail must be greater than or equal to -1");
  }
  if (options.limit_bytes.value_or(1) <= 0) {
    return InvalidArgument("--limit-bytes must be greater than 0");
  }
  return {};
}

v1::LogsRequest MakeRequest(const LogOptions& options, const LogTarget& target) {
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
    request.set_since_unix_nanos(kube::ToWallTime(*time).since_epoch.count());
  }
  const int64_t tail = options.tail.value_or(options.selector.empty() ? -1 : kTailOfSelector);
  if (tail >= 0) request.set_tail_lines(tail);
  if (options.limit_bytes) request.set_limit_bytes(*options.limit_bytes);
  if (options.stream == "stdout") request.set_stream(v1::LOG_STREAM_STDOUT);
  if (options.stream == "stderr") request.set_stream(v1::LOG_STREAM_STDERR);
  return request;
}

// A failure of one log among several is told; with --ignore-errors the others go on.
int ReportLog(const grpc::Status& status, const LogOptions& options, const LogTarget& target) {
  if (options.ignore_errors) {
    std::fprintf(stderr, "error from pod/%s/%s: %s\n", target.pod.c_str(), target.container.c_str(),
                 Visible(status.error_message()).c_str());
    return kOk;
  }
  // A container that is not there yet is the caller's mistake, in Kubernetes' words.
  const bool waiting = status.error_message().find("waiting to start") != std::string::npos;
  return Report(waiting ? grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, status.error_message())
                        : status);
}

// From the beginning again when the agent went away before the first line.
int PrintLog(Session& session, const LogOptions& options, const LogTarget& target,
             Printer& printer) {
  for (;;) {
    grpc::ClientContext context;
    if (!options.follow) SetDeadline(context, session.options().request_timeout);
    const auto reader = session.stub().Logs(&context, MakeRequest(options, target));
    v1::LogsResponse response;
    bool printed = false;
    bool line_start = true;
    while (reader->Read(&response)) {
      printed = true;
      if (printer.Print(target, response, line_start)) continue;
      GiveUp(context, *reader);
      return kFailed;
    }
    const grpc::Status status = reader->Finish();
    if (status.ok()) return kOk;
    if (printed || !session.IsBack(status)) return ReportLog(status, options, target);
  }
}

void AddTargets(const LogOptions& options, const core::Pod& pod, std::vector<LogTarget>& targets) {
  const auto& meta = pod.metadata();
  if (options.all_containers) {
    for (const std::string& name : kube::ContainerNames(pod)) {
      targets.push_back({meta.namespace_(), meta.name(), name});
    }
    return;
  }
  std::string container = options.container.empty() ? options.container_word : options.container;
  if (container.empty()) container = DefaultContainer(pod, /*quiet=*/false);
  targets.push_back({meta.namespace_(), meta.name(), container});
}

// kFailed: why was told.
int FindTargets(Session& session, const LogOptions& options, std::vector<LogTarget>& targets) {
  if (options.selector.empty()) {
    const auto target = FindPodTarget(session, options.pod, PodUse::kLogs);
    if (!target) return kFailed;
    AddTargets(options, target->pod, targets);
    return kOk;
  }
  const auto [status, pods] = ListPods(session, session.options().name_space, options.selector);
  if (!status.ok()) return Report(status);
  for (const core::Pod& pod : pods) AddTargets(options, pod, targets);
  return kOk;
}

// One after the other, or, where each goes on and on, all at once.
int PrintLogs(Session& session, const LogOptions& options, const std::vector<LogTarget>& targets) {
  Printer printer(options.timestamps, options.prefix);
  std::atomic<int> code = kOk;
  const auto print = [&](const LogTarget& target) {
    const int one = PrintLog(session, options, target, printer);
    if (one != kOk) code = one;
  };
  if (!options.follow || targets.size() == 1) {
    for (const LogTarget& target : targets) print(target);
    return code.load();
  }
  std::vector<std::thread> followers;
  for (const LogTarget& target : targets) {
    auto follower = sys::StartThread("follow", [&] { print(target); });
    if (follower) {
      followers.push_back(std::move(*follower));
    } else {
      code = Report(follower.error());
    }
  }
  for (std::thread& follower : followers) follower.join();
  return code.load();
}

int RunLogs(const LogOptions& options, const GlobalOptions& global) {
  if (options.pod.empty() == options.selector.empty()) {
    throw CLI::ValidationError("logs", "expected POD or a selector (-l)");
  }
  if (const auto checked = CheckOptions(options); !checked) return Report(checked.error());
  (void)MakeRequest(options, {});  // reports bad times before anything is asked
  return WithSession(global, [&](Session& session) {
    std::vector<LogTarget> targets;
    if (FindTargets(session, options, targets) != kOk) return kFailed;
    if (!targets.empty()) return PrintLogs(session, options, targets);
    ReportNothingFound(global.name_space);
    return kOk;
  });
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<LogOptions>();
  CLI::App* command = app.add_subcommand("logs", "Print the log of a container");
  command->fallthrough();
  command->add_option("pod", options->pod, kPodTargetHelp);
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
  command->add_flag("--ignore-errors", options->ignore_errors,
                    "With several logs: tell of one that cannot be read, and go on");
  command->add_option("--stream", options->stream, "all, stdout or stderr")
      ->check(CLI::IsMember({"all", "stdout", "stderr"}));
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunLogs(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
