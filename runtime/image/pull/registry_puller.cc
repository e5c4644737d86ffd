// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/registry_puller.h"

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/image/pull/fetcher.h"
#include "runtime/image/pull/image_pull.h"
#include "runtime/image/pull/registry_client.h"
#include "runtime/image/pull/registry_host.h"

namespace holdfast::runtime {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTellEach{200};

std::string FirstOf(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = ::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

// One pull: its helper, the hosts that it asks, and how far it is.
class OnePull {
 public:
  OnePull(DiskImageStore& store, Reference reference, Fetcher fetcher, std::vector<Origin> origins,
          PullGate::Stop stop, const PullGate::Tell& tell, std::chrono::seconds stall)
      : store_(store),
        name_(reference.Name()),
        stop_(std::move(stop)),
        tell_(tell),
        fetcher_(std::move(fetcher)),
        origins_(std::move(origins)),
        client_(fetcher_, stop_, stall, Purpose::kPull),
        pull_(client_, origins_, std::move(reference), progress_, [this] { Moved(); }) {}

  const std::optional<RegistryLogin>& shown() const { return pull_.shown(); }

  Result<Image> Run() {
    ASSIGN_OR_RETURN(const bool unchanged, IsUnchanged());
    if (unchanged) return store_.Get(name_);
    ASSIGN_OR_RETURN(Image image,
                     store_.Add([this](const StagingArea& area) { return pull_.Run(area); }));
    for (LayerProgress& layer : progress_.layers) layer.state = LayerProgress::State::kDone;
    tell_(progress_);
    return image;
  }

 private:
  // Nothing is to be brought when the name still stands for what is here; the registry says so to
  // those whom it lets in.
  Result<bool> IsUnchanged() {
    const auto known = store_.TargetOf(name_);
    if (!known) return false;
    const auto current = pull_.CurrentDigest();
    // To ask once more would take as long again.
    if (!current && current.error().code() == Code::kUnavailable) return current.error();
    return current && *current == known->value;
  }

  void Moved() {
    if (Steady::now() - told_ < kTellEach) return;
    told_ = Steady::now();
    tell_(progress_);
  }

  DiskImageStore& store_;
  const std::string name_;
  const PullGate::Stop stop_;
  const PullGate::Tell& tell_;
  Fetcher fetcher_;
  std::vector<Origin> origins_;
  RegistryClient client_;
  PullProgress progress_;
  Steady::time_point told_;
  ImagePull pull_;
};

}  // namespace

std::vector<std::string> ProxyEnvironment() {
  std::vector<std::string> environment;
  const std::string http = FirstOf({"http_proxy", "HTTP_PROXY"});
  const std::string https = FirstOf({"https_proxy", "HTTPS_PROXY"});
  const std::string authorities = FirstOf({"SSL_CERT_FILE"});
  if (!http.empty()) environment.push_back("http_proxy=" + http);
  if (!https.empty()) environment.push_back("https_proxy=" + https);
  // As Go's clients have it.
  environment.push_back(
      StrCat("no_proxy=localhost,127.0.0.0/8,::1,", FirstOf({"no_proxy", "NO_PROXY"})));
  if (!authorities.empty()) environment.push_back("SSL_CERT_FILE=" + authorities);
  return environment;
}

RegistryPuller::RegistryPuller(DiskImageStore& store, PullerOptions options)
    : store_(store),
      options_(std::move(options)),
      gate_(options_.at_a_time),
      rate_(options_.per_second, options_.burst) {}

Result<PulledImage> RegistryPuller::Pull(const PullRequest& request,
                                         const std::atomic<bool>& cancelled) {
  ASSIGN_OR_RETURN(const Reference reference, ParseReference(request.reference));
  RETURN_IF_ERROR(options_.policy.AdmitPull(reference));
  PullGate::Key key{reference.Name(), {}};
  if (request.logins) key.logins = request.logins(reference.repository);
  const std::atomic<bool>* const stopping = options_.stopping;
  auto pulled = gate_.Run(
      key, cancelled, request.progress,
      [&](const PullGate::Stop& unwanted, const PullGate::Tell& tell) {
        const auto stop = [&] { return unwanted() || (stopping != nullptr && *stopping); };
        if (!request.for_person && !rate_.TryTake(Steady::now())) {
          return Result<PulledImage>(Error(Code::kResourceExhausted, "pull QPS exceeded"));
        }
        return PullNow(reference, request.logins, stop, tell);
      });
  if (pulled) return pulled;
  return std::move(pulled.error())
      .Wrap(StrCat("failed to pull and unpack image \"", reference.Name(), "\""));
}

Result<PulledImage> RegistryPuller::PullNow(const Reference& reference,
                                            const RegistryLogins& logins,
                                            const PullGate::Stop& stop,
                                            const PullGate::Tell& tell) {
  const auto began = Steady::now();
  ASSIGN_OR_RETURN(std::vector<RegistryHost> hosts,
                   ReadRegistryHosts(options_.hosts_directory, reference.Registry()));
  std::vector<Origin> origins =
      OriginsOf(std::move(hosts), reference.repository, logins, Purpose::kPull);
  ASSIGN_OR_RETURN(Fetcher fetcher, Fetcher::Start(options_.helper, options_.environment));
  OnePull pull(store_, reference, std::move(fetcher), std::move(origins), stop, tell,
               options_.stall);
  ASSIGN_OR_RETURN(Image image, pull.Run());
  return PulledImage{std::move(image), Steady::now() - began, pull.shown()};
}

}  // namespace holdfast::runtime
