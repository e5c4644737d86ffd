// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/same_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

#include <string>

namespace holdfast::agent::kube {
namespace {

// The entries of a map in the order of their keys.
std::string BytesOf(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeWithCachedSizes(&out);
  out.Trim();
  return bytes;
}

}  // namespace

bool SameMessage(const google::protobuf::MessageLite& a, const google::protobuf::MessageLite& b) {
  return a.ByteSizeLong() == b.ByteSizeLong() && BytesOf(a) == BytesOf(b);
}

}  // namespace holdfast::agent::kube
