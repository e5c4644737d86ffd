// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/manifest_reader.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "agent/kube/suggest.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

class ManifestReader {
 public:
  explicit ManifestReader(std::string_view file) : file_(file) {}

  void AddErrors(std::vector<ParseError> errors) {
    for (ParseError& error : errors) {
      result_.diagnostics.push_back(
          {file_, error.at, std::move(error.path), std::move(error.message)});
    }
  }

  void AddDocument(Node document) {
    tree_ = std::make_shared<const Node>(std::move(document));
    AddObject(*tree_, "");
    ++document_;
  }

  Manifest Take() {
    std::stable_sort(result_.diagnostics.begin(), result_.diagnostics.end(),
                     [](const Diagnostic& a, const Diagnostic& b) {
                       return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
                     });
    return std::move(result_);
  }

 private:
  void Report(Position at, std::string path, std::string message) {
    result_.diagnostics.push_back({file_, at, std::move(path), std::move(message)});
  }

  static std::string Join(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : StrCat(path, ".", name);
  }

  // The text of a field that every object has; empty after a report.
  std::string Required(const Node& node, const std::string& path, std::string_view name) {
    const Node* value = node.Find(name);
    if (value == nullptr || value->kind == Node::Kind::kNull) {
      Report(node.at, Join(path, name), "Required value");
    } else if (value->kind != Node::Kind::kString) {
      Report(value->at, Join(path, name), StrCat("expected a string, got ", KindName(value->kind)));
    } else if (value->text.empty()) {
      Report(value->at, Join(path, name), "Required value");
    } else {
      return value->text;
    }
    return {};
  }

  void AddObject(const Node& node, const std::string& path) {
    if (node.kind != Node::Kind::kMap) {
      return Report(node.at, path, StrCat("expected an object, got ", KindName(node.kind)));
    }
    const TypeMeta type = {Required(node, path, "apiVersion"), Required(node, path, "kind")};
    if (type.kind.empty() || type.api_version.empty()) return;
    const Node* items = node.Find("items");
    if (type.kind.ends_with("List") && (type.kind == "List" || NewObject(type) != nullptr)) {
      if (items != nullptr) AddItems(*items, Join(path, "items"), type);
      return;
    }
    ObjectPtr object = NewObject(type);
    if (object == nullptr) return ReportUnknownKind(node, path, type);
    const size_t errors = result_.diagnostics.size();
    FromTree(node, {.strict = true, .file = file_, .path = path}, object.get(),
             &result_.diagnostics);
    if (result_.diagnostics.size() != errors) return;
    result_.objects.push_back({type, std::move(object), document_, tree_, file_, path});
  }

  void AddItems(const Node& items, const std::string& path, const TypeMeta& list) {
    if (items.kind == Node::Kind::kNull) return;
    if (items.kind != Node::Kind::kList) {
      return Report(items.at, path, StrCat("expected a list, got ", KindName(items.kind)));
    }
    for (size_t i = 0; i < items.items.size(); ++i) {
      Node const& item = items.items[i];
      const std::string item_path = StrCat(path, "[", i, "]");
      // The items of a typed list need not say their kind.
      const bool untyped = list.kind != "List" && item.kind == Node::Kind::kMap &&
                           item.Find("kind") == nullptr && item.Find("apiVersion") == nullptr;
      if (!untyped) {
        AddObject(item, item_path);
        continue;
      }
      Node typed = item;
      typed.Add("apiVersion", Node::String(list.api_version));
      typed.Add("kind", Node::String(list.kind.substr(0, list.kind.size() - 4)));
      AddObject(typed, item_path);
    }
  }

  void ReportUnknownKind(const Node& node, const std::string& path, const TypeMeta& type) {
    const std::vector<TypeMeta> known = KnownKinds();
    std::vector<std::string_view> kinds;
    for (const TypeMeta& entry : known) {
      if (entry.kind == type.kind) {
        return Report(node.Find("apiVersion")->at, Join(path, "apiVersion"),
                      StrCat("no kind ", Quoted(type.kind), " in ", Quoted(type.api_version),
                             ", it is in \"", entry.api_version, "\""));
      }
      kinds.push_back(entry.kind);
    }
    Report(node.Find("kind")->at, Join(path, "kind"),
           StrCat("no such kind: ", Quoted(type.kind), " of ", Quoted(type.api_version),
                  DidYouMean(type.kind, kinds)));
  }

  std::string file_;
  Manifest result_;
  std::shared_ptr<const Node> tree_;
  size_t document_ = 0;
};

}  // namespace

Diagnostic ManifestObject::At(std::string_view field_path, std::string message) const {
  std::string full = path;
  if (!full.empty() && !field_path.empty()) full += '.';
  full += field_path;
  const Position at = tree == nullptr ? Position{} : Locate(*tree, full);
  return {file, at, std::move(full), std::move(message)};
}

Manifest ReadManifest(std::string_view file, std::string_view text, const ParseLimits& limits) {
  ParsedText parsed = ParseYamlOrJson(text, limits);
  ManifestReader reader(file);
  reader.AddErrors(std::move(parsed.errors));
  for (Node& document : parsed.documents) reader.AddDocument(std::move(document));
  return reader.Take();
}

}  // namespace holdfast::agent::kube
