// SPDX-License-Identifier: Apache-2.0
// get: objects of one or several kinds as tables or documents; pods and events also watched.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/objects.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/resource.h"
#include "agent/cli/rows.h"
#include "agent/cli/selection.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/event.pb.h"
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
  std::string field_selector;
  std::string sort_by;
  std::vector<std::string> label_columns;
  bool show_labels = false;
  bool show_kind = false;
  bool ignore_not_found = false;
  bool watch = false;
  bool no_headers = false;
};

struct Get {
  const GetOptions& options;
  Session& session;
  Output output;
  ResourceWords words;
  FieldSelector fields;
  LabelColumns labels;

  std::string Namespace() const {
    return session.options().all_namespaces ? "" : session.options().name_space;
  }
  RowStyle Style() const {
    return {.wide = output.kind == Output::Kind::kWide,
            .with_namespace = session.options().all_namespaces,
            .now = CurrentTime()};
  }
  // As kubectl: one object that was named is no List. The slices of a Service are one.
  bool Single() const {
    return words.objects.size() == 1 && words.objects.front().resource != Resource::kEndpoints;
  }
};

// --- tables -------------------------------------------------------------------------------------

Cells Header(Resource resource, const RowStyle& style) {
  switch (resource) {
    case Resource::kPods:
      return PodHeader(style);
    case Resource::kServices:
      return ServiceHeader(style);
    case Resource::kEndpoints:
      return EndpointsHeader(style);
    case Resource::kEndpointSlices:
      return SliceHeader(style);
    case Resource::kEvents:
      return EventHeader(style);
    case Resource::kNodes:
      return NodeHeader(style);
    case Resource::kConfigMaps:
      return ConfigMapHeader(style);
    case Resource::kSecrets:
      return SecretHeader(style);
    case Resource::kImages:
      return ImageHeader(style);
  }
  return {};
}

Cells Row(const Object& object, const RowStyle& style) {
  switch (object.resource) {
    case Resource::kPods:
      return PodRow(object.As<core::Pod>(), style);
    case Resource::kServices:
      return ServiceRow(object.As<core::Service>(), style);
    case Resource::kEndpointSlices:
      return SliceRow(object.As<Slice>(), style);
    case Resource::kEvents:
      return EventRow(object.As<core::Event>(), style);
    case Resource::kNodes:
      return NodeRow(object.As<core::Node>(), style);
    case Resource::kConfigMaps:
      return ConfigMapRow(object.As<core::ConfigMap>(), style);
    case Resource::kSecrets:
      return SecretRow(object.As<SecretSummary>(), style);
    case Resource::kEndpoints:
    case Resource::kImages:
      break;
  }
  return {};
}

Table MakeTable(const Get& get, Resource resource, const RowStyle& style) {
  Cells header = Header(resource, style);
  get.labels.AddHeader(header);
  return Table(std::move(header));
}

void AddRow(const Get& get, const Object& object, const RowStyle& style, Table& table) {
  Cells row = Row(object, style);
  if (style.with_kind) {
    const size_t name = style.with_namespace && object.resource != Resource::kNodes ? 1 : 0;
    row.at(name) = StrCat(Singular(object.resource), "/", row.at(name));
  }
  get.labels.AddCells(object.meta->labels(), row);
  table.AddRow(std::move(row));
}

// A row for each Service; the labels are those of its first slice.
void AddEndpoints(const Get& get, const std::vector<Object>& objects, const RowStyle& style,
                  Table& table) {
  std::vector<Slice> slices;
  for (const Object& object : objects) slices.push_back(object.As<Slice>());
  for (const EndpointsOfService& endpoints : GroupByService(slices)) {
    Cells row = EndpointsRow(endpoints, style);
    if (style.with_kind) row.at(style.with_namespace ? 1 : 0).insert(0, "endpoints/");
    get.labels.AddCells(endpoints.slices.front()->metadata().labels(), row);
    table.AddRow(std::move(row));
  }
}

std::string TableOf(const Get& get, Resource resource, const std::vector<Object>& objects) {
  RowStyle style = get.Style();
  style.with_kind = get.options.show_kind || get.words.resources.size() > 1;
  Table table = MakeTable(get, resource, style);
  if (resource == Resource::kEndpoints) {
    AddEndpoints(get, objects, style, table);
  } else {
    for (const Object& object : objects) AddRow(get, object, style, table);
  }
  return table.Render(!get.options.no_headers);
}

// --- what is there ------------------------------------------------------------------------------

// The objects of one kind that were asked for. `code` is kFailed where one that was named is not
// there: that is told, and the others are shown.
Listed<Object> Gather(const Get& get, Resource resource, int& code) {
  Listed<Object> found;
  if (get.words.objects.empty()) {
    found = ListObjects(get.session, resource, {get.Namespace(), get.options.selector});
  }
  Listings listings(get.session);
  for (const ObjectName& object : get.words.objects) {
    if (object.resource != resource) continue;
    const PodName name = ParsePodName(object.name, get.session.options().name_space);
    const Listed<Object>& listed = listings.Of(resource, name.name_space);
    if (!listed.status.ok()) return listed;
    const auto picked = PickObjects(listed.objects, resource, name);
    if (picked) {
      found.objects.insert(found.objects.end(), picked->begin(), picked->end());
    } else if (!get.options.ignore_not_found || picked.error().code() != Code::kNotFound) {
      code = ReportPick(picked.error());
    }
  }
  std::erase_if(found.objects, [&](const Object& object) { return !get.fields.Matches(object); });
  return found;
}

// The documents or tables of all kinds, in the order in which they were named.
int ShowObjects(const Get& get) {
  int code = kOk;
  std::vector<Object> all;
  std::string tables;
  for (const Resource resource : get.words.resources) {
    Listed<Object> found = Gather(get, resource, code);
    if (!found.status.ok()) return Report(found.status);
    if (!get.options.sort_by.empty()) {
      if (const auto sorted = SortBy(get.options.sort_by, found.objects); !sorted) {
        return Report(sorted.error());
      }
    }
    if (get.output.IsTable() && !found.objects.empty()) {
      tables += StrCat(tables.empty() ? "" : "\n", TableOf(get, resource, found.objects));
    }
    all.insert(all.end(), found.objects.begin(), found.objects.end());
  }
  if (get.output.IsTable()) {
    if (all.empty() && code == kOk && !get.options.ignore_not_found) {
      ReportNothingFound(get.Namespace());
    }
    Print(tables);
    return code;
  }
  const bool none_of_those = all.empty() && !get.words.objects.empty();
  if (none_of_those && (code != kOk || get.options.ignore_not_found)) return code;
  const auto text = PrintObjects(get.output, all, get.Single(), !get.options.no_headers);
  if (!text) return Report(text.error());
  Print(*text);
  return code;
}

int ShowImages(const Get& get) {
  v1::ListImagesResponse response;
  const grpc::Status status = Ask(get.session, [&](Call& call) {
    return get.session.stub().ListImages(&call, v1::ListImagesRequest(), &response);
  });
  if (!status.ok()) return Report(status);
  const std::vector<v1::Image> images(response.images().begin(), response.images().end());
  if (!get.output.IsTable()) {
    const auto text = PrintImages(get.output, images, false);
    if (!text) return Report(text.error());
    Print(*text);
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
  Print(table.Render(!get.options.no_headers));
  return kOk;
}

// --- watching -----------------------------------------------------------------------------------

// Prints what is there as one table, then a row (or document) for each change.
class Watcher {
 public:
  explicit Watcher(const Get& get, Resource resource)
      : get_(get), style_(get.Style()), table_(MakeTable(get, resource, style_)) {}

  // False: nobody reads what is printed.
  bool Take(v1::ChangeType type, const Object& object) {
    if (type == v1::BOOKMARK) {
      initial_ = false;
    } else if (!Wanted(object)) {
      return true;
    } else if (get_.output.IsTable()) {
      style_.now = CurrentTime();
      AddRow(get_, object, style_, table_);
    } else if (!Print(object)) {
      return false;
    }
    if (initial_ || table_.rows() == 0) return true;
    return Write(table_.Render(std::exchange(header_due_, false)));
  }

  const std::optional<Error>& failure() const { return failure_; }

 private:
  // One that fits no longer is shown once more, as one that is gone.
  bool Wanted(const Object& object) {
    const bool fits = get_.fields.Matches(object);
    const bool shown = shown_.contains(object.meta->uid());
    if (fits) shown_.insert(object.meta->uid());
    if (!fits) shown_.erase(object.meta->uid());
    return fits || shown;
  }

  bool Print(const Object& object) {
    const bool header = get_.output.kind == Output::Kind::kColumns && header_due_;
    auto text = PrintObjects(get_.output, {object}, true, header);
    if (header) header_due_ = false;
    if (text) return Write(*text);
    failure_ = std::move(text.error());
    return false;
  }

  const Get& get_;
  RowStyle style_;
  Table table_;
  std::set<std::string> shown_;  // UIDs
  std::optional<Error> failure_;
  bool initial_ = true;
  bool header_due_ = !get_.options.no_headers;
};

template <class Change, class Reader, class ObjectOf>
int Watch(const Get& get, grpc::ClientContext& context, Reader& reader, ObjectOf object_of) {
  Watcher watcher(get, get.words.resources.front());
  Change change;
  while (reader.Read(&change)) {
    if (watcher.Take(change.type(), object_of(change))) continue;
    GiveUp(context, reader);
    return watcher.failure() ? Report(*watcher.failure()) : kOk;  // a failed write is told later
  }
  return Report(reader.Finish());
}

int WatchPods(const Get& get) {
  grpc::ClientContext context;
  v1::WatchPodsRequest request;
  request.set_namespace_(get.Namespace());
  request.set_label_selector(get.options.selector);
  if (!get.words.objects.empty()) {
    const auto pod = FindPod(get.session, get.words.objects.front().name);
    if (!pod) return kFailed;
    request.set_namespace_(pod->metadata().namespace_());
    request.set_name(pod->metadata().name());
  }
  const auto reader = get.session.stub().WatchPods(&context, request);
  return Watch<v1::PodChange>(get, context, *reader, [](const v1::PodChange& change) {
    return MakeObject(Resource::kPods, change.pod());
  });
}

int WatchEvents(const Get& get) {
  grpc::ClientContext context;
  v1::WatchEventsRequest request;
  request.set_namespace_(get.Namespace());
  const auto reader = get.session.stub().WatchEvents(&context, request);
  return Watch<v1::EventChange>(get, context, *reader, [](const v1::EventChange& change) {
    return MakeObject(Resource::kEvents, change.event());
  });
}

Result<void> CheckWatch(const Get& get) {
  const auto& [resources, objects] = get.words;
  if (resources.size() > 1) return InvalidArgument("you may only specify a single resource type");
  if (objects.size() > 1) return InvalidArgument("you may only watch one object, or all of a type");
  const Resource resource = resources.front();
  if (resource != Resource::kPods && resource != Resource::kEvents) {
    return InvalidArgument(StrCat(Plural(resource), " cannot be watched; pods and events can"));
  }
  if (resource == Resource::kEvents && (!objects.empty() || !get.options.selector.empty())) {
    return InvalidArgument("events are watched without names and labels; --field-selector selects");
  }
  if (!get.options.sort_by.empty()) {
    return InvalidArgument("--sort-by is of no use with --watch: changes come as they happen");
  }
  return {};
}

// --- the command --------------------------------------------------------------------------------

Result<void> CheckRequest(const Get& get) {
  const auto& [resources, objects] = get.words;
  const GlobalOptions& global = get.session.options();
  const GetOptions& options = get.options;
  const bool selects = !options.selector.empty() || !options.field_selector.empty();
  if (!objects.empty() && selects) {
    return InvalidArgument("name cannot be provided when a selector is specified");
  }
  if (!objects.empty() && global.all_namespaces) {
    return InvalidArgument("a resource cannot be retrieved by name across all namespaces");
  }
  const bool images =
      std::find(resources.begin(), resources.end(), Resource::kImages) != resources.end();
  const bool more = selects || !options.sort_by.empty() || options.show_labels ||
                    !options.label_columns.empty() || !objects.empty() || resources.size() > 1;
  if (images && more) {
    return InvalidArgument(
        "images are shown all and alone, without labels; one: holdctl image inspect NAME");
  }
  // An object without its data would look whole: whoever applied it would lose what it holds, and a
  // template would give "" for a password.
  const bool secrets =
      std::find(resources.begin(), resources.end(), Resource::kSecrets) != resources.end();
  if (secrets && !get.output.IsTable() && get.output.kind != Output::Kind::kName) {
    return InvalidArgument(
        "secrets are shown as a table or by -o name only, since the agent gives out no value of a "
        "Secret; \"holdctl describe secret NAME\" has its keys and their sizes, the values are in "
        "the manifest directory");
  }
  for (const Resource resource : resources) RETURN_IF_ERROR(get.fields.CheckFor(resource));
  return options.watch ? CheckWatch(get) : Result<void>();
}

std::vector<std::string> SplitAll(const std::vector<std::string>& values) {
  std::vector<std::string> all;
  for (const std::string& value : values) {
    for (std::string& part : SplitCommas(value)) all.push_back(std::move(part));
  }
  return all;
}

int RunGet(const GetOptions& options, const GlobalOptions& global) {
  auto output = ParseOutput(options.output);
  if (!output) return Report(output.error());
  auto words = ReadResourceWords(options.words);
  if (!words) return Report(words.error());
  auto fields = FieldSelector::Parse(options.field_selector);
  if (!fields) return Report(fields.error());
  return WithSession(global, [&](Session& session) {
    const Get get{.options = options,
                  .session = session,
                  .output = std::move(*output),
                  .words = std::move(*words),
                  .fields = std::move(*fields),
                  .labels = {SplitAll(options.label_columns), options.show_labels}};
    if (const auto checked = CheckRequest(get); !checked) return Report(checked.error());
    if (get.words.resources.front() == Resource::kImages) return ShowImages(get);
    if (!options.watch) return ShowObjects(get);
    return get.words.resources.front() == Resource::kPods ? WatchPods(get) : WatchEvents(get);
  });
}

void AddGetFlags(CLI::App& command, GetOptions& options, Invocation& invocation) {
  command.add_option(
      "-o,--output", options.output,
      "table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE, "
      "jsonpath-file=FILE, custom-columns=HEADER:PATH,… or custom-columns-file=FILE");
  command.add_flag("-A,--all-namespaces", invocation.global.all_namespaces, "All namespaces");
  command.add_option("-l,--selector", options.selector,
                     "Label selector, for example app=web,tier!=test");
  command.add_option("--field-selector", options.field_selector,
                     "Field selector, for example status.phase!=Running");
  command.add_option("--sort-by", options.sort_by,
                     "Sort by a field, for example .metadata.creationTimestamp");
  command.add_flag("--show-labels", options.show_labels, "A column with all labels");
  command.add_flag("--show-kind", options.show_kind, "The kind in front of each name");
  command.add_flag("--ignore-not-found", options.ignore_not_found,
                   "What was named and is not there is no failure");
  command
      .add_option("-L,--label-columns", options.label_columns, "A column for each of these labels")
      ->allow_extra_args(false);
  command.add_flag("-w,--watch", options.watch, "Show changes as they happen (pods, events)");
  command.add_flag("--no-headers", options.no_headers, "Leave out the table's header");
}

}  // namespace

void AddGet(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<GetOptions>();
  CLI::App* command = app.add_subcommand(
      "get", "Show pods, services, endpoints, events, the node, configmaps, secrets or images");
  command->fallthrough();
  command
      ->add_option(
          "resource", options->words,
          "pods (po), services (svc), endpoints (ep), endpointslices, events (ev), node "
          "(no), configmaps (cm), secrets, images, several (pods,svc) or all, and names; or "
          "TYPE/NAME…")
      ->required();
  AddGetFlags(*command, *options, invocation);
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunGet(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
