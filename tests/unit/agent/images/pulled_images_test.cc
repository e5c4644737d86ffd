// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pulled_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/images/pod_logins.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/fakes/fake_pod_inputs.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::HasSubstr;

class MovedClock : public Clock {
 public:
  WallTime Wall() const override { return WallTime{seconds(now)}; }
  BootTime Boot() const override { return {}; }
  int now = 1'800'000'000;
};

// Name -> id.
class NamedImages : public ImageStore {
 public:
  Result<Image> Get(const std::string& reference) override {
    const auto known = images.find(reference);
    if (known == images.end()) return NotFound(reference);
    Image image;
    image.id = Digest(known->second);
    return image;
  }
  Result<std::vector<Image>> List() override {
    std::vector<Image> all;
    for (const auto& [name, id] : images) all.push_back(*Get(name));
    return all;
  }
  Result<std::vector<Image>> Import(int, const ImportOptions&) override { return Unsupported(""); }
  Result<std::vector<Image>> ImportDirectory(int, const ImportOptions&) override {
    return Unsupported("");
  }
  Result<void> Export(const std::string&, int) override { return Unsupported(""); }
  Result<void> Remove(const std::string&) override { return Unsupported(""); }
  Result<void> Tag(const std::string&, const std::string&) override { return Unsupported(""); }

  std::map<std::string, std::string> images;
};

PullSecret SecretNamed(const std::string& name, const std::string& password) {
  return {"uid-" + name, "default", name, HashOf({"user", password})};
}
PullCredentials Shown(const std::vector<PullSecret>& secrets) { return {false, secrets}; }
const PullCredentials kNothingShown{true, {}};

constexpr char kApp[] = "r.example/team/app:1";
const Digest kId("sha256:app");

class PulledImagesTest : public testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::temp_directory_path() / "pulled-XXXXXX";
    ASSERT_NE(::mkdtemp(top_.data()), nullptr);
    store_.images[kApp] = kId.value;
    Open();
  }
  void TearDown() override { fs::remove_all(top_); }

  // As an agent that starts; the one before it was killed.
  void Open(const std::string& policy = "NeverVerifyPreloadedImages",
            const std::vector<std::string>& allowed = {}) {
    PulledImagesOptions options;
    options.directory = top_ + "/image_manager";
    options.verification = *PullVerification::Make(policy, allowed);
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    auto opened = PulledImages::Open(std::move(options), store_, clock_);
    ASSERT_TRUE(opened) << opened.error().message();
    pulled_ = std::move(*opened);
  }
  void Pull(const PullCredentials& shown, const std::string& image = kApp) {
    ASSERT_TRUE(pulled_->Begin(image));
    pulled_->Pulled(image, kId, shown, PodUid("puller"));
  }
  bool MayUse(const std::vector<PullSecret>& secrets, const std::string& image = kApp) {
    return pulled_->MayUse(image, kId, PodUid("other"), [&] { return secrets; });
  }
  std::vector<std::string> Files(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(top_ + "/image_manager/" + directory)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::string top_, log_;
  MovedClock clock_;
  NamedImages store_;
  std::unique_ptr<PulledImages> pulled_;
};

TEST_F(PulledImagesTest, WhoBroughtItMayUseItAndNobodyElse) {
  Pull(Shown({SecretNamed("a", "one")}));
  for (const bool restarted : {false, true}) {
    if (restarted) Open();
    EXPECT_TRUE(MayUse({SecretNamed("a", "one")}));
    EXPECT_FALSE(MayUse({}));
    EXPECT_FALSE(MayUse({SecretNamed("b", "two")}));
    EXPECT_TRUE(MayUse({SecretNamed("b", "two"), SecretNamed("c", "one")})) << "the same login";
    EXPECT_TRUE(MayUse({SecretNamed("a", "rotated")})) << "the same secret";
    EXPECT_FALSE(MayUse({{"uid-other", "default", "a", HashOf({"user", "guess"})}}))
        << "made anew with the name of one that was there";
    EXPECT_FALSE(MayUse({SecretNamed("a", "one")}, "r.example/other/app:1"))
        << "the same image under another name";
  }
  EXPECT_THAT(Files("pulling"), testing::IsEmpty());
  struct stat about{};
  ASSERT_EQ(::stat((top_ + "/image_manager").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
}

TEST_F(PulledImagesTest, WhatCameForAnAccountIsForThePodThatBroughtIt) {
  const auto nothing = [] { return std::vector<PullSecret>(); };
  Pull({});
  EXPECT_TRUE(pulled_->MayUse(kApp, kId, PodUid("puller"), nothing));
  EXPECT_FALSE(pulled_->MayUse("r.example/other/app:1", kId, PodUid("puller"), nothing));
  EXPECT_FALSE(MayUse({}));
  Open();
  EXPECT_FALSE(pulled_->MayUse(kApp, kId, PodUid("puller"), nothing))
      << "it asks the registry again";
}

TEST_F(PulledImagesTest, SecondComersAreAddedAndAnOpenRegistryLetsAllIn) {
  Pull(Shown({SecretNamed("a", "one")}));
  Pull(Shown({SecretNamed("b", "two")}));
  EXPECT_TRUE(MayUse({SecretNamed("a", "one")}));
  EXPECT_TRUE(MayUse({SecretNamed("b", "two")}));
  EXPECT_FALSE(MayUse({}));
  Pull(kNothingShown);
  EXPECT_TRUE(MayUse({}));
  Pull(Shown({SecretNamed("a", "one")}));
  EXPECT_TRUE(MayUse({})) << "what all may use stays so";
}

TEST_F(PulledImagesTest, WhatSomebodyPutThereIsForAll) {
  EXPECT_TRUE(MayUse({}));
  ASSERT_TRUE(pulled_->Begin(kApp));
  EXPECT_FALSE(MayUse({})) << "it may be there because of that pull";
  pulled_->Failed(kApp);
  EXPECT_TRUE(MayUse({}));
  EXPECT_THAT(Files("pulling"), testing::IsEmpty());
}

TEST_F(PulledImagesTest, PullsOfOneImageEndOneByOne) {
  ASSERT_TRUE(pulled_->Begin(kApp));
  ASSERT_TRUE(pulled_->Begin(kApp));
  pulled_->Failed(kApp);
  EXPECT_EQ(Files("pulling").size(), 1u);
  EXPECT_FALSE(MayUse({}));
  pulled_->Failed(kApp);
  EXPECT_THAT(Files("pulling"), testing::IsEmpty());
}

TEST_F(PulledImagesTest, AfterAKillInAPullAllHaveToShowSomething) {
  ASSERT_TRUE(pulled_->Begin(kApp));
  Open();
  EXPECT_THAT(Files("pulling"), testing::IsEmpty());
  EXPECT_EQ(Files("pulled").size(), 1u);
  EXPECT_FALSE(MayUse({}));
  EXPECT_FALSE(MayUse({SecretNamed("a", "one")}));
  Pull(Shown({SecretNamed("a", "one")}));
  EXPECT_TRUE(MayUse({SecretNamed("a", "one")}));
  ASSERT_TRUE(pulled_->Begin("r.example/never-came:1"));
  Open();
  EXPECT_THAT(Files("pulling"), testing::IsEmpty());
  EXPECT_EQ(Files("pulled").size(), 1u);
}

TEST_F(PulledImagesTest, AKillBetweenRecordAndIntentTakesNothingAway) {
  Pull(Shown({SecretNamed("a", "one")}));
  ASSERT_TRUE(pulled_->Begin(kApp));  // as it stands when the record is written
  Open();
  EXPECT_TRUE(MayUse({SecretNamed("a", "one")}));
  EXPECT_FALSE(MayUse({}));
  EXPECT_THAT(Files("pulling"), testing::IsEmpty());
}

TEST_F(PulledImagesTest, WhatIsDamagedLetsNobodyInAndIsTold) {
  Pull(kNothingShown);
  std::ofstream(top_ + "/image_manager/pulled/" + Files("pulled").front()) << "{}";
  Open();
  EXPECT_THAT(log_, HasSubstr("is no ImagePulledRecord"));
  EXPECT_FALSE(MayUse({}));
  Pull(kNothingShown);
  EXPECT_TRUE(MayUse({}));
}

TEST_F(PulledImagesTest, RecordsGoWithTheirImages) {
  Pull(Shown({SecretNamed("a", "one")}));
  pulled_->Prune();
  EXPECT_EQ(Files("pulled").size(), 1u);
  store_.images.clear();
  pulled_->Prune();
  EXPECT_EQ(Files("pulled").size(), 1u) << "written at that very moment: it may just have come";
  ++clock_.now;
  pulled_->Prune();
  EXPECT_THAT(Files("pulled"), testing::IsEmpty());
  EXPECT_TRUE(MayUse({})) << "imported now, it is for all";
}

TEST_F(PulledImagesTest, PoliciesAreAKubelets) {
  EXPECT_TRUE(MayUse({}));
  Open("AlwaysVerify");
  EXPECT_FALSE(MayUse({}));
  Open("NeverVerifyAllowlistedImages", {"r.example/team/app"});
  EXPECT_TRUE(MayUse({}));
  Open("NeverVerifyAllowlistedImages", {"r.example/team/*"});
  EXPECT_TRUE(MayUse({}));
  Open("NeverVerifyAllowlistedImages", {"r.example/tea", "r.example/team/app2"});
  EXPECT_FALSE(MayUse({}));
  Open();
  Pull(Shown({SecretNamed("a", "one")}));
  Open("NeverVerify");
  EXPECT_TRUE(MayUse({}));
}

TEST(PullVerificationTest, PatternsThatAreNoneAreRefused) {
  const auto wrong = [](const char* pattern) {
    const auto made = PullVerification::Make("NeverVerifyAllowlistedImages", {pattern});
    return made ? "" : made.error().message();
  };
  EXPECT_THAT(wrong("a.example/*/x"), HasSubstr("only patterns ending with '/*'"));
  EXPECT_THAT(wrong("a.example/x*"), HasSubstr("only patterns ending with '/*'"));
  EXPECT_THAT(wrong("/*"), HasSubstr("registry hostname is required"));
  EXPECT_THAT(wrong("a.example/x:1"), HasSubstr("as in \"a.example/x\""));
  EXPECT_THAT(wrong("nginx"), HasSubstr("as in \"docker.io/library/nginx\""));
  EXPECT_THAT(wrong("a.example/x "), HasSubstr("no spaces"));
  EXPECT_THAT(PullVerification::Make("AlwaysVerify", {"a.example/x"}).error().message(),
              HasSubstr("needs imagePullCredentialsVerificationPolicy"));
}

TEST(PulledRecordTest, AKubeletsRecordIsReadAndWritten) {
  const std::string text =
      R"({"apiVersion":"kubelet.config.k8s.io/v1beta1","credentialMapping":{"docker.io/t/x":)"
      R"({"kubernetesSecrets":[{"credentialHash":"h","name":"s","namespace":"n","uid":"u"}]},)"
      R"("docker.io/t/y":{"nodePodsAccessible":true}},"imageRef":"sha256:x",)"
      R"("kind":"ImagePulledRecord","lastUpdatedTime":"2026-11-22T17:04:05Z"})";
  const auto record = DecodePulledRecord(text);
  ASSERT_TRUE(record) << record.error().message();
  EXPECT_TRUE(IsAccessible(*record, "docker.io/t/x", {{"u", "n", "s", "other"}}));
  EXPECT_TRUE(IsAccessible(*record, "docker.io/t/y", {}));
  EXPECT_FALSE(IsAccessible(*record, "docker.io/t/z", {}));
  std::string again = text;
  again.replace(again.find("v1beta1"), 7, "v1alpha1");
  EXPECT_EQ(EncodePulledRecord(*record), again);
  for (const char* other : {"", "[]", "{}", R"({"kind":"ImagePulledRecord"})",
                            R"({"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1",
                                "imageRef":7})"}) {
    EXPECT_FALSE(DecodePulledRecord(other)) << other;
  }
}

TEST(PodCredentialsTest, WhatWasShownIsTheSecretsOrTheNodes) {
  fakes::FakePodInputs inputs;
  inputs.Put({ObjectKind::kSecret, "default", "mine"},
             {{".dockerconfigjson", R"({"auths":{"r.example":{"username":"u","password":"p"}}})"}});
  corev1::Pod pod;
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_spec()->add_imagepullsecrets()->set_name("mine");
  PodLogins logins = LoginsOfPod(pod, &inputs);
  const std::vector<PullSecret> mine = {{"", "default", "mine", HashOf({"u", "p"})}};
  EXPECT_EQ(logins.PullSecrets(), mine);
  EXPECT_EQ(logins.CredentialsOf(RegistryLogin{"u", "p"}), (PullCredentials{false, mine}));
  EXPECT_EQ(logins.CredentialsOf(std::nullopt), kNothingShown);
  EXPECT_EQ(logins.CredentialsOf(RegistryLogin{"node", "own"}), kNothingShown);
}

}  // namespace
}  // namespace holdfast::agent
