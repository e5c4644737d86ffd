// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/push/registry_pusher.h"

#include <optional>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/image/pull/fetcher.h"
#include "runtime/image/pull/registry_client.h"
#include "runtime/image/pull/registry_host.h"
#include "runtime/image/push/image_push.h"

namespace holdfast::runtime {
namespace {

constexpr std::chrono::milliseconds kProgressEach{200};

// Where it goes when nobody says. An id is no name, though it may look like one.
Result<Reference> DestinationOf(const PushRequest& request, const StoredImage& image) {
  if (!request.destination.empty()) return ParseReference(request.destination);
  if (image.target) return ParseReference(request.reference);
  return InvalidArgument(
      StrCat("image ", request.reference, " is named by its id: say where it goes"));
}

}  // namespace

Result<PushedImage> RegistryPusher::Push(const PushRequest& request,
                                         const std::atomic<bool>& cancelled) {
  std::optional<PushedImage> pushed;
  RETURN_IF_ERROR(store_.Read(request.reference, [&](const StoredImage& image) -> Result<void> {
    ASSIGN_OR_RETURN(const Reference destination, DestinationOf(request, image));
    auto sent = PushImage(image, destination, request, cancelled);
    if (!sent) {
      return std::move(sent.error()).Wrap(StrCat("failed to push \"", destination.Name(), "\""));
    }
    pushed = std::move(*sent);
    return {};
  }));
  return std::move(*pushed);
}

Result<PushedImage> RegistryPusher::PushImage(const StoredImage& image,
                                              const Reference& destination,
                                              const PushRequest& request,
                                              const std::atomic<bool>& cancelled) {
  ASSIGN_OR_RETURN(std::vector<RegistryHost> hosts,
                   ReadRegistryHosts(options_.hosts_directory, destination.Registry()));
  std::vector<Origin> origins =
      OriginsOf(std::move(hosts), destination.repository, request.logins, Purpose::kPush);
  if (origins.empty()) {
    return InvalidArgument(
        StrCat("hosts.toml of ", destination.Registry(), " gives no host the capability push"));
  }
  ASSIGN_OR_RETURN(Fetcher fetcher, Fetcher::Start(options_.helper, options_.environment));
  const auto stop = [&] {
    return cancelled || (options_.stopping != nullptr && *options_.stopping);
  };
  RegistryClient client(fetcher, stop, options_.stall, Purpose::kPush);
  PushProgress progress;
  std::chrono::steady_clock::time_point told;
  const auto tell = [&] {
    if (request.progress) request.progress(progress);
  };
  const auto moved = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (now - told < kProgressEach) return;
    told = now;
    tell();
  };
  // The first, as containerd does: an image that is told to have been pushed is all in one place.
  auto pushed =
      PushTo({client, origins.front(), progress, moved}, image, destination, options_.limits);
  if (pushed) tell();
  return pushed;
}

}  // namespace holdfast::runtime
