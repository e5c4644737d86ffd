// SPDX-License-Identifier: Apache-2.0
// Pods that name the same private image: who runs with it.
#include <gtest/gtest.h>

#include "agent/images/pulled_images.h"
#include "agent/objects/file_pod_inputs.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/served_pods_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

const RegistryLogin kJane{"jane", "word"};

// Lets in who has the one login; then the image is here.
class GuardedRegistry : public ImagePuller {
 public:
  explicit GuardedRegistry(FakeImages& images) : images_(images) {}
  Result<PulledImage> Pull(const PullRequest& request, const std::atomic<bool>&) override {
    const auto logins = request.logins("r.example/private");
    if (std::ranges::find(logins, kJane) == logins.end()) {
      return Error(Code::kPermissionDenied, "pull access denied");
    }
    ++pulls;
    images_.Add(request.reference);
    ASSIGN_OR_RETURN(Image image, images_.Get(request.reference));
    return PulledImage{std::move(image), {}, kJane};
  }
  std::atomic<int> pulls = 0;

 private:
  FakeImages& images_;
};

class ImageRightsTest : public ServedPodsTest {
 protected:
  void SetUp() override {
    ServedPodsTest::SetUp();
    PulledImagesOptions options;
    options.directory = top_ + "/image_manager";
    options.log = [](const std::string& line) { ADD_FAILURE() << line; };
    pulled_ = std::move(*PulledImages::Open(std::move(options), images_, clock_));
    node_->services.puller = &registry_;
    node_->services.pulled_images = pulled_.get();
    Secret("right", "word");
    Secret("wrong", "guess");
  }
  void Secret(const std::string& name, const std::string& password) {
    inputs_.Put({ObjectKind::kSecret, "default", name},
                {{".dockercfg",
                  StrCat(R"({"r.example":{"username":"jane","password":")", password, "\"}}")}});
  }
  void Put(const std::string& uid, const std::string& secret,
           const std::string& policy = "IfNotPresent") {
    corev1::Pod pod = MakePod(uid);
    pod.mutable_metadata()->set_name(uid);
    auto& container = *pod.mutable_spec()->mutable_containers(0);
    container.set_image("r.example/private:1");
    container.set_imagepullpolicy(policy);
    if (!secret.empty()) pod.mutable_spec()->add_imagepullsecrets()->set_name(secret);
    ServedPodsTest::Put(pod);
  }
  bool Runs(const std::string& uid) {
    return Eventually([&] { return node_->Phase(uid) == "Running"; });
  }
  bool WaitsIn(const std::string& uid, const std::string& reason) {
    return Eventually([&] {
      for (const PodPtr& pod : node_->view.ListPods()) {
        if (pod->metadata().name() != uid) continue;
        const auto& statuses = pod->status().containerstatuses();
        return !statuses.empty() && statuses[0].state().waiting().reason() == reason;
      }
      return false;
    });
  }

  GuardedRegistry registry_{images_};
  std::unique_ptr<PulledImages> pulled_;
};

TEST_F(ImageRightsTest, APrivateImageIsForWhoHasItsLogin) {
  Put("owner", "right");
  ASSERT_TRUE(Runs("owner"));
  EXPECT_EQ(registry_.pulls, 1);
  Put("without", "");
  EXPECT_TRUE(WaitsIn("without", "ErrImagePull"));
  Put("guesses", "wrong");
  EXPECT_TRUE(WaitsIn("guesses", "ErrImagePull"));
  Put("never", "wrong", "Never");
  EXPECT_TRUE(WaitsIn("never", "ErrImageNeverPull"));
  Put("second", "right");
  EXPECT_TRUE(Runs("second"));
  Put("third", "right", "Never");
  EXPECT_TRUE(Runs("third"));
  EXPECT_EQ(registry_.pulls, 1) << "who has the login needs no second pull";
}

// The same login in a Secret of the manifest directory; it comes after the pod.
TEST_F(ImageRightsTest, APodOfAFileHasTheLoginOfItsDirectorysSecret) {
  FilePodInputs directory(ServicesOfFiles{
      [] { return 1; },
      [](const std::string&, bool, uint64_t) { return std::vector<std::string>(); }});
  directory.SetObjects({});
  node_->services.file_inputs = &directory;
  node_->services.node_logins = [](const std::string&, const TokenOwner* account,
                                   const std::atomic<bool>&) {
    EXPECT_EQ(account, nullptr) << "a file's pod has none, whatever it names";
    return ProvidedLogins();
  };
  corev1::Pod pod = MakePod("filed");
  pod.mutable_metadata()->set_name("filed");
  pod.mutable_spec()->mutable_containers(0)->set_image("r.example/private:1");
  pod.mutable_spec()->add_imagepullsecrets()->set_name("right");
  pod.mutable_spec()->set_serviceaccountname("robot");
  source_.Set({pod});
  EXPECT_TRUE(WaitsIn("filed", "ErrImagePull"));
  EXPECT_TRUE(Eventually([&] {
    const auto reasons = EventReasons();
    return std::ranges::find(reasons, "FailedToRetrieveImagePullSecret") != reasons.end();
  }));
  auto secret = std::make_shared<ConfigObject>();
  secret->ref = {ObjectKind::kSecret, "default", "right"};
  secret->data = inputs_.objects.at(secret->ref).data;
  directory.SetObjects({secret});
  clock_.passed_ms = 60'000;  // its back-off
  EXPECT_TRUE(Runs("filed"));
  EXPECT_EQ(registry_.pulls, 1);
  node_.reset();  // before the directory goes
}

}  // namespace
}  // namespace holdfast::agent
