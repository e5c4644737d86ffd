// SPDX-License-Identifier: Apache-2.0
#include "agent/images/credential_providers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "agent/images/provider_exchange.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kV1[] = "credentialprovider.kubelet.k8s.io/v1";

CredentialProvider ProviderOf(const std::string& name, std::vector<std::string> images) {
  CredentialProvider provider;
  provider.name = name;
  provider.api_version = kV1;
  provider.match_images = std::move(images);
  provider.default_cache = seconds(100);
  return provider;
}

std::string AnswerText(const std::string& rest) {
  return StrCat(R"({"kind":"CredentialProviderResponse","apiVersion":")", kV1, "\",", rest, "}");
}

class StoodClock : public Clock {
 public:
  WallTime Wall() const override { return {}; }
  BootTime Boot() const override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void Advance(nanoseconds time) {
    const std::lock_guard lock(mutex_);
    now_ = now_ + time;
  }

 private:
  mutable std::mutex mutex_;
  BootTime now_{};
};

class CredentialProvidersTest : public testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::temp_directory_path() / "providers-XXXXXX";
    ASSERT_NE(::mkdtemp(top_.data()), nullptr);
  }
  void TearDown() override {
    providers_.reset();
    fs::remove_all(top_);
  }

  // Each run of it leaves a line in <name>.runs: what it was asked.
  void Program(const std::string& name, const std::string& script) {
    const std::string file = top_ + "/" + name;
    std::ofstream(file) << "#!/bin/sh\ncat >> " << file << ".runs; echo >> " << file << ".runs\n"
                        << script << "\n";
    fs::permissions(file, fs::perms::owner_all);
  }
  void Answers(const std::string& name, const std::string& rest) {
    Program(name, StrCat("echo '", AnswerText(rest), "'"));
  }
  std::vector<std::string> Runs(const std::string& name) {
    std::vector<std::string> lines;
    std::ifstream file(top_ + "/" + name + ".runs");
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  void Start(std::vector<CredentialProvider> configs, milliseconds time = seconds(60)) {
    CredentialProvidersOptions options;
    options.providers = std::move(configs);
    options.programs = top_;
    options.limits.time = time;
    options.owner = top_;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    auto started = CredentialProviders::Start(clock_, std::move(options));
    ASSERT_TRUE(started) << started.error().message();
    providers_ = std::move(*started);
  }
  std::vector<RegistryLogin> Logins(const std::string& image) {
    return providers_->Provide(image, nullptr, wanted_).all.Find(image);
  }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  std::string top_;
  StoodClock clock_;
  std::mutex mutex_;
  std::string log_;
  std::atomic<bool> wanted_ = false;  // cancelled: no
  std::unique_ptr<CredentialProviders> providers_;
};

constexpr char kLogin[] = R"("auth":{"*.example":{"username":"u","password":"p"}})";

TEST_F(CredentialProvidersTest, TheImageIsAskedForAndTheAnswerIsALogin) {
  Answers("one", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  Start({ProviderOf("one", {"*.example"})});
  EXPECT_THAT(Logins("a.example/team/app"), ElementsAre(RegistryLogin{"u", "p"}));
  EXPECT_THAT(Runs("one"),
              ElementsAre(StrCat(R"({"apiVersion":")", kV1, R"(","image":"a.example/team/app",)",
                                 R"("kind":"CredentialProviderRequest"})")));
  EXPECT_THAT(Logins("b.other/app"), ElementsAre());
  EXPECT_EQ(Runs("one").size(), 1u) << "it is not for that registry";
}

TEST_F(CredentialProvidersTest, AnswersHoldForWhatTheySay) {
  for (const auto& [type, runs] :
       {std::pair("Image", 3u), std::pair("Registry", 2u), std::pair("Global", 1u)}) {
    Answers(type, StrCat(R"("cacheKeyType":")", type, "\",", kLogin));
    Start({ProviderOf(type, {"*.example"})});
    for (const char* image : {"a.example/x", "a.example/x", "a.example/y", "b.example/x"}) {
      EXPECT_EQ(Logins(image).size(), 1u) << type << " " << image;
    }
    EXPECT_EQ(Runs(type).size(), runs) << type;
  }
}

TEST_F(CredentialProvidersTest, AnswersHoldAsLongAsTheySay) {
  Answers("own", StrCat(R"("cacheKeyType":"Image","cacheDuration":"1m",)", kLogin));
  Answers("default", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  Answers("never", StrCat(R"("cacheKeyType":"Image","cacheDuration":"0s",)", kLogin));
  Start({ProviderOf("own", {"*.example"}), ProviderOf("default", {"*.example"}),
         ProviderOf("never", {"*.example"})});
  for (const int seconds_more : {0, 59, 2, 40}) {
    clock_.Advance(seconds(seconds_more));
    Logins("a.example/x");
  }
  EXPECT_EQ(Runs("own").size(), 2u);
  EXPECT_EQ(Runs("default").size(), 2u);
  EXPECT_EQ(Runs("never").size(), 4u);
}

TEST_F(CredentialProvidersTest, WhatFailsGivesNothingAndTheOthersGoOn) {
  Program("broken", "echo no network >&2; exit 3");
  Program("liar", "echo '{\"password\":\"hidden\"}'");
  Answers("good", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  Start({ProviderOf("broken", {"*.example"}), ProviderOf("liar", {"*.example"}),
         ProviderOf("good", {"*.example"})});
  EXPECT_EQ(Logins("a.example/x").size(), 1u);
  EXPECT_THAT(log(), HasSubstr("error execing credential provider plugin broken for image "
                               "a.example/x: failed with exit code 3: no network"));
  EXPECT_THAT(log(), HasSubstr("provider liar: error decoding credential provider plugin"));
  EXPECT_THAT(log(), testing::Not(HasSubstr("hidden")));
  Logins("a.example/x");
  EXPECT_EQ(Runs("broken").size(), 2u) << "a failure is not kept";
}

TEST_F(CredentialProvidersTest, OneThatHangsHoldsUpNobodyElse) {
  Program("hangs", "sleep 1000");
  Answers("good", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  Start({ProviderOf("hangs", {"slow.example"}), ProviderOf("good", {"a.example"})});
  std::atomic<bool> given_up = false;
  std::thread waiter([&] { providers_->Provide("slow.example/x", nullptr, given_up); });
  EXPECT_EQ(Logins("a.example/x").size(), 1u);
  const auto began = steady_clock::now();
  given_up = true;
  waiter.join();
  providers_.reset();  // ends the program
  EXPECT_LT(steady_clock::now() - began, seconds(20));
}

// An agent that was killed ends nobody any more.
TEST_F(CredentialProvidersTest, WhatAFormerAgentLeftRunningIsEnded) {
  Program("hangs", "sleep 1000");
  Start({ProviderOf("hangs", {"*.example"})});
  const auto former = std::move(providers_);
  std::thread waiter([&] { former->Provide("a.example/x", nullptr, wanted_); });
  while (Runs("hangs").empty()) std::this_thread::sleep_for(milliseconds(1));
  Start({});
  waiter.join();  // its program was killed
  EXPECT_THAT(log(), HasSubstr("Failed getting credential"));
}

TEST_F(CredentialProvidersTest, ItsTimeIsLimited) {
  Program("hangs", "sleep 1000");
  Start({ProviderOf("hangs", {"*.example"})}, milliseconds(300));
  EXPECT_EQ(Logins("a.example/x").size(), 0u);
  EXPECT_THAT(log(), HasSubstr("no end within 300 ms"));
}

TEST_F(CredentialProvidersTest, WhoAsksForTheSameAtATimeSharesOneRun) {
  Program(
      "shared",
      StrCat("while [ ! -e ", top_, "/go ]; do sleep 0.05; done; echo '",
             AnswerText(StrCat(R"("cacheKeyType":"Image","cacheDuration":"0s",)", kLogin)), "'"));
  Start({ProviderOf("shared", {"*.example"})});
  std::atomic<int> found = 0;
  std::vector<std::thread> askers;
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] { found += static_cast<int>(Logins("a.example/x").size()); });
  }
  // All are there before it may end: whoever came later would start it once more.
  std::this_thread::sleep_for(milliseconds(500));
  std::ofstream(top_ + "/go") << "go";
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(found, 4);
  EXPECT_EQ(Runs("shared").size(), 1u);
}

std::string WrongAnswerOf(const std::string& output) {
  const auto answer = ParseProviderAnswer(ProviderOf("x", {}), output);
  return answer ? "" : answer.error().message();
}

TEST(ProviderAnswerTest, WhatIsWrongIsSaidWithoutTheAnswer) {
  EXPECT_THAT(WrongAnswerOf("hidden"), HasSubstr("it is no JSON object"));
  EXPECT_THAT(WrongAnswerOf("{}"), HasSubstr("wrong kind"));
  EXPECT_EQ(
      WrongAnswerOf(R"({"kind":"CredentialProviderResponse","apiVersion":"x/v2"})"),
      StrCat("apiVersion from credential plugin response did not match expected apiVersion:", kV1));
  EXPECT_THAT(WrongAnswerOf(AnswerText(R"("cacheKeyType":"Pod")")),
              HasSubstr("valid cacheKeyType"));
  EXPECT_THAT(WrongAnswerOf(AnswerText(R"("cacheKeyType":"Image","cacheDuration":"soon")")),
              HasSubstr("cacheDuration"));
  EXPECT_THAT(WrongAnswerOf(AnswerText(R"("cacheKeyType":"Image","auth":["hidden"])")),
              HasSubstr("auth is no object"));
  EXPECT_THAT(WrongAnswerOf(AnswerText(R"("cacheKeyType":"Image","auth":{"a":"hidden"})")),
              testing::AllOf(HasSubstr("no object"), testing::Not(HasSubstr("hidden"))));
}

// Programs that are told of the account of a pod.
class AccountLoginsTest : public CredentialProvidersTest {
 protected:
  class FakeAccounts : public AccountTokens {
   public:
    Result<ServiceAccountInfo> Account(const TokenOwner&, const std::atomic<bool>&) override {
      if (!why.empty()) return Unavailable(why);
      return account;
    }
    Result<std::string> Token(const TokenOwner& pod, const std::string& account_uid,
                              const std::string& audience, const std::atomic<bool>&) override {
      return StrCat("token-", pod.pod_uid.value, "-", account_uid, "-", audience);
    }
    ServiceAccountInfo account{"su", {{"role", "reader"}, {"other", "x"}}};
    std::string why;
  };

  static TokenOwner PodOf(const std::string& uid) {
    return {"ns", "sa", "pod-" + uid, PodUid(uid)};
  }
  void StartWith(ProviderTokens tokens) {
    CredentialProvider provider = ProviderOf("one", {"*.example"});
    provider.tokens = std::move(tokens);
    Start({provider});
    providers_->UseAccounts(accounts_);
  }
  ProvidedLogins For(const TokenOwner* pod, const std::string& image = "a.example/app") {
    return providers_->Provide(image, pod, wanted_);
  }

  FakeAccounts accounts_;
  const TokenOwner a_ = PodOf("a"), b_ = PodOf("b");
};

TEST_F(AccountLoginsTest, TheProgramIsToldOfTheAccount) {
  Answers("one", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  StartWith({.audience = "vault", .required_keys = {"role"}, .optional_keys = {"none"}});
  const ProvidedLogins given = For(&a_);
  EXPECT_THAT(given.all.Logins(), ElementsAre(RegistryLogin{"u", "p"}));
  EXPECT_EQ(given.of_account, given.all.Logins()) << "they are the account's alone";
  ASSERT_EQ(Runs("one").size(), 1u);
  EXPECT_THAT(Runs("one")[0],
              testing::AllOf(HasSubstr(R"("serviceAccountToken":"token-a-su-vault")"),
                             HasSubstr(R"("serviceAccountAnnotations":{"role":"reader"})")));
}

TEST_F(AccountLoginsTest, AnswersHoldForTheTokenOrForTheAccount) {
  Answers("one", StrCat(R"("cacheKeyType":"Global",)", kLogin));
  StartWith({.audience = "vault", .cache = ProviderTokens::Cache::kToken});
  for (const TokenOwner* pod : {&a_, &b_, &a_}) EXPECT_EQ(For(pod).all.Logins().size(), 1u);
  EXPECT_EQ(Runs("one").size(), 2u);
  StartWith({.audience = "vault", .cache = ProviderTokens::Cache::kServiceAccount});
  for (const TokenOwner* pod : {&a_, &b_, &a_}) EXPECT_EQ(For(pod).all.Logins().size(), 1u);
  EXPECT_EQ(Runs("one").size(), 3u);
  accounts_.account.uid = "another";
  EXPECT_EQ(For(&a_).all.Logins().size(), 1u);
  EXPECT_EQ(Runs("one").size(), 4u) << "an account of the same name is another one";
}

TEST_F(AccountLoginsTest, WhoHasNoAccountIsAskedForOnlyWhereThatIsAllowed) {
  Answers("one", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  StartWith({.audience = "vault", .require_account = true});
  EXPECT_TRUE(For(nullptr).all.empty());
  EXPECT_TRUE(Runs("one").empty());
  StartWith({.audience = "vault", .require_account = false});
  const ProvidedLogins given = For(nullptr);
  EXPECT_EQ(given.all.Logins().size(), 1u);
  EXPECT_TRUE(given.of_account.empty()) << "they are the node's";
  EXPECT_THAT(Runs("one")[0], testing::Not(HasSubstr("serviceAccount")));
}

TEST_F(AccountLoginsTest, WithoutAnAnnotationThatMustBeThereItIsNotAsked) {
  Answers("one", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  StartWith({.audience = "vault", .required_keys = {"role", "missing"}});
  EXPECT_TRUE(For(&a_).all.empty());
  EXPECT_TRUE(Runs("one").empty());
  EXPECT_EQ(log(), "") << "so one says that he does not want it";
}

TEST_F(AccountLoginsTest, AnAccountThatCannotBeHadIsTold) {
  Answers("one", StrCat(R"("cacheKeyType":"Image",)", kLogin));
  StartWith({.audience = "vault"});
  accounts_.why = "failed to get service account: gone";
  EXPECT_TRUE(For(&a_).all.empty());
  EXPECT_THAT(log(), HasSubstr("provider one: failed to get service account: gone"));
}

TEST_F(AccountLoginsTest, APodsTokenIsNotHandedToOthersOfItsAccount) {
  Answers(
      "one",
      R"("cacheKeyType":"Image","auth":{"*.example":{"username":"u","password":"token-a-su-vault"}})");
  StartWith({.audience = "vault", .cache = ProviderTokens::Cache::kServiceAccount});
  EXPECT_TRUE(For(&a_).all.empty());
  EXPECT_THAT(log(), HasSubstr("returned the service account token as the password"));
  EXPECT_THAT(log(), testing::Not(HasSubstr("token-a-su")));
  StartWith({.audience = "vault", .cache = ProviderTokens::Cache::kToken});
  EXPECT_EQ(For(&a_).all.Logins().size(), 1u);
}

std::string FaultsOf(const std::string& text) {
  const auto providers = ParseProviderConfig(text, "c.yaml");
  return providers ? "" : providers.error().message();
}

constexpr char kConfig[] = R"(apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: one
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.dkr.ecr.*.amazonaws.com", registry.io:8080/path]
  defaultCacheDuration: 12h
  args: [get, "--fast"]
  env:
  - {name: REGION, value: eu}
  tokenAttributes:
    serviceAccountTokenAudience: vault
    cacheType: ServiceAccount
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [example.com/Role]
    optionalServiceAccountAnnotationKeys: [region]
)";

TEST(ProviderConfigTest, AllFieldsAreRead) {
  const auto providers = ParseProviderConfig(kConfig, "c.yaml");
  ASSERT_TRUE(providers) << providers.error().message();
  ASSERT_EQ(providers->size(), 1u);
  const CredentialProvider& one = providers->front();
  EXPECT_EQ(one.name, "one");
  EXPECT_EQ(one.api_version, kV1);
  EXPECT_THAT(one.match_images, ElementsAre("*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"));
  EXPECT_EQ(one.default_cache, std::chrono::hours(12));
  EXPECT_THAT(one.args, ElementsAre("get", "--fast"));
  EXPECT_THAT(one.env, ElementsAre(std::pair<std::string, std::string>("REGION", "eu")));
  ASSERT_TRUE(one.tokens);
  EXPECT_EQ(one.tokens->audience, "vault");
  EXPECT_EQ(one.tokens->cache, ProviderTokens::Cache::kServiceAccount);
  EXPECT_TRUE(one.tokens->require_account);
  EXPECT_THAT(one.tokens->required_keys, ElementsAre("example.com/Role"));
  EXPECT_THAT(one.tokens->optional_keys, ElementsAre("region"));
}

TEST(ProviderConfigTest, WhatAKubeletRefusesOfTokenAttributesIsRefused) {
  const std::string faults = FaultsOf(R"(apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: one
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example"]
  defaultCacheDuration: 1h
  tokenAttributes:
    serviceAccountTokenAudience: vault
    cacheType: Pod
    requireServiceAccount: false
    requiredServiceAccountAnnotationKeys: [a, a, b]
    optionalServiceAccountAnnotationKeys: [b, "no key"]
)");
  for (const char* fault :
       {"tokenAttributes.cacheType: Unsupported value: supported values: \"ServiceAccount\", "
        "\"Token\"",
        "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set",
        "requiredServiceAccountAnnotationKeys[1]: Duplicate value: \"a\"",
        "tokenAttributes: Invalid value: [\"b\"]: annotation keys cannot be both required and "
        "optional",
        "optionalServiceAccountAnnotationKeys[1]: Invalid value: \"no key\""}) {
    EXPECT_THAT(faults, HasSubstr(fault));
  }
}

TEST(ProviderConfigTest, EveryFaultIsToldWithItsPlace) {
  EXPECT_THAT(FaultsOf("kind: Other\nproviders: []\n"),
              testing::AllOf(HasSubstr("c.yaml:1:7: kind: must be"),
                             HasSubstr("apiVersion: Required value"),
                             HasSubstr("providers: at least 1 item in plugins is required")));
  const std::string faults = FaultsOf(StrCat(kConfig, R"(- name: a/b c
  apiVersion: credentialprovider.kubelet.k8s.io/v7
  matchImage: [x]
  defaultCacheDuration: -1s
  tokenAttributes: {serviceAccountTokenAudience: me}
)"));
  for (const char* fault :
       {"c.yaml:17:9: providers[1].name: provider name cannot contain '/'",
        "provider name cannot contain spaces", "providers[1].apiVersion: Unsupported value",
        "providers[1].matchImage: unknown field (did you mean \"matchImages\"?)",
        "defaultCacheDuration must be greater than or equal to 0",
        "providers[1].tokenAttributes.cacheType: Required value",
        "providers[1].tokenAttributes.requireServiceAccount: Required value",
        "providers[1].tokenAttributes: tokenAttributes is only supported for "
        "credentialprovider.kubelet.k8s.io/v1 API version",
        "at least 1 item in matchImages is required"}) {
    EXPECT_THAT(faults, HasSubstr(fault));
  }
}

TEST_F(CredentialProvidersTest, TheFilesOfADirectoryAreOneConfiguration) {
  const std::string dir = top_ + "/config";
  fs::create_directory(dir);
  const auto config = [](const std::string& name) {
    std::string text = kConfig;
    return text.replace(text.find("name: one"), 9, "name: " + name);
  };
  std::ofstream(dir + "/20.yaml") << config("two");
  std::ofstream(dir + "/10.json") << config("one");
  std::ofstream(dir + "/notes.txt") << "not read";
  Program("one", "");
  EXPECT_THAT(ReadProviderConfig(dir, top_).error().message(), HasSubstr("/two"));
  Program("two", "");
  const auto both = ReadProviderConfig(dir, top_);
  ASSERT_TRUE(both) << both.error().message();
  ASSERT_EQ(both->size(), 2u);
  EXPECT_EQ(both->front().name, "one");
  std::ofstream(dir + "/30.yml") << config("two");
  EXPECT_THAT(ReadProviderConfig(dir, top_).error().message(),
              HasSubstr("duplicate provider name \"two\""));
}

}  // namespace
}  // namespace holdfast::agent
