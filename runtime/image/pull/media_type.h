// SPDX-License-Identifier: Apache-2.0
// What a manifest is: by the answer's Content-Type, by its own mediaType, and never by what it
// happens to look like. Pure. Source: OCI distribution 1.1, "pulling manifests"; CVE-2021-41190.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::runtime {

// The media type of a manifest or an index; kInvalidArgument when it is neither, kUnsupported for
// Docker schema 1. (That both agree is checked by the readers of the documents.)
Result<std::string> ManifestType(std::string_view content_type, std::string_view text);

}  // namespace holdfast::runtime
