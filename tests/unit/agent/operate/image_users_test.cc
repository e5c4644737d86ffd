// SPDX-License-Identifier: Apache-2.0
#include "agent/operate/image_users.h"

#include <gtest/gtest.h>

#include <memory>

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

constexpr char kId[] = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

Image Web() {
  Image image;
  image.id = Digest(kId);
  image.repo_tags = {"docker.io/library/web:1"};
  return image;
}

class ImageUsersTest : public testing::Test {
 protected:
  ImageUsersTest() {
    pod_.mutable_metadata()->set_namespace_("default");
    pod_.mutable_metadata()->set_name("web-n1");
    pod_.mutable_spec()->set_restartpolicy("Always");
    auto* container = pod_.mutable_spec()->add_containers();
    container->set_name("main");
    container->set_image("web:1");
    pod_.mutable_status()->set_phase("Pending");
  }
  corev1::ContainerStatus& Status() {
    if (pod_.status().containerstatuses().empty()) {
      pod_.mutable_status()->add_containerstatuses()->set_name("main");
    }
    return *pod_.mutable_status()->mutable_containerstatuses(0);
  }
  void Runs(const std::string& id) {
    pod_.mutable_status()->set_phase("Running");
    Status().set_imageid(id);
    Status().mutable_state()->mutable_running();
  }
  void Ended(int32_t code) {
    pod_.mutable_status()->set_phase("Running");
    Status().set_imageid(kId);
    Status().mutable_state()->mutable_terminated()->set_exitcode(code);
  }
  std::string User() { return UserOfImage({std::make_shared<const corev1::Pod>(pod_)}, Web()); }
  void ExpectUsed() { EXPECT_EQ(User(), "container main of pod default/web-n1"); }

  corev1::Pod pod_;
};

TEST_F(ImageUsersTest, WhatRunsNeedsTheImageItRuns) {
  Runs(kId);
  ExpectUsed();
  // The name is another image's by now, or this one's only since.
  Runs("sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
  EXPECT_EQ(User(), "");
}

// Its layers were once taken away while the container was being started.
TEST_F(ImageUsersTest, WhatIsOnlyJustStartedNeedsTheImageItsPodNames) {
  ExpectUsed();  // nothing is known of its containers yet
  Status().mutable_state()->mutable_waiting()->set_reason("ContainerCreating");
  ExpectUsed();
  pod_.mutable_spec()->mutable_containers(0)->set_image("docker.io/library/web:1");
  ExpectUsed();
  pod_.mutable_spec()->mutable_containers(0)->set_image(kId);
  ExpectUsed();
  pod_.mutable_spec()->mutable_containers(0)->set_image("web:2");
  EXPECT_EQ(User(), "");
}

TEST_F(ImageUsersTest, WhatWillBeStartedAgainNeedsIt) {
  Ended(1);
  ExpectUsed();
  pod_.mutable_spec()->set_restartpolicy("Never");
  EXPECT_EQ(User(), "");
  pod_.mutable_spec()->set_restartpolicy("OnFailure");
  ExpectUsed();
  Ended(0);
  EXPECT_EQ(User(), "");
}

TEST_F(ImageUsersTest, APodThatIsOverOrEndsStartsNothing) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    pod_.mutable_status()->set_phase(phase);
    EXPECT_EQ(User(), "") << phase;
  }
  pod_.mutable_status()->set_phase("Running");
  ExpectUsed();
  pod_.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
  EXPECT_EQ(User(), "");
  Runs(kId);
  ExpectUsed();
}

TEST_F(ImageUsersTest, AVolumeNeedsTheImageItIs) {
  Runs("sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
  auto* volume = pod_.mutable_spec()->add_volumes();
  volume->set_name("v");
  volume->mutable_volumesource()->mutable_image()->set_reference(Web().repo_tags.front());
  EXPECT_EQ(User(), "volume v of pod default/web-n1");
}

// Collected is only what no desired pod names or has run.
TEST_F(ImageUsersTest, WhatADesiredPodNamesIsKeptWhateverItsContainersDo) {
  const auto has = [this](const Image& image) {
    return NeededImages({std::make_shared<const corev1::Pod>(pod_)}).Has(image);
  };
  EXPECT_TRUE(has(Web()));
  Ended(0);
  pod_.mutable_spec()->set_restartpolicy("Never");
  pod_.mutable_status()->set_phase("Succeeded");
  EXPECT_EQ(User(), "");
  EXPECT_TRUE(has(Web())) << "after a reboot it may start again";
  Image moved = Web();
  moved.repo_tags = {};
  EXPECT_TRUE(has(moved)) << "it ran this one, though the name is another's by now";
  Image other;
  other.id = Digest("sha256:cc");
  EXPECT_FALSE(has(other));
  auto* init = pod_.mutable_spec()->add_initcontainers();
  init->set_name("first");
  init->set_image("registry:5000/init@sha256:" + std::string(64, 'e'));
  Image first;
  first.id = Digest("sha256:dd");
  first.repo_digests = {"registry:5000/init@sha256:" + std::string(64, 'e')};
  EXPECT_TRUE(has(first));
  pod_.mutable_spec()->add_volumes()->mutable_volumesource()->mutable_image()->set_reference(
      "models:2");
  Image models;
  models.id = Digest("sha256:ee");
  models.repo_tags = {"docker.io/library/models:2"};
  EXPECT_TRUE(has(models)) << "volumes are images too";
}

}  // namespace
}  // namespace holdfast::agent
