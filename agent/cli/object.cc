// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/object.h"

#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

// `whole`: the object's name; `without_node`: a shorter form of it, or "".
Fit FitOf(const std::string& name_space, const std::string& whole, const std::string& without_node,
          const PodName& name) {
  if (!name_space.empty() && name_space != name.name_space) return Fit::kNone;
  if (whole == name.name) return Fit::kWhole;
  if (!without_node.empty() && without_node == name.name) return Fit::kWithoutNode;
  return !name.name.empty() && whole.starts_with(name.name) ? Fit::kBeginning : Fit::kNone;
}

}  // namespace

Fit NameFit(const core::Pod& pod, const PodName& name) {
  const std::string& own = pod.metadata().name();
  const std::string node = StrCat("-", pod.spec().nodename());
  const std::string without =
      own.ends_with(node) && node.size() > 1 ? own.substr(0, own.size() - node.size()) : "";
  return FitOf(pod.metadata().namespace_(), own, without, name);
}

Fit NameFit(const Object& object, const PodName& name) {
  if (object.resource == Resource::kPods) return NameFit(object.As<core::Pod>(), name);
  const std::string own = object.resource == Resource::kEndpoints
                              ? ServiceOfSlice(object.As<Slice>())
                              : object.meta->name();
  return FitOf(object.meta->namespace_(), own, "", name);
}

std::vector<Object> BestFits(const std::vector<Object>& objects, const PodName& name) {
  std::vector<Object> best;
  Fit least = Fit::kBeginning;
  for (const Object& object : objects) {
    const Fit fit = NameFit(object, name);
    if (fit < least) continue;
    if (fit > least) best.clear();
    least = fit;
    best.push_back(object);
  }
  return best;
}

Error ObjectNotFound(Resource resource, const std::string& name) {
  return NotFound(StrCat(Plural(resource), " \"", name, "\" not found"));
}

Result<std::vector<Object>> PickObjects(const std::vector<Object>& objects, Resource resource,
                                        const PodName& name) {
  std::vector<Object> fits = BestFits(objects, name);
  const bool beginning = !fits.empty() && NameFit(fits.front(), name) == Fit::kBeginning;
  if (fits.empty() || (beginning && resource != Resource::kPods)) {
    return ObjectNotFound(resource, name.name);
  }
  if (!beginning || fits.size() == 1) return fits;
  std::string candidates;
  for (const Object& object : fits) {
    candidates += (candidates.empty() ? "" : ", ") + object.meta->name();
  }
  return InvalidArgument(
      StrCat("\"", name.name, "\" is the beginning of several pods: ", candidates));
}

}  // namespace holdfast::agent::cli
