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

// "docker.io/library/nginx" is "library/nginx" of the registry "docker.io".
std::pair<std::string, std::string> Split(const std::string& repository) {
  const size_t slash = repository.find('/');
  return {repository.substr(0, slash), repository.substr(slash + 1)};
}

// A mirror's logins are looked up by its own name: those of the registry are not for it.
std::vector<Origin> OriginsOf(std::vector<RegistryHost> hosts, const std::string& repository,
                              const RegistryLogins& logins) {
  std::vector<Origin> origins;
  for (RegistryHost& host : hosts) {
    if (!host.pull) continue;
    Origin origin;
    const auto [registry, path] = Split(repository);
    const std::string name = host.is_server ? repository : StrCat(host.authority, "/", path);
    if (logins) origin.logins = logins(name);
    origin.repository = path;
    origin.host = std::move(host);
    origins.push_back(std::move(origin));
  }
  return origins;
}

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
    : store_(store), options_(std::move(options)), gate_(options_.at_a_time) {}

Result<PulledImage> RegistryPuller::Pull(const PullRequest& request,
                                         const std::atomic<bool>& cancelled) {
  ASSIGN_OR_RETURN(const Reference reference, ParseReference(request.reference));
  PullGate::Key key{reference.Name(), {}};
  if (request.logins) key.logins = request.logins(reference.repository);
  auto pulled = gate_.Run(key, cancelled, request.progress,
                          [&](const PullGate::Stop& stop, const PullGate::Tell& tell) {
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
  const std::string registry = Split(reference.repository).first;
  ASSIGN_OR_RETURN(std::vector<RegistryHost> hosts,
                   ReadRegistryHosts(options_.hosts_directory, registry));
  std::vector<Origin> origins = OriginsOf(std::move(hosts), reference.repository, logins);
  ASSIGN_OR_RETURN(Fetcher fetcher, Fetcher::Start(options_.helper, options_.environment));
  RegistryClient client(fetcher, stop, options_.stall);
  PullProgress progress;
  auto told = Steady::time_point();
  const auto moved = [&] {
    if (Steady::now() - told < kTellEach) return;
    told = Steady::now();
    tell(progress);
  };
  ImagePull pull(client, origins, reference, progress, moved);
  const auto took = [&] { return Steady::now() - began; };
  // Nothing to bring when the name still stands for what is here.
  if (const auto known = store_.TargetOf(reference.Name())) {
    const std::string wanted = reference.digest;
    const auto current = wanted.empty() ? pull.CurrentDigest() : Result<std::string>(wanted);
    if (current && *current == known->value) {
      ASSIGN_OR_RETURN(Image image, store_.Get(reference.Name()));
      return PulledImage{std::move(image), took()};
    }
  }
  const auto next = [&](size_t layer) -> Result<void> {
    using State = LayerProgress::State;
    if (stop()) return Unavailable("the pull was cancelled");
    if (layer > 0) progress.layers[layer - 1].state = State::kDone;
    progress.layers[layer].state = State::kUnpacking;
    tell(progress);
    return {};
  };
  ASSIGN_OR_RETURN(Image image,
                   store_.Add([&](const StagingArea& area) { return pull.Run(area); }, next));
  for (LayerProgress& layer : progress.layers) layer.state = LayerProgress::State::kDone;
  tell(progress);
  return PulledImage{std::move(image), took()};
}

}  // namespace holdfast::runtime
