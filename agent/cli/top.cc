// SPDX-License-Identifier: Apache-2.0
// top: what the node, its pods and their containers use, once or again and again.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/lists.h"
#include "agent/cli/objects.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/usage.h"
#include "agent/kube/label_selector.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
using Stats = v1::GetStatsResponse;

// The agent reads anew after half of it, and it is long enough to measure a rate by.
constexpr std::chrono::seconds kBetweenReadings{1};
constexpr char kClearScreen[] = "\033[H\033[2J";

struct TopOptions {
  std::vector<std::string> words;  // pods, node or containers, and a name
  std::string selector;
  std::string sort_by;
  std::string interval = "2s";
  bool containers = false;
  bool sum = false;
  bool show_capacity = false;
  bool show_swap = false;
  bool no_headers = false;
  bool watch = false;
};

struct TopRequest {
  bool node = false;
  std::string name;  // "": all
  std::chrono::nanoseconds interval{0};
  UsageStyle style;
};

// What is asked of the agent, and what of its answers is shown.
struct Top {
  const TopOptions& options;
  const TopRequest& request;
  Session& session;
  std::optional<core::Pod> pod = {};    // that was named
  std::optional<core::Node> node = {};  // of top node

  std::string Namespace() const {
    if (pod) return pod->metadata().namespace_();
    return session.options().all_namespaces ? "" : session.options().name_space;
  }
};

grpc::Status ReadStats(const Top& top, Stats& stats) {
  v1::GetStatsRequest request;
  request.set_namespace_(top.Namespace());
  if (!top.request.node) request.set_label_selector(top.options.selector);
  return Ask(top.session,
             [&](Call& call) { return top.session.stub().GetStats(&call, request, &stats); });
}

std::string NodeTable(const Top& top, const Stats& before, const Stats& now) {
  const core::Node& node = *top.node;
  const auto& available =
      top.options.show_capacity ? node.status().capacity() : node.status().allocatable();
  const auto amount = [&](const char* resource) {
    const auto found = available.find(resource);
    return found == available.end()
               ? kube::Amount()
               : kube::Amount::Parse(found->second.string()).value_or(kube::Amount());
  };
  NodeLimits limits{amount("cpu"), amount("memory"), std::nullopt};
  const auto& swap = node.status().nodeinfo().swap();
  if (swap.has_capacity()) limits.swap_bytes = static_cast<uint64_t>(swap.capacity());
  return NodeUsageTable(node.metadata().name(), UsageOfNode(before, now), limits,
                        top.request.style);
}

// Of the pods; "" when none of those that were asked for runs.
std::string PodsTable(const Top& top, const Stats& before, const Stats& now) {
  std::vector<PodUsage> pods = UsageOfPods(before, now);
  if (top.pod) {
    std::erase_if(pods,
                  [&](const PodUsage& one) { return one.name != top.pod->metadata().name(); });
  }
  return UsageTable(std::move(pods), top.request.style);
}

int ReportNoUsage(const Top& top) {
  if (top.pod) {
    return Report(NotFound(StrCat("pod \"", top.pod->metadata().name(),
                                  "\" has no running containers: nothing to measure")));
  }
  ReportNothingFound(top.Namespace());
  return kOk;
}

// False: nobody reads what is printed.
bool ShowAgain(const std::string& table, bool first) {
  if (::isatty(STDOUT_FILENO) == 1) return Write(StrCat(kClearScreen, table));
  return Write(StrCat(first ? "" : "\n", table));
}

int Show(const Top& top) {
  Stats before;
  if (const auto status = ReadStats(top, before); !status.ok()) return Report(status);
  for (bool first = true;; first = false) {
    // The first table comes soon, whatever the interval.
    std::this_thread::sleep_for(
        first ? std::min<std::chrono::nanoseconds>(kBetweenReadings, top.request.interval)
              : top.request.interval);
    Stats now;
    if (const auto status = ReadStats(top, now); !status.ok()) return Report(status);
    const std::string table =
        top.request.node ? NodeTable(top, before, now) : PodsTable(top, before, now);
    if (!top.options.watch) {
      Print(table);
      return table.empty() ? ReportNoUsage(top) : kOk;
    }
    if (!ShowAgain(table, first)) return kOk;  // a failed write is told later
    before = std::move(now);
  }
}

// The exit code of what was told; nothing: it is there, and this node.
std::optional<int> FindNode(Top& top) {
  auto nodes = ListNodes(top.session);
  if (!nodes.status.ok()) return Report(nodes.status);
  core::Node& node = nodes.objects.front();
  const std::string& name = top.request.name;
  if (!name.empty() && name != node.metadata().name()) {
    return ReportPick(ObjectNotFound(Resource::kNodes, name));
  }
  const auto selector = kube::LabelSelector::Parse(top.options.selector);
  if (!selector) return Report(selector.error());
  if (!selector->Matches(node.metadata().labels()))
    return Report(NotFound("no node has these labels"));
  top.node = std::move(node);
  return std::nullopt;
}

int RunTop(const TopOptions& options, const TopRequest& request, const GlobalOptions& global) {
  return WithSession(global, [&](Session& session) {
    Top top{.options = options, .request = request, .session = session};
    if (request.node) {
      if (const auto failed = FindNode(top)) return *failed;
    } else if (!request.name.empty()) {
      top.pod = FindPod(session, request.name);
      if (!top.pod) return kFailed;
    }
    return Show(top);
  });
}

UsageOrder OrderOf(const std::string& sort_by) {
  if (sort_by.empty()) return UsageOrder::kName;
  if (sort_by == "cpu") return UsageOrder::kCpu;
  if (sort_by == "memory") return UsageOrder::kMemory;
  throw CLI::ValidationError("--sort-by accepts only cpu or memory");
}

// Throws CLI::ValidationError.
TopRequest ReadRequest(const TopOptions& options, const GlobalOptions& global) {
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw CLI::ValidationError(what, why);
  };
  std::string kind = options.words.front();
  std::string name = options.words.size() > 1 ? options.words[1] : "";
  if (const size_t slash = kind.find('/'); slash != std::string::npos && name.empty()) {
    name = kind.substr(slash + 1);
    kind.resize(slash);
  }
  const bool containers = kind == "container" || kind == "containers";
  const auto resource = containers ? Resource::kPods : FindResource(kind);
  if (resource != Resource::kPods && resource != Resource::kNodes) {
    refuse("top", StrCat("\"", kind, "\": there are pods, node and containers"));
  }
  const bool node = resource == Resource::kNodes;
  if (!name.empty() && !options.selector.empty()) {
    refuse("top", "only one of NAME or --selector can be provided");
  }
  if (!name.empty() && !node && global.all_namespaces) {
    refuse("top", "a resource cannot be retrieved by name across all namespaces");
  }
  if (node && (options.containers || options.sum || global.all_namespaces)) {
    refuse("top node", "--containers, --sum and --all-namespaces are of pods");
  }
  if (!node && options.show_capacity) refuse("top pods", "--show-capacity is of the node");
  const auto interval = DurationFlag("--interval", options.interval);
  if (interval < kBetweenReadings) refuse("--interval", "1s at least: the agent reads no faster");
  return {.node = node,
          .name = std::move(name),
          .interval = interval,
          .style = {.order = OrderOf(options.sort_by),
                    .with_namespace = global.all_namespaces,
                    .containers = containers || options.containers,
                    .sum = options.sum,
                    .swap = options.show_swap,
                    .with_header = !options.no_headers}};
}

}  // namespace

void AddTop(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<TopOptions>();
  CLI::App* command =
      app.add_subcommand("top", "CPU and memory that pods, containers and the node use");
  command->fallthrough();
  command->add_option("what", options->words, "pods (po), containers or node (no), and a name")
      ->required()
      ->expected(1, 2);
  command->add_flag("-A,--all-namespaces", invocation.global.all_namespaces, "All namespaces");
  command->add_option("-l,--selector", options->selector, "Label selector, for example app=web");
  command->add_flag("--containers", options->containers, "A row for each container of a pod");
  command->add_option("--sort-by", options->sort_by, "cpu or memory: the largest first");
  command->add_flag("--sum", options->sum, "All pods together, below them");
  command->add_flag("--show-capacity", options->show_capacity,
                    "Node: parts of its capacity, not of what pods may have of it");
  command->add_flag("--show-swap", options->show_swap, "Also what of it is swapped out");
  command->add_flag("--no-headers", options->no_headers, "Leave out the table's header");
  command->add_flag("-w,--watch", options->watch, "Again and again, until it is interrupted");
  command->add_option("--interval", options->interval,
                      "With --watch: the time between two tables (2s)");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      return RunTop(*options, ReadRequest(*options, invocation.global), invocation.global);
    };
  });
}

}  // namespace holdfast::agent::cli
