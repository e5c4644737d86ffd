// SPDX-License-Identifier: Apache-2.0
// -o: how objects are written. Pure but for files of templates and the last two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/cli/columns.h"
#include "agent/cli/jsonpath.h"
#include "agent/cli/object.h"
#include "agent/kube/tree.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::cli {

struct Output {
  enum class Kind : uint8_t {
    kTable,
    kWide,
    kJson,
    kYaml,
    kName,
    kJsonPath,
    kJsonPathAsJson,
    kColumns,
  };
  Kind kind = Kind::kTable;
  std::optional<JsonPath> path;          // kJsonPath, kJsonPathAsJson
  std::optional<CustomColumns> columns;  // kColumns
  bool IsTable() const { return kind == Kind::kTable || kind == Kind::kWide; }
};

// "", "table", "wide", "json", "yaml", "name", "jsonpath=TEMPLATE", "jsonpath-as-json=TEMPLATE",
// "jsonpath-file=FILE", "custom-columns=SPEC", "custom-columns-file=FILE"; kInvalidArgument lists
// them. May read the file.
Result<Output> ParseOutput(const std::string& text);

// For commands that print text of their own or one document: "" (kTable), "json", "yaml";
// kInvalidArgument lists them.
Result<Output> ParseDocumentOutput(const std::string& text);

// A document that is no Kubernetes object, as kJson or kYaml.
std::string PrintDocument(const Output& output, const kube::Node& document);

// Kubernetes objects in every form but the tables; `single`: one object, not a List of one.
// kInvalidArgument: a jsonpath that does not fit.
Result<std::string> PrintObjects(const Output& output, const std::vector<Object>& objects,
                                 bool single, bool with_header = true);

// The same for images, which are no Kubernetes objects; as names, each of every image.
Result<std::string> PrintImages(const Output& output, const std::vector<v1::Image>& images,
                                bool single);

// "No resources found", in that namespace or ("") at all, to stderr.
void ReportNothingFound(const std::string& name_space);

WallTime CurrentTime();

}  // namespace holdfast::agent::cli
