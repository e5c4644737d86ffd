// SPDX-License-Identifier: Apache-2.0
#include "agent/images/credential_providers.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "agent/base/program_orphans.h"
#include "agent/base/worker_pool.h"
#include "agent/images/provider_exchange.h"
#include "holdfast/base/expiring.h"
#include "holdfast/base/strings.h"
#include "runtime/image/content/digest.h"

namespace holdfast::agent {
namespace {

// As many as pods pull at a time at most.
constexpr size_t kMostPrograms = 64;
constexpr size_t kMostAnswers = 1000;  // answers of one provider
// How often somebody who waits looks whether he still is to. (A flag has no wake-up of its own.)
constexpr std::chrono::milliseconds kStopLook{100};

// Answers of one provider that may be given again.
class KeptAnswers {
 public:
  // `whose`: what was told of an account, as far as answers depend on it.
  const Keyring* Find(const std::string& whose, const std::string& image, BootTime now) const {
    for (const std::string& key : {image, Registry(image), std::string()}) {
      const auto found = answers_.find({whose, key});
      if (found != answers_.end() && now < found->second.until) return &found->second.keyring;
    }
    return nullptr;
  }

  void Keep(const std::string& whose, const std::string& image, const ProviderAnswer& answer,
            BootTime now, std::chrono::nanoseconds time) {
    if (time.count() == 0) return;
    MakeRoom(answers_, kMostAnswers, now, &Kept::until);
    answers_.insert_or_assign(Key(whose, KeyOf(image, answer.holds)),
                              Kept{answer.keyring, now + time});
  }

 private:
  using Holds = ProviderAnswer::Holds;
  using Key = std::pair<std::string, std::string>;  // whose, of which images
  struct Kept {
    Keyring keyring;
    BootTime until;
  };

  static std::string Registry(const std::string& image) { return image.substr(0, image.find('/')); }
  static std::string KeyOf(const std::string& image, Holds holds) {
    if (holds == Holds::kGlobal) return {};
    return holds == Holds::kRegistry ? Registry(image) : image;
  }

  std::map<Key, Kept> answers_;
};

// What a program is asked.
struct Question {
  std::string image;
  std::string whose;  // for whom else its answer holds; empty: for everybody
  ProviderIdentity identity;
};

std::string WhoseAnswer(const ProviderTokens& tokens, const TokenOwner& pod,
                        const std::string& account_uid, const ProviderIdentity& identity) {
  nlohmann::json whose = {pod.object_namespace, pod.service_account, account_uid,
                          identity.annotations};
  if (tokens.cache == ProviderTokens::Cache::kToken) {
    whose.push_back(pod.pod_uid.value);
    whose.push_back(runtime::HexOf(runtime::DigestOf(identity.token)));
  }
  return whose.dump();
}

// The annotations that are wanted; nullopt without one that must be there.
std::optional<std::map<std::string, std::string>> AnnotationsFor(
    const ProviderTokens& tokens, const std::map<std::string, std::string>& all) {
  std::map<std::string, std::string> wanted;
  for (const auto* keys : {&tokens.required_keys, &tokens.optional_keys}) {
    for (const std::string& key : *keys) {
      const auto found = all.find(key);
      if (found != all.end()) wanted.insert(*found);
      if (found == all.end() && keys == &tokens.required_keys) return std::nullopt;
    }
  }
  return wanted;
}

// One that is told of accounts must not hand a pod's token to others as if it were the account's.
Result<void> CheckEcho(const CredentialProvider& provider, const Question& question,
                       const ProviderAnswer& answer) {
  const bool shared =
      provider.tokens && provider.tokens->cache == ProviderTokens::Cache::kServiceAccount;
  if (!shared || question.identity.token.empty()) return {};
  for (const RegistryLogin& login : answer.keyring.Logins()) {
    if (login.password != question.identity.token) continue;
    return InvalidArgument(
        "credential provider plugin returned the service account token as the password which is "
        "not allowed when service account cache type is not set to 'Token'");
  }
  return {};
}

}  // namespace

struct CredentialProviders::State {
  struct Flight {
    bool over = false;
    Keyring keyring;
  };
  struct Provider {
    CredentialProvider config;
    KeptAnswers kept;
    std::map<std::pair<std::string, std::string>, std::shared_ptr<Flight>>
        flights;  // by whose and image
  };

  State(const Clock& c, CredentialProvidersOptions o) : clock(c), options(std::move(o)) {
    for (const CredentialProvider& config : options.providers) {
      providers.push_back({config, {}, {}});
    }
  }

  const Clock& clock;
  const CredentialProvidersOptions options;
  std::atomic<AccountTokens*> accounts = nullptr;
  sys::Wakeup stop;
  std::mutex mutex;  // what follows, but for `config` of a provider
  std::condition_variable changed;
  std::vector<Provider> providers;
  WorkerPool pool{{.name = "credentials", .threads = kMostPrograms}};

  Result<std::optional<Question>> QuestionFor(const CredentialProvider& provider,
                                              const std::string& image, const TokenOwner* pod,
                                              const std::atomic<bool>& cancelled) const;
  Keyring Ask(Provider& provider, const Question& question, const std::atomic<bool>& cancelled);
  void Fly(Provider& provider, const Question& question, const std::shared_ptr<Flight>& flight);
  Result<ProviderAnswer> Run(const CredentialProvider& provider, const Question& question) const;
  void Tell(const CredentialProvider& provider, const Error& error) const {
    options.log(StrCat("Failed getting credential from external registry credential provider ",
                       provider.name, ": ", error.message()));
  }
};

// nullopt: it is not for this pod.
Result<std::optional<Question>> CredentialProviders::State::QuestionFor(
    const CredentialProvider& provider, const std::string& image, const TokenOwner* pod,
    const std::atomic<bool>& cancelled) const {
  Question question{image, "", {}};
  if (!provider.tokens) return question;
  const ProviderTokens& tokens = *provider.tokens;
  AccountTokens* const known = accounts;
  if (pod == nullptr || pod->service_account.empty() || known == nullptr) {
    if (tokens.require_account) return std::nullopt;
    return question;
  }
  ASSIGN_OR_RETURN(const ServiceAccountInfo account, known->Account(*pod, cancelled));
  auto annotations = AnnotationsFor(tokens, account.annotations);
  if (!annotations) return std::nullopt;
  question.identity.annotations = std::move(*annotations);
  ASSIGN_OR_RETURN(question.identity.token,
                   known->Token(*pod, account.uid, tokens.audience, cancelled));
  question.whose = WhoseAnswer(tokens, *pod, account.uid, question.identity);
  return question;
}

Result<ProviderAnswer> CredentialProviders::State::Run(const CredentialProvider& provider,
                                                       const Question& question) const {
  const BoundedProgram program{
      StrCat(options.programs, "/", provider.name), provider.args, provider.env,
      ProviderRequest(provider, question.image, question.identity), options.owner};
  auto output = RunBounded(program, stop, options.limits);
  if (!output) {
    return std::move(output.error())
        .Wrap(StrCat("error execing credential provider plugin ", provider.name, " for image ",
                     question.image));
  }
  ASSIGN_OR_RETURN(ProviderAnswer answer, ParseProviderAnswer(provider, *output));
  RETURN_IF_ERROR(CheckEcho(provider, question, answer));
  return answer;
}

void CredentialProviders::State::Fly(Provider& provider, const Question& question,
                                     const std::shared_ptr<Flight>& flight) {
  const auto answer = Run(provider.config, question);
  if (!answer) Tell(provider.config, answer.error());
  {
    const std::lock_guard lock(mutex);
    if (answer) {
      flight->keyring = answer->keyring;
      provider.kept.Keep(question.whose, question.image, *answer, clock.Boot(),
                         answer->cache.value_or(provider.config.default_cache));
    }
    flight->over = true;
    provider.flights.erase({question.whose, question.image});
  }
  changed.notify_all();
}

Keyring CredentialProviders::State::Ask(Provider& provider, const Question& question,
                                        const std::atomic<bool>& cancelled) {
  std::unique_lock lock(mutex);
  if (const Keyring* kept = provider.kept.Find(question.whose, question.image, clock.Boot())) {
    return *kept;
  }
  std::shared_ptr<Flight>& known = provider.flights[{question.whose, question.image}];
  const bool begins = known == nullptr;
  if (begins) known = std::make_shared<Flight>();
  const std::shared_ptr<Flight> flight = known;
  if (begins) {
    lock.unlock();
    pool.Post([this, &provider, question, flight] { Fly(provider, question, flight); });
    lock.lock();
  }
  while (!flight->over && !cancelled) changed.wait_for(lock, kStopLook);
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

void CredentialProviders::UseAccounts(AccountTokens& accounts) { state_->accounts = &accounts; }

ProvidedLogins CredentialProviders::Provide(const std::string& image, const TokenOwner* pod,
                                            const std::atomic<bool>& cancelled) {
  ProvidedLogins logins;
  for (State::Provider& provider : state_->providers) {
    const bool is_for =
        std::ranges::any_of(provider.config.match_images,
                            [&](const std::string& key) { return KeyMatches(key, image); });
    if (!is_for) continue;
    const auto question = state_->QuestionFor(provider.config, image, pod, cancelled);
    if (!question) state_->Tell(provider.config, question.error());
    if (!question || !*question) continue;
    const Keyring given = state_->Ask(provider, **question, cancelled);
    logins.all.Add(given);
    if ((*question)->whose.empty()) continue;
    for (RegistryLogin& login : given.Logins()) logins.of_account.push_back(std::move(login));
  }
  return logins;
}

}  // namespace holdfast::agent
