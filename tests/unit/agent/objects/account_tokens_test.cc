// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/account_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>

#include "agent/kube/codec.h"
#include "agent/kube/times.h"
#include "k8s/authentication/v1/token.pb.h"
#include "k8s/core/v1/namespace.pb.h"

namespace holdfast::agent {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

class SetClock : public Clock {
 public:
  WallTime Wall() const override { return now; }
  BootTime Boot() const override { return {}; }
  WallTime now{seconds(1'800'000'000)};
};

// Answers on a thread of its own, as an API server does.
class AnsweringApi : public Api {
 public:
  using Answer = std::function<Result<ApiReply>(const ApiCall& call, int number)>;
  ~AnsweringApi() override {
    for (std::thread& thread : threads_) thread.join();
  }
  TicketPtr Send(ApiCall call, Done done) override {
    calls.push_back(call);
    const int number = static_cast<int>(calls.size());
    threads_.emplace_back([this, number, call = std::move(call), done = std::move(done)] {
      if (auto reply = answer(call, number)) done(std::move(*reply));
    });
    return std::make_unique<Ticket>();
  }
  TicketPtr Watch(ApiCall, Frame, std::function<void(Result<void>)>,
                  std::function<void(ApiReply)>) override {
    return nullptr;
  }
  void Post(std::function<void()>) override {}
  TicketPtr After(std::chrono::milliseconds, std::function<void()>) override { return nullptr; }
  void CloseAll(const std::string&) override {}

  std::function<std::optional<Result<ApiReply>>(const ApiCall& call, int number)> answer;
  std::vector<ApiCall> calls;

 private:
  std::vector<std::thread> threads_;
};

ApiReply Reply(const google::protobuf::Message& object) {
  ApiReply reply;
  reply.code = 200;
  reply.body = kube::EncodeEnvelope(object);
  reply.content_type = kProtobufType;
  return reply;
}

ApiReply Refusal(int code, const std::string& reason, const std::string& message) {
  ApiReply reply;
  reply.code = code;
  reply.reason = reason;
  reply.message = message;
  return reply;
}

class AccountTokensTest : public testing::Test {
 protected:
  ApiReply TokenOf(const std::string& text) const {
    k8s::io::api::authentication::v1::TokenRequest issued;
    issued.mutable_status()->set_token(text);
    issued.mutable_status()->mutable_expirationtimestamp()->set_seconds(
        std::chrono::floor<seconds>(clock_.now.since_epoch).count() + 3600);
    return Reply(issued);
  }

  SetClock clock_;
  AnsweringApi api_;
  ApiAccountTokens tokens_{api_, clock_};
  std::atomic<bool> wanted_ = false;  // cancelled: no
  const TokenOwner pod_{"ns", "sa", "p", PodUid("u")};
};

TEST_F(AccountTokensTest, AnAccountIsItsUidAndAnnotations) {
  api_.answer = [](const ApiCall&, int) -> std::optional<Result<ApiReply>> {
    k8s::io::api::core::v1::ServiceAccount account;
    account.mutable_metadata()->set_uid("su");
    (*account.mutable_metadata()->mutable_annotations())["role"] = "reader";
    return Reply(account);
  };
  const auto account = tokens_.Account(pod_, wanted_);
  ASSERT_TRUE(account) << account.error().message();
  EXPECT_EQ(account->uid, "su");
  EXPECT_THAT(account->annotations, testing::ElementsAre(testing::Pair("role", "reader")));
  EXPECT_EQ(api_.calls.at(0).path, "/api/v1/namespaces/ns/serviceaccounts/sa");
}

TEST_F(AccountTokensTest, ATokenIsBoundToThePodAndKeptForMostOfItsLife) {
  api_.answer = [this](const ApiCall&, int number) -> std::optional<Result<ApiReply>> {
    return TokenOf("t" + std::to_string(number));
  };
  EXPECT_EQ(tokens_.Token(pod_, "su", "vault", wanted_).value_or(""), "t1");
  const auto asked = kube::DecodeEnvelope(api_.calls.at(0).body);
  ASSERT_TRUE(asked);
  k8s::io::api::authentication::v1::TokenRequest request;
  request.CopyFrom(**asked);
  EXPECT_EQ(request.metadata().uid(), "su");
  EXPECT_EQ(request.spec().audiences(0), "vault");
  EXPECT_EQ(request.spec().boundobjectref().uid(), "u");
  EXPECT_EQ(tokens_.Token(pod_, "su", "vault", wanted_).value_or(""), "t1");
  EXPECT_EQ(tokens_.Token(pod_, "su", "other", wanted_).value_or(""), "t2");
  EXPECT_EQ(tokens_.Token(pod_, "another", "vault", wanted_).value_or(""), "t3");
  clock_.now = clock_.now + seconds(3000);
  EXPECT_EQ(tokens_.Token(pod_, "su", "vault", wanted_).value_or(""), "t4");
  clock_.now = clock_.now + seconds(-2000);
  EXPECT_EQ(tokens_.Token(pod_, "su", "vault", wanted_).value_or(""), "t5")
      << "the clock was set back";
}

TEST_F(AccountTokensTest, ARefusalIsToldAndOneThatIsTooEarlyIsTriedAgain) {
  api_.answer = [this](const ApiCall&, int number) -> std::optional<Result<ApiReply>> {
    if (number == 1) {
      return Refusal(403, "Forbidden", "no relationship found between node 'n1' and this object");
    }
    return TokenOf("t");
  };
  EXPECT_EQ(tokens_.Token(pod_, "su", "vault", wanted_).value_or(""), "t");
  api_.answer = [](const ApiCall&, int) -> std::optional<Result<ApiReply>> {
    return Refusal(404, "NotFound", "serviceaccounts \"sa\" not found");
  };
  const auto account = tokens_.Account(pod_, wanted_);
  ASSERT_FALSE(account);
  EXPECT_EQ(account.error().message(),
            "failed to get service account: serviceaccounts \"sa\" not found");
}

TEST_F(AccountTokensTest, WhoGivesUpDoesNotWaitForAnAnswer) {
  api_.answer = [](const ApiCall&, int) -> std::optional<Result<ApiReply>> { return std::nullopt; };
  std::thread later([this] { wanted_ = true; });
  EXPECT_FALSE(tokens_.Account(pod_, wanted_));
  later.join();
}

}  // namespace
}  // namespace holdfast::agent
