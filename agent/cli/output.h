// SPDX-License-Identifier: Apache-2.0
// -o: how objects are written. Pure but for the last two.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/cli/jsonpath.h"
#include "agent/kube/tree.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/v1/node_agent.pb.h"

namespace holdfast::agent::cli {

struct Output {
  enum class Kind : uint8_t { kTable, kWide, kJson, kYaml, kName, kJsonPath };
  Kind kind = Kind::kTable;
  std::optional<JsonPath> path;  // kJsonPath
  bool IsTable() const { return kind == Kind::kTable || kind == Kind::kWide; }
};

// "", "table", "wide", "json", "yaml", "name", "jsonpath=TEMPLATE"; kInvalidArgument lists them.
Result<Output> ParseOutput(const std::string& text);

// For commands that print text of their own or one document: "" (kTable), "json", "yaml";
// kInvalidArgument lists them.
Result<Output> ParseDocumentOutput(const std::string& text);

// A document that is no Kubernetes object, as kJson or kYaml.
std::string PrintDocument(const Output& output, const kube::Node& document);

// Kubernetes objects in every form but the tables; `single`: one object, not a List of one.
// `resource`: "pod", for -o name.
std::string PrintObjects(const Output& output, const std::string& resource,
                         const std::vector<const google::protobuf::Message*>& objects, bool single);

// The same for images, which are no Kubernetes objects.
std::string PrintImages(const Output& output, const std::vector<v1::Image>& images, bool single);

// "No resources found", in that namespace or ("") at all, to stderr.
void ReportNothingFound(const std::string& name_space);

WallTime CurrentTime();

}  // namespace holdfast::agent::cli
