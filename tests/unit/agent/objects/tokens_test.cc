// SPDX-License-Identifier: Apache-2.0
// Tokens of service accounts: what is asked, when it is renewed, what happens meanwhile.
#include <gmock/gmock.h>

#include "k8s/storage/v1/csi.pb.h"
#include "tests/unit/agent/objects/inputs_fixture.h"

namespace holdfast::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr seconds kStep{1};

class TokensTest : public InputsTest {
 protected:
  void SetUp() override { Begin(); }

  static std::string TokenVolume(const std::string& audience = "") {
    return "volumes { name: 't' volumeSource { projected { sources { serviceAccountToken { "
           "audience: '" +
           audience + "' expirationSeconds: 3607 path: 'token' } } } } }";
  }
  std::string Seen(const std::string& uid, const std::string& audience = "") {
    const TokenInput input = inputs->Token(PodUid(uid), audience, seconds(3607));
    EXPECT_EQ(input.token != nullptr, input.state == InputState::kPresent);
    if (input.state == InputState::kPending) return "pending";
    return input.token ? *input.token : input.why;
  }
  k8s::io::api::authentication::v1::TokenRequest Asked() {
    k8s::io::api::authentication::v1::TokenRequest request;
    const auto object = kube::DecodeEnvelope(Question().call.body);
    if (object) request.CopyFrom(**object);
    return request;
  }
};

TEST_F(TokensTest, ATokenIsBoundToItsPod) {
  Acquire("a", TokenVolume());
  const auto& call = Question().call;
  EXPECT_EQ(call.verb, ApiVerb::kPost);
  EXPECT_EQ(call.path, "/api/v1/namespaces/ns/serviceaccounts/sa/token");
  EXPECT_EQ(call.content_type, "application/vnd.kubernetes.protobuf");
  const auto request = Asked();
  EXPECT_EQ(request.spec().audiences_size(), 0) << "the server's own is not written out";
  EXPECT_EQ(request.spec().expirationseconds(), 3607);
  EXPECT_EQ(request.spec().boundobjectref().kind(), "Pod");
  EXPECT_EQ(request.spec().boundobjectref().apiversion(), "v1");
  EXPECT_EQ(request.spec().boundobjectref().name(), "pod-a");
  EXPECT_EQ(request.spec().boundobjectref().uid(), "a");
  EXPECT_EQ(Seen("a"), "pending");
  Answer(TokenReply("t1", seconds(3607)));
  EXPECT_EQ(Seen("a"), "t1");
  EXPECT_THAT(Told(), ElementsAre("a"));
  EXPECT_EQ(Version("a"), 2u);
}

TEST_F(TokensTest, AnAudienceIsAskedForByName) {
  Acquire("a", TokenVolume("vault"));
  ASSERT_EQ(Asked().spec().audiences_size(), 1);
  EXPECT_EQ(Asked().spec().audiences(0), "vault");
  Answer(TokenReply("t1", seconds(3607)));
  EXPECT_EQ(Seen("a", "vault"), "t1");
  EXPECT_EQ(Seen("a"), "pending") << "nobody asked for that one";
}

TEST_F(TokensTest, AStoragePluginsWishesFollowFromItsDriver) {
  Acquire("a", "volumes { name: 'v' volumeSource { csi { driver: 'vault.example' } } }");
  EXPECT_EQ(Question().call.path, "/apis/storage.k8s.io/v1/csidrivers/vault.example");
  k8s::io::api::storage::v1::CSIDriver driver;
  driver.mutable_metadata()->set_name("vault.example");
  auto& spec = *driver.mutable_spec();
  auto& token = *spec.add_tokenrequests();
  token.set_audience("vault");
  token.set_expirationseconds(3607);
  spec.set_requiresrepublish(true);
  Answer(Reply(driver));
  api.RunPosted();
  EXPECT_EQ(Asked().spec().audiences(0), "vault");
  Answer(TokenReply("t1", seconds(3607)));
  EXPECT_EQ(Seen("a", "vault"), "t1");
  const TokenInput seen = inputs->Token(PodUid("a"), "vault", seconds(3607));
  EXPECT_EQ(seen.expires, clock.Wall() + seconds(3607));

  Told();
  uint64_t before = Version("a");
  for (int round = 0; round < 3; ++round) {
    api.Advance(seconds(59));
    EXPECT_EQ(Version("a"), before) << "round " << round;
    api.Advance(seconds(32));
    EXPECT_EQ(Version("a"), before + 1) << "it is published again each 60 to 90 s";
    EXPECT_THAT(Told(), ElementsAre("a"));
    before = Version("a");
    // The next one counts from then; the rest of the 91 s is over.
    while (Version("a") == before) api.Advance(seconds(1));
    before = Version("a");
    Told();
  }
  Release("a");
  api.Advance(seconds(200));
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(TokensTest, EachPodHasItsOwn) {
  Acquire("a", TokenVolume());
  Answer(TokenReply("of a", seconds(3607)));
  Acquire("b", TokenVolume());
  EXPECT_EQ(Asked().spec().boundobjectref().uid(), "b");
  Answer(TokenReply("of b", seconds(3607)));
  EXPECT_EQ(Seen("a"), "of a");
  EXPECT_EQ(Seen("b"), "of b");
}

TEST_F(TokensTest, RenewedAfterSevenToEightTenthsOfItsLife) {
  double least = 1;
  double most = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string uid = "p" + std::to_string(i);
    Acquire(uid, TokenVolume());
    Answer(TokenReply("old", seconds(3607)));
    const double used =
        std::chrono::duration<double>(UntilAsked(seconds(4000), kStep)).count() / 3607;
    least = std::min(least, used);
    most = std::max(most, used);
    EXPECT_EQ(Seen(uid), "old") << "until the answer comes";
    const uint64_t before = Version(uid);
    Answer(TokenReply("new", seconds(3607)));
    EXPECT_EQ(Seen(uid), "new");
    EXPECT_EQ(Version(uid), before + 1);
    Release(uid);
  }
  EXPECT_GE(least, 0.70);
  EXPECT_LE(most, 0.802);
  EXPECT_GT(most - least, 0.02) << "spread";
}

TEST_F(TokensTest, TheServerSaysHowLongItLives) {
  Acquire("a", TokenVolume());
  Answer(TokenReply("short", seconds(600)));
  EXPECT_LE(UntilAsked(seconds(4000), kStep), seconds(482));
  Answer(TokenReply("long", seconds(10'000'000)));
  const auto used = UntilAsked(seconds(200'000), seconds(10));
  EXPECT_GT(used, seconds(86'000));
  EXPECT_LE(used, seconds(86'420)) << "no later than after a day";
}

TEST_F(TokensTest, TheOldOneStaysWhileRenewingFailsUntilItExpires) {
  Acquire("a", TokenVolume());
  Answer(TokenReply("old", seconds(600)));
  Told();
  const uint64_t before = Version("a");
  UntilAsked(seconds(600), kStep);
  api.Answer(Question(), Unavailable("connection refused"));
  EXPECT_EQ(Seen("a"), "old");
  EXPECT_THAT(Told(), IsEmpty());
  int tries = 0;
  while (api.now < seconds(700)) {
    const auto waited = UntilAsked(seconds(100), kStep);
    EXPECT_EQ(waited, seconds(60)) << "each minute";
    api.Answer(Question(), Unavailable("connection refused"));
    ++tries;
  }
  EXPECT_GE(tries, 3);
  EXPECT_EQ(Seen("a"),
            "token of service account \"sa\" expired and refresh failed: failed to fetch token: "
            "connection refused");
  UntilAsked(seconds(100), kStep);
  Answer(TokenReply("new", seconds(600)));
  EXPECT_EQ(Seen("a"), "new");
  EXPECT_GT(Version("a"), before);
}

TEST_F(TokensTest, AFirstTokenIsTriedAgainSoon) {
  Acquire("a", TokenVolume());
  Answer(TooEarly());
  EXPECT_EQ(Seen("a"), "pending");
  EXPECT_EQ(UntilAsked(seconds(10)), milliseconds(2));
  Answer(Refusal(404, "serviceaccounts \"sa\" not found"));
  EXPECT_EQ(Seen("a"), "failed to fetch token: serviceaccounts \"sa\" not found");
  EXPECT_LT(UntilAsked(seconds(100)), seconds(2));
  Answer(TokenReply("t1", seconds(600)));
  EXPECT_EQ(Seen("a"), "t1");
}

TEST_F(TokensTest, AClockThatIsSetIsNoticed) {
  Acquire("a", TokenVolume());
  Answer(TokenReply("t1", seconds(3607)));
  clock.offset = seconds(-86'400);
  EXPECT_LE(UntilAsked(seconds(4000), kStep), seconds(601)) << "issued in the future";
  Answer(TokenReply("t2", seconds(3607)));
  clock.offset = seconds(0);
  EXPECT_LE(UntilAsked(seconds(4000), kStep), seconds(601)) << "expired at once";
}

TEST_F(TokensTest, AnotherClockThanTheServersIsNoLoop) {
  Acquire("a", TokenVolume());
  Answer(TokenReply("t1", seconds(-5000)));
  EXPECT_EQ(Seen("a"), "t1") << "the server knows better";
  EXPECT_EQ(UntilAsked(seconds(100), kStep), seconds(60));
}

TEST_F(TokensTest, AnAnswerWithoutATokenIsNone) {
  Acquire("a", TokenVolume());
  Answer(TokenReply("", seconds(600)));
  EXPECT_THAT(Seen("a"), HasSubstr("failed to fetch token: the answer has no token"));
}

TEST_F(TokensTest, NothingIsRenewedForAPodThatIsReleased) {
  Acquire("a", TokenVolume());
  Answer(TokenReply("t1", seconds(600)));
  std::weak_ptr<const std::string> token = inputs->Token(PodUid("a"), "", seconds(3607)).token;
  Release("a");
  EXPECT_TRUE(token.expired());
  EXPECT_EQ(UntilAsked(seconds(1000), kStep), seconds(1000));
}

}  // namespace
}  // namespace holdfast::agent
