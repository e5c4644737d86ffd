// SPDX-License-Identifier: Apache-2.0
// From text to trees: YAML 1.1 as Kubernetes reads it (through libyaml, whose grammar Kubernetes'
// own parser is a port of), and strict JSON. Pure functions; the text is untrusted.
// Aliases, merge keys and tags other than !!str are refused: nothing in a text can make its tree
// larger than the text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/tree.h"

namespace holdfast::agent::kube {

struct ParseLimits {
  size_t max_bytes = 10u << 20;          // of the whole text (feature-map 1.1.3)
  size_t max_document_bytes = 1u << 20;  // of one document
  size_t max_documents = 1000;
  size_t max_depth = 64;
  size_t max_values = 100'000;  // of one document
};

struct ParseError {
  Position at;
  std::string path;  // for an error inside a tree, else empty
  std::string message;
};

struct ParsedText {
  std::vector<Node> documents;     // empty ones are left out; complete ones before an error stay
  std::vector<ParseError> errors;  // a doubled key does not stop the parser, all others do
};

// What is wrong with the text as such: size, UTF-8, NUL and other control characters.
std::vector<ParseError> CheckText(std::string_view text, const ParseLimits& limits);

ParsedText ParseYaml(std::string_view text, const ParseLimits& limits = {});

// Documents may follow each other, as in a stream of objects.
ParsedText ParseJson(std::string_view text, const ParseLimits& limits = {});

// JSON when the first character that is no space is '{', else YAML. Includes CheckText().
ParsedText ParseYamlOrJson(std::string_view text, const ParseLimits& limits = {});

}  // namespace holdfast::agent::kube
