// SPDX-License-Identifier: Apache-2.0
#include "agent/images/credential_providers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "agent/base/program_orphans.h"
#include "agent/base/worker_pool.h"
#include "agent/images/provider_exchange.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// As many as pods pull at a time at most.
constexpr size_t kMostPrograms = 64;
constexpr size_t kMostKept = 1000;  // answers of one provider
// How often somebody who waits looks whether he still is to. (A flag has no wake-up of its own.)
constexpr std::chrono::milliseconds kFlagLook{100};

// Answers of one provider that may be given again.
class KeptAnswers {
 public:
  const Keyring* Find(const std::string& image, BootTime now) const {
    for (const std::string& key : {image, Registry(image), std::string()}) {
      const auto found = answers_.find(key);
      if (found != answers_.end() && now < found->second.until) return &found->second.keyring;
    }
    return nullptr;
  }

  void Keep(const std::string& image, const ProviderAnswer& answer, BootTime now,
            std::chrono::nanoseconds time) {
    std::erase_if(answers_, [&](const auto& entry) { return entry.second.until <= now; });
    if (time.count() == 0) return;
    if (answers_.size() >= kMostKept) {
      answers_.erase(std::ranges::min_element(
          answers_, {}, [](const auto& entry) { return entry.second.until; }));
    }
    answers_.insert_or_assign(KeyOf(image, answer.holds), Kept{answer.keyring, now + time});
  }

 private:
  using Holds = ProviderAnswer::Holds;
  struct Kept {
    Keyring keyring;
    BootTime until;
  };

  static std::string Registry(const std::string& image) { return image.substr(0, image.find('/')); }
  static std::string KeyOf(const std::string& image, Holds holds) {
    if (holds == Holds::kGlobal) return {};
    return holds == Holds::kRegistry ? Registry(image) : image;
  }

  std::map<std::string, Kept> answers_;
};

}  // namespace

struct CredentialProviders::State {
  struct Flight {
    bool over = false;
    Keyring keyring;
  };
  struct Provider {
    CredentialProvider config;
    KeptAnswers kept;
    std::map<std::string, std::shared_ptr<Flight>> flights;  // by image
  };

  State(const Clock& c, CredentialProvidersOptions o) : clock(c), options(std::move(o)) {
    for (const CredentialProvider& config : options.providers) {
      providers.push_back({config, {}, {}});
    }
  }

  const Clock& clock;
  const CredentialProvidersOptions options;
  sys::Wakeup stop;
  std::mutex mutex;  // what follows, but for `config` of a provider
  std::condition_variable changed;
  std::vector<Provider> providers;
  WorkerPool pool{{.name = "credentials", .threads = kMostPrograms}};

  Keyring Ask(Provider& provider, const std::string& image, const std::atomic<bool>& cancelled);
  void Fly(Provider& provider, const std::string& image, const std::shared_ptr<Flight>& flight);
  Result<ProviderAnswer> Run(const CredentialProvider& provider, const std::string& image) const;
};

Result<ProviderAnswer> CredentialProviders::State::Run(const CredentialProvider& provider,
                                                       const std::string& image) const {
  const BoundedProgram program{StrCat(options.programs, "/", provider.name), provider.args,
                               provider.env, ProviderRequest(provider, image), options.owner};
  auto output = RunBounded(program, stop, options.limits);
  if (!output) {
    return std::move(output.error())
        .Wrap(StrCat("error execing credential provider plugin ", provider.name, " for image ",
                     image));
  }
  return ParseProviderAnswer(provider, *output);
}

void CredentialProviders::State::Fly(Provider& provider, const std::string& image,
                                     const std::shared_ptr<Flight>& flight) {
  const auto answer = Run(provider.config, image);
  if (!answer) {
    options.log(StrCat("Failed getting credential from external registry credential provider ",
                       provider.config.name, ": ", answer.error().message()));
  }
  {
    const std::lock_guard lock(mutex);
    if (answer) {
      flight->keyring = answer->keyring;
      provider.kept.Keep(image, *answer, clock.Boot(),
                         answer->cache.value_or(provider.config.default_cache));
    }
    flight->over = true;
    provider.flights.erase(image);
  }
  changed.notify_all();
}

Keyring CredentialProviders::State::Ask(Provider& provider, const std::string& image,
                                        const std::atomic<bool>& cancelled) {
  std::unique_lock lock(mutex);
  if (const Keyring* kept = provider.kept.Find(image, clock.Boot())) return *kept;
  std::shared_ptr<Flight>& known = provider.flights[image];
  const bool begins = known == nullptr;
  if (begins) known = std::make_shared<Flight>();
  const std::shared_ptr<Flight> flight = known;
  if (begins) {
    lock.unlock();
    pool.Post([this, &provider, image, flight] { Fly(provider, image, flight); });
    lock.lock();
  }
  while (!flight->over && !cancelled) changed.wait_for(lock, kFlagLook);
  return flight->keyring;
}

CredentialProviders::CredentialProviders(std::unique_ptr<State> state) : state_(std::move(state)) {}

CredentialProviders::~CredentialProviders() {
  Stop();
  state_->pool.Finish();
}

void CredentialProviders::Stop() { state_->stop.Set(); }

Result<std::unique_ptr<CredentialProviders>> CredentialProviders::Start(
    const Clock& clock, CredentialProvidersOptions options) {
  if (!options.owner.empty() && !EndOrphans(options.owner)) {
    options.log(
        "a credential provider that a former agent started does not end although it was killed");
  }
  auto state = std::make_unique<State>(clock, std::move(options));
  ASSIGN_OR_RETURN(state->stop, sys::Wakeup::Make());
  RETURN_IF_ERROR(state->pool.Start());
  return std::unique_ptr<CredentialProviders>(new CredentialProviders(std::move(state)));
}

Keyring CredentialProviders::Provide(const std::string& image, const std::atomic<bool>& cancelled) {
  Keyring all;
  for (State::Provider& provider : state_->providers) {
    const bool is_for =
        std::ranges::any_of(provider.config.match_images,
                            [&](const std::string& key) { return KeyMatches(key, image); });
    if (is_for) all.Add(state_->Ask(provider, image, cancelled));
  }
  return all;
}

}  // namespace holdfast::agent
