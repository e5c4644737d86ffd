// SPDX-License-Identifier: Apache-2.0
// Values as Kubernetes shows them in a fault: whole messages and lists as JSON. Internal to the
// validation. Pure.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <type_traits>

#include "agent/kube/codec.h"
#include "agent/kube/diagnostic.h"
#include "agent/kube/print.h"

namespace holdfast::agent::kube {

inline std::string ShownJson(const google::protobuf::Message& message) {
  return CompactJson(ToTree(message));
}

// ["a","b"]
template <class List>
std::string ShownList(const List& list) {
  std::string text = "[";
  for (const auto& item : list) {
    if (text.size() > 1) text += ',';
    if constexpr (std::is_convertible_v<decltype(item), std::string>) {
      text += Quoted(item);
    } else {
      text += ShownJson(item);
    }
  }
  return text + "]";
}

}  // namespace holdfast::agent::kube
