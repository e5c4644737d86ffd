// SPDX-License-Identifier: Apache-2.0
// Delete and grace periods: what is asked of the pod table, and when nothing is.
#include "agent/operate/delete_object.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "tests/fakes/fake_pod_view.h"

namespace holdfast::agent {
namespace {

class DeleteObjectTest : public ::testing::Test {
 protected:
  DeleteObjectTest() {
    steps_.remove_manifest = [](const std::string& kind, const std::string& ns,
                                const std::string& name) -> Result<EditedObject> {
      if (name == "foreign") return Conflict("comes from foreign.yaml");
      if (name == "ending") return NotFound("pods \"ending\" not found");
      return EditedObject{kind, ns, name, "web.yaml", EditOutcome::kDeleted};
    };
    steps_.set_grace = [this](const PodUid& uid, std::optional<std::chrono::seconds> grace) {
      wishes_.push_back(StrCat(uid.value, " ", grace ? StrCat(grace->count()) : "taken back"));
    };
    for (const std::string name : {"web-n1", "foreign", "ending"}) {
      k8s::io::api::core::v1::Pod pod;
      pod.mutable_metadata()->set_name(name);
      pod.mutable_metadata()->set_namespace_("default");
      pod.mutable_metadata()->set_uid(StrCat("uid-", name));
      pod.mutable_spec()->set_terminationgraceperiodseconds(60);
      if (name == "ending") {
        pod.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
      }
      pods_.SetPod(std::move(pod));
    }
  }

  Result<EditedObject> Delete(const std::string& kind, const std::string& name,
                              std::optional<int64_t> grace) {
    Deletion deletion{
        .kind = kind, .object_namespace = "default", .name = name, .grace = std::nullopt};
    if (grace) deletion.grace = std::chrono::seconds(*grace);
    return DeleteObject(pods_, "n1", steps_, deletion);
  }

  FakePodView pods_;
  DeletionSteps steps_;
  std::vector<std::string> wishes_;
};

TEST_F(DeleteObjectTest, AGracePeriodIsAWishOfTheRemovalOnly) {
  EXPECT_TRUE(Delete("Pod", "web", std::nullopt));
  EXPECT_EQ(wishes_, std::vector<std::string>{});
  EXPECT_TRUE(Delete("Pod", "web", 3));
  EXPECT_EQ(wishes_, std::vector<std::string>{"uid-web-n1 3"}) << "by the manifest's name";
}

TEST_F(DeleteObjectTest, ARefusedRemovalLeavesNoWish) {
  EXPECT_FALSE(Delete("Pod", "foreign", 0));
  EXPECT_EQ(wishes_, (std::vector<std::string>{"uid-foreign 0", "uid-foreign taken back"}));
}

TEST_F(DeleteObjectTest, APodThatIsEndingIsShortened) {
  EXPECT_TRUE(Delete("Pod", "ending", 0));
  EXPECT_EQ(wishes_.back(), "uid-ending 0");
  EXPECT_TRUE(Delete("Pod", "ending", std::nullopt)) << "again, as kubectl may";
  EXPECT_EQ(wishes_.back(), "uid-ending 60");
  EXPECT_TRUE(Delete("Pod", "nobody", 0));
}

TEST_F(DeleteObjectTest, AGracePeriodIsForPodsAndNotNegative) {
  EXPECT_EQ(Delete("Pod", "web", -1).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Delete("Service", "web", 1).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Delete("Service", "web", std::nullopt));
  EXPECT_EQ(wishes_, std::vector<std::string>{});
}

}  // namespace
}  // namespace holdfast::agent
