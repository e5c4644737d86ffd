// SPDX-License-Identifier: Apache-2.0
// The codec between Kubernetes messages and their three written forms: protobuf in the API server's
// envelope, JSON, YAML. It works by reflection on the schema in proto/k8s and its field options.
// Pure; thread-safe. Fields are named as in JSON; map keys are sorted; zero values are left out
// exactly where the API server leaves them out.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/diagnostic.h"
#include "agent/kube/scheme.h"
#include "agent/kube/tree.h"
#include "agent/kube/types_fwd.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::kube {

// --- protobuf ---

// "k8s\0" and the envelope with apiVersion and kind. `object` must be of a known kind.
std::string EncodeEnvelope(const google::protobuf::Message& object);

// kInvalidArgument without the four magic bytes or when the content does not parse, kUnsupported
// for a kind that is not known. `expected` is what it is when the envelope does not say (watch
// events never do). Fields that are not known are kept in the message.
Result<ObjectPtr> DecodeEnvelope(std::string_view bytes, const TypeMeta& expected = {});

// --- JSON and YAML ---

// The object as a tree in the order in which the API server writes, with kind and apiVersion in
// front when it is of a known kind.
Node ToTree(const google::protobuf::Message& object);

// One line, as the API server sends it.
std::string EncodeJson(const google::protobuf::Message& object);

// As kubectl get -o json and -o yaml print one object; both end with a newline.
std::string PrintJson(const google::protobuf::Message& object);
std::string PrintYaml(const google::protobuf::Message& object);

// As kubectl prints several: a List of them.
std::string PrintJsonList(const std::vector<const google::protobuf::Message*>& objects);
std::string PrintYamlList(const std::vector<const google::protobuf::Message*>& objects);

struct DecodeOptions {
  bool strict = true;  // fields that are not known are errors
  std::string file;    // for the diagnostics
  std::string path;    // of the tree within the document, "items[2]"
};

// Fills `object` from the tree, which may carry kind and apiVersion when `object` is of a known
// kind. Appends one diagnostic for each thing that is wrong and goes on; what could not be read
// stays unset. Quantities become canonical, as the API server makes them.
void FromTree(const Node& tree, const DecodeOptions& options, google::protobuf::Message* object,
              std::vector<Diagnostic>* diagnostics);

// JSON of the API server: not strict; kInvalidArgument names everything that is wrong. `expected`
// is what it is when the text does not say.
Result<ObjectPtr> DecodeJson(std::string_view text, const TypeMeta& expected = {});

}  // namespace holdfast::agent::kube
