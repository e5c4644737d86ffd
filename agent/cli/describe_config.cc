// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "agent/cli/describe.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

// By key, as bytes are ordered.
template <class Values>
auto SortedByKey(const Values& values) {
  return std::map<std::string, typename Values::mapped_type>(values.begin(), values.end());
}

void DescribeName(const auto& meta, DescribeWriter& out) {
  out.Line(0, "Name:", meta.name());
  out.Line(0, "Namespace:", meta.namespace_());
  DescribeLabels(meta, out);
}

// Below an empty line.
void Heading(const char* title, DescribeWriter& out) {
  out.Text(0, "");
  out.Text(0, title);
  out.Text(0, "====");
}

}  // namespace

// A value that ends in a line break has an empty line more below it.
std::string DescribeConfigMap(const k8s::io::api::core::v1::ConfigMap& map, const Events& events,
                              WallTime now) {
  DescribeWriter out;
  DescribeName(map.metadata(), out);
  Heading("Data", out);
  for (const auto& [key, value] : SortedByKey(map.data())) {
    out.Text(0, StrCat(key, ":"));
    out.Text(0, "----");
    out.Text(0, value + '\n');
    out.Text(0, "");
  }
  Heading("BinaryData", out);
  for (const auto& [key, value] : SortedByKey(map.binarydata())) {
    out.Text(0, StrCat(key, ": ", value.size(), " bytes"));
  }
  out.Text(0, "");
  DescribeEvents(events, now, out);
  return out.Render();
}

std::string DescribeSecret(const v1::ListSecretsResponse::Secret& secret) {
  DescribeWriter out;
  DescribeName(secret.metadata(), out);
  out.Text(0, "");
  out.Line(0, "Type:", secret.type());
  Heading("Data", out);
  for (const auto& [key, bytes] : SortedByKey(secret.data_bytes())) {
    out.Line(0, StrCat(key, ":"), StrCat(bytes, " bytes"));
  }
  return out.Render();
}

}  // namespace holdfast::agent::cli
