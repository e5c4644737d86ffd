// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/message_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/stubs/logging.h>

namespace holdfast::agent::kube {

std::string BytesOf(const google::protobuf::MessageLite& message) {
  const google::protobuf::LogSilencer silencer;  // it would write to stderr what is not UTF-8
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  return bytes;
}

bool SameMessage(const google::protobuf::MessageLite& a, const google::protobuf::MessageLite& b) {
  return a.ByteSizeLong() == b.ByteSizeLong() && BytesOf(a) == BytesOf(b);
}

}  // namespace holdfast::agent::kube
