// SPDX-License-Identifier: Apache-2.0
#include "agent/images/short_named_images.h"

#include <algorithm>
#include <optional>

#include "holdfast/base/strings.h"
#include "runtime/image/pull/short_names.h"

namespace holdfast::agent {

std::string ShortNamedImages::Here(const std::string& reference) const {
  const auto names = names_.Candidates(reference);
  if (!names) return reference;
  const auto here = std::ranges::find_if(
      *names, [this](const auto& name) { return store_.Get(name).has_value(); });
  return here == names->end() ? reference : *here;
}

Result<PulledImage> FirstPulled(
    const std::string& short_name, const std::vector<std::string>& names,
    const std::function<Result<PulledImage>(const std::string& name)>& pull,
    const std::atomic<bool>& cancelled) {
  std::string said;
  std::optional<Code> code;
  for (const std::string& name : names) {
    auto pulled = pull(name);
    if (pulled || names.size() == 1 || cancelled) return pulled;
    if (!code || *code == Code::kNotFound) code = pulled.error().code();
    said += StrCat("\n", pulled.error().message());
  }
  return Error(*code, StrCat("short name \"", short_name, "\": none of ", names.size(),
                             " registries gave it:", said));
}

}  // namespace holdfast::agent
