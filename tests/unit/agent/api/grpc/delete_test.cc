// SPDX-License-Identifier: Apache-2.0
// Delete and grace periods: what is asked of the pod table, and when nothing is.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "tests/support/api_fixture.h"

namespace holdfast::agent {
namespace {

class DeleteTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    node_.delete_object = [](const std::string& kind, const std::string& ns,
                             const std::string& name) -> Result<EditedObject> {
      if (name == "foreign") return Conflict("comes from foreign.yaml");
      if (name == "ending") return NotFound("pods \"ending\" not found");
      return EditedObject{kind, ns, name, "web.yaml", EditOutcome::kDeleted};
    };
    node_.set_deletion_grace = [this](const PodUid& uid,
                                      std::optional<std::chrono::seconds> grace) {
      const std::lock_guard lock(wishes_mutex_);
      wishes_.push_back(StrCat(uid.value, " ", grace ? StrCat(grace->count()) : "taken back"));
    };
    StartServer();
    for (const char* name : {"web", "foreign", "ending"}) {
      k8s::io::api::core::v1::Pod pod;
      pod.mutable_metadata()->set_name(name);
      pod.mutable_metadata()->set_namespace_("default");
      pod.mutable_metadata()->set_uid(StrCat("uid-", name));
      pod.mutable_spec()->set_terminationgraceperiodseconds(60);
      if (std::string(name) == "ending") {
        pod.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
      }
      pods_.SetPod(std::move(pod));
    }
  }

  grpc::StatusCode Delete(const std::string& name, std::optional<int64_t> grace) {
    v1::DeleteRequest request;
    request.set_namespace_("default");
    request.set_name(name);
    if (grace) request.set_grace_period_seconds(*grace);
    grpc::ClientContext context;
    v1::DeleteResponse response;
    return NewStub()->Delete(&context, request, &response).error_code();
  }
  std::vector<std::string> Wishes() {
    const std::lock_guard lock(wishes_mutex_);
    return wishes_;
  }

 private:
  std::mutex wishes_mutex_;
  std::vector<std::string> wishes_;
};

TEST_F(DeleteTest, AGracePeriodIsAWishOfTheRemovalOnly) {
  EXPECT_EQ(Delete("web", std::nullopt), grpc::StatusCode::OK);
  EXPECT_EQ(Wishes(), std::vector<std::string>{});
  EXPECT_EQ(Delete("web", 3), grpc::StatusCode::OK);
  EXPECT_EQ(Wishes(), std::vector<std::string>{"uid-web 3"});
}

TEST_F(DeleteTest, ARefusedRemovalLeavesNoWish) {
  EXPECT_NE(Delete("foreign", 0), grpc::StatusCode::OK);
  EXPECT_EQ(Wishes(), (std::vector<std::string>{"uid-foreign 0", "uid-foreign taken back"}));
}

TEST_F(DeleteTest, APodThatIsEndingIsShortened) {
  EXPECT_EQ(Delete("ending", 0), grpc::StatusCode::OK);
  EXPECT_EQ(Wishes().back(), "uid-ending 0");
  EXPECT_EQ(Delete("ending", std::nullopt), grpc::StatusCode::OK) << "again, as kubectl may";
  EXPECT_EQ(Wishes().back(), "uid-ending 60");
  EXPECT_EQ(Delete("nobody", 0), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace holdfast::agent
