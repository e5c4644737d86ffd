// SPDX-License-Identifier: Apache-2.0
// ConfigMaps and Secrets as table rows.
#include <utility>

#include "agent/cli/durations.h"
#include "agent/cli/rows.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/config.pb.h"

namespace holdfast::agent::cli {
namespace {

std::string AgeOf(const auto& object, const RowStyle& style) {
  return Age(kube::ToWallTime(object.metadata().creationtimestamp()), style.now);
}

}  // namespace

Cells ConfigMapHeader(const RowStyle& style) {
  return WithNamespace(style, "NAMESPACE", {"NAME", "DATA", "AGE"});
}

Cells ConfigMapRow(const k8s::io::api::core::v1::ConfigMap& map, const RowStyle& style) {
  return WithNamespace(
      style, map.metadata().namespace_(),
      {map.metadata().name(), StrCat(map.data_size() + map.binarydata_size()), AgeOf(map, style)});
}

Cells SecretHeader(const RowStyle& style) {
  return WithNamespace(style, "NAMESPACE", {"NAME", "TYPE", "DATA", "AGE"});
}

Cells SecretRow(const v1::ListSecretsResponse::Secret& secret, const RowStyle& style) {
  return WithNamespace(style, secret.metadata().namespace_(),
                       {secret.metadata().name(), secret.type(), StrCat(secret.data_bytes_size()),
                        AgeOf(secret, style)});
}

}  // namespace holdfast::agent::cli
