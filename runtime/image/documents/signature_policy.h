// SPDX-License-Identifier: Apache-2.0
// SignaturePolicy: which images may come in, by what they come from, as a policy.json says. Signatures are not
// checked here, so a file that wants one checked is refused as a whole. Immutable; thread-safe.
// Source: containers-policy.json(5).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/image/documents/reference.h"

namespace holdfast::runtime {

// What an image is imported from.
enum class ImportKind : uint8_t { kOciArchive, kOciDirectory, kDockerArchive, kRootTar };

class SignaturePolicy {
 public:
  // Every image may come in.
  SignaturePolicy() = default;
  // kInvalidArgument where the text is no policy, or one that cannot be kept to.
  static Result<SignaturePolicy> Parse(std::string_view text);

  // kPermissionDenied, whose text begins as that of CRI-O, so that a pod waits with the reason
  // SignatureValidationFailed.
  Result<void> AdmitPull(const Reference& reference) const;
  // kPermissionDenied.
  Result<void> AdmitImport(ImportKind kind) const;

 private:
  bool Accepts(std::string_view transport, const std::vector<std::string>& scopes) const;

  bool default_ = true;
  // Transport -> scope -> whether it accepts. Of registries "host/path:tag", "host/path", "*.host", ""; of others "".
  std::map<std::string, std::map<std::string, bool, std::less<>>, std::less<>> transports_;
};

}  // namespace holdfast::runtime
