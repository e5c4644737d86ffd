// SPDX-License-Identifier: Apache-2.0
// get: pods, services, endpoints, events, the node, images; pods and events also watched.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/lists.h"
#include "agent/cli/output.h"
#include "agent/cli/resource.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

struct GetOptions {
  std::vector<std::string> words;  // resource and names
  std::string output;
  std::string selector;
  bool watch = false;
  bool no_headers = false;
};

struct Get {
  const GetOptions& options;
  Session& session;
  Output output;
  Resource resource = Resource::kPods;
  std::vector<std::string> names;

  std::string Namespace() const {
    return session.options().all_namespaces ? "" : session.options().name_space;
  }
  RowStyle Style() const {
    return {.wide = output.kind == Output::Kind::kWide,
            .with_namespace = session.options().all_namespaces,
            .now = CurrentTime()};
  }
};

void Write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Result<void> ReadWords(Get& get) {
  ASSIGN_OR_RETURN(ResourceWords read, ReadResourceWords(get.options.words));
  if (!read.resource) {
    const std::string& word = get.options.words.front();
    return InvalidArgument(
        StrCat("the server doesn't have a resource type \"", word.substr(0, word.find('/')),
               "\"; there are pods, services, endpoints, events, node and images"));
  }
  get.resource = *read.resource;
  get.names = std::move(read.names);
  return {};
}

int NothingFound(const Get& get) {
  if (get.output.IsTable()) ReportNothingFound(get.Namespace());
  return kOk;
}

// Rows or documents of `objects`, in the order given.
template <class Object>
void Show(const Get& get, const std::string& resource, const std::vector<Object>& objects,
          bool single, Cells (*header)(const RowStyle&),
          Cells (*row)(const Object&, const RowStyle&)) {
  if (get.output.IsTable()) {
    const RowStyle style = get.Style();
    Table table(header(style));
    for (const Object& object : objects) table.AddRow(row(object, style));
    return Write(table.Render(!get.options.no_headers));
  }
  std::vector<const google::protobuf::Message*> messages;
  for (const Object& object : objects) messages.push_back(&object);
  Write(PrintObjects(get.output, resource, messages, single));
}

// Prints the initial objects as one table, then a row (or document) for each change.
template <class Reader, class Message, class Object>
int Watch(const Get& get, const std::string& resource, Reader& reader,
          const Object& (*object_of)(const Message&), Cells (*header)(const RowStyle&),
          Cells (*row)(const Object&, const RowStyle&)) {
  RowStyle style = get.Style();
  Table table(header(style));
  bool initial = true;
  bool header_due = !get.options.no_headers;
  Message message;
  while (reader.Read(&message)) {
    if (message.type() == v1::BOOKMARK) {
      initial = false;
    } else if (get.output.IsTable()) {
      style.now = CurrentTime();
      table.AddRow(row(object_of(message), style));
    } else {
      Write(PrintObjects(get.output, resource, {&object_of(message)}, true));
    }
    if (initial || table.rows() == 0) continue;
    Write(table.Render(std::exchange(header_due, false)));
  }
  return Report(reader.Finish());
}

int WatchPods(const Get& get) {
  grpc::ClientContext context;
  v1::WatchPodsRequest request;
  request.set_namespace_(get.Namespace());
  request.set_label_selector(get.options.selector);
  if (!get.names.empty()) {
    core::Pod pod;
    const grpc::Status found = FindPod(get.session, get.names.front(), pod);
    if (!found.ok()) return Report(found);
    request.set_namespace_(pod.metadata().namespace_());
    request.set_name(pod.metadata().name());
  }
  const auto reader = get.session.stub().WatchPods(&context, request);
  const auto pod_of = +[](const v1::PodChange& change) -> const core::Pod& { return change.pod(); };
  return Watch(get, "pod", *reader, pod_of, PodHeader, PodRow);
}

int GetPods(const Get& get) {
  if (get.options.watch) return WatchPods(get);
  auto [status, pods] =
      ListPods(get.session, get.names.empty() ? get.Namespace() : "", get.options.selector);
  if (!status.ok()) return Report(status);
  int code = kOk;
  if (!get.names.empty()) {
    std::vector<core::Pod> picked;
    for (const std::string& name : get.names) {
      const auto found = PickPod(pods, ParsePodName(name, get.session.options().name_space));
      if (found) {
        picked.push_back(**found);
      } else {
        code = Report(grpc::Status(found.error().code() == Code::kNotFound
                                       ? grpc::StatusCode::NOT_FOUND
                                       : grpc::StatusCode::INVALID_ARGUMENT,
                                   found.error().message()));
      }
    }
    pods = std::move(picked);
    if (pods.empty()) return code;
  }
  if (pods.empty() && get.output.IsTable()) return NothingFound(get);
  Show(get, "pod", pods, get.names.size() == 1, PodHeader, PodRow);
  return code;
}

int GetEvents(const Get& get) {
  if (get.options.watch) {
    grpc::ClientContext context;
    v1::WatchEventsRequest request;
    request.set_namespace_(get.Namespace());
    const auto reader = get.session.stub().WatchEvents(&context, request);
    const auto event_of =
        +[](const v1::EventChange& change) -> const core::Event& { return change.event(); };
    return Watch(get, "event", *reader, event_of, EventHeader, EventRow);
  }
  v1::ListEventsRequest request;
  request.set_namespace_(get.Namespace());
  auto [status, events] = ListEvents(get.session, request);
  if (!status.ok()) return Report(status);
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return EventTime(a) < EventTime(b); });
  if (events.empty() && get.output.IsTable()) return NothingFound(get);
  Show(get, "event", events, false, EventHeader, EventRow);
  return kOk;
}

int GetNode(const Get& get) {
  const auto [status, nodes] = ListNodes(get.session);
  if (!status.ok()) return Report(status);
  for (const std::string& name : get.names) {
    if (name == nodes.front().metadata().name()) continue;
    return Report({grpc::StatusCode::NOT_FOUND, "nodes \"" + name + "\" not found"});
  }
  Show(get, "node", nodes, !get.names.empty(), NodeHeader, NodeRow);
  return kOk;
}

// Keeps the objects that were named; kFailed and a message for a name that none has.
template <class Object, class NameOf>
int PickByName(const Get& get, const char* resource, NameOf name_of, std::vector<Object>& objects) {
  if (get.names.empty()) return kOk;
  int code = kOk;
  std::vector<Object> picked;
  for (const std::string& name : get.names) {
    const size_t before = picked.size();
    for (const Object& object : objects) {
      if (name_of(object) == name) picked.push_back(object);
    }
    if (picked.size() != before) continue;
    code = Report({grpc::StatusCode::NOT_FOUND, StrCat(resource, " \"", name, "\" not found")});
  }
  objects = std::move(picked);
  return code;
}

int GetServices(const Get& get) {
  auto [status, services] = ListServices(get.session, get.Namespace(), get.options.selector);
  if (!status.ok()) return Report(status);
  const int code = PickByName(
      get, "services", [](const core::Service& s) { return s.metadata().name(); }, services);
  if (services.empty()) return code != kOk ? code : NothingFound(get);
  Show(get, "service", services, get.names.size() == 1, ServiceHeader, ServiceRow);
  return code;
}

// By service; as documents the slices themselves.
int GetEndpoints(const Get& get) {
  auto [status, slices] = ListSlices(get.session, get.Namespace());
  if (!status.ok()) return Report(status);
  const int code = PickByName(get, "endpoints", ServiceOfSlice, slices);
  if (slices.empty()) return code != kOk ? code : NothingFound(get);
  if (!get.output.IsTable()) {
    std::vector<const google::protobuf::Message*> messages;
    for (const Slice& slice : slices) messages.push_back(&slice);
    Write(PrintObjects(get.output, "endpointslice", messages, slices.size() == 1));
    return code;
  }
  const RowStyle style = get.Style();
  Table table(EndpointsHeader(style));
  for (const EndpointsOfService& endpoints : GroupByService(slices)) {
    table.AddRow(EndpointsRow(endpoints, style));
  }
  Write(table.Render(!get.options.no_headers));
  return code;
}

int GetImages(const Get& get) {
  grpc::ClientContext context;
  v1::ListImagesResponse response;
  const grpc::Status status =
      get.session.stub().ListImages(&context, v1::ListImagesRequest(), &response);
  if (!status.ok()) return Report(status);
  const std::vector<v1::Image> images(response.images().begin(), response.images().end());
  if (!get.output.IsTable()) {
    Write(PrintImages(get.output, images, false));
    return kOk;
  }
  if (images.empty()) {
    std::fprintf(stderr, "No images yet; add one: holdctl image import FILE\n");
    return kOk;
  }
  const RowStyle style = get.Style();
  Table table(ImageHeader(style));
  for (const v1::Image& image : images) {
    for (Cells& row : ImageRows(image, style)) table.AddRow(std::move(row));
  }
  Write(table.Render(!get.options.no_headers));
  return kOk;
}

int RunGet(const GetOptions& options, const GlobalOptions& global) {
  auto output = ParseOutput(options.output);
  if (!output) throw CLI::ValidationError("-o", output.error().message());
  return WithSession(global, [&](Session& session) {
    Get get{.options = options, .session = session, .output = std::move(*output), .names = {}};
    if (const auto read = ReadWords(get); !read) return Report(read.error());
    switch (get.resource) {
      case Resource::kPods:
        return GetPods(get);
      case Resource::kEvents:
        return GetEvents(get);
      case Resource::kNodes:
        return GetNode(get);
      case Resource::kServices:
        return GetServices(get);
      case Resource::kEndpoints:
        return GetEndpoints(get);
      case Resource::kImages:
        return GetImages(get);
    }
    return kUsage;
  });
}

void AddGetFlags(CLI::App& command, GetOptions& options, Invocation& invocation) {
  command.add_option("-o,--output", options.output,
                     "table, wide, json, yaml, name or jsonpath=TEMPLATE");
  command.add_flag("-A,--all-namespaces", invocation.global.all_namespaces, "All namespaces");
  command.add_option("-l,--selector", options.selector,
                     "Label selector, for example app=web,tier!=test");
  command.add_flag("-w,--watch", options.watch, "Show changes as they happen");
  command.add_flag("--no-headers", options.no_headers, "Leave out the table's header");
}

}  // namespace

void AddGet(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<GetOptions>();
  CLI::App* command =
      app.add_subcommand("get", "Show pods, services, endpoints, events, the node or images");
  command->fallthrough();
  command
      ->add_option(
          "resource", options->words,
          "pods (po), services (svc), endpoints (ep), events (ev), node (no) or images, and "
          "names")
      ->required();
  AddGetFlags(*command, *options, invocation);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunGet(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
