// SPDX-License-Identifier: Apache-2.0
// Which of the images of an index this machine runs. Pure. Source: containerd/platforms; feature-map
// 2.1.6.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/image/documents/oci_documents.h"

namespace holdfast::runtime {

// The lower the better; nullopt: it does not run here. An entry that does not say what it is for may
// be anything, and comes last.
std::optional<int> RankOf(const Platform& platform, const Platform& host);

// "linux/arm64/v8".
std::string Describe(const Platform& platform);

// The best of `offered` for this machine; kNotFound lists what there is. `where` has them: "the
// archive".
Result<Descriptor> ChooseForHost(const std::vector<Descriptor>& offered, const std::string& where);

}  // namespace holdfast::runtime
