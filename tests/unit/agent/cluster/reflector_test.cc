// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/reflector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/cluster/api_objects.h"
#include "agent/kube/codec.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/meta/v1/status.pb.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

corev1::Pod PodOf(const std::string& name, const std::string& uid, const std::string& version) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_namespace_("ns");
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_uid(uid);
  pod.mutable_metadata()->set_resourceversion(version);
  pod.mutable_metadata()->add_managedfields()->set_manager("kubectl");
  pod.mutable_status()->set_phase("Running");
  return pod;
}

std::string Bookmark(const std::string& version, bool ends_list) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_resourceversion(version);
  if (ends_list) {
    (*pod.mutable_metadata()->mutable_annotations())["k8s.io/initial-events-end"] = "true";
  }
  return kube::EncodeEnvelope(pod);
}

std::string StatusOf(int code, const std::string& reason) {
  metav1::Status status;
  status.set_code(code);
  status.set_reason(reason);
  status.set_message("too old resource version: 5 (525)");
  return kube::EncodeEnvelope(status);
}

ApiReply Refusal(int code, const std::string& reason,
                 std::optional<seconds> retry_after = std::nullopt) {
  ApiReply reply;
  reply.code = code;
  reply.reason = reason;
  reply.retry_after = retry_after;
  return reply;
}

// Writes down what it is told: "list", "put a/1 @5", "gone a/1", "whole", "trouble".
class Recorder : public ObjectHandler {
 public:
  void ListBegins() override { told.push_back("list"); }
  void Put(kube::ObjectPtr object) override {
    const auto& pod = dynamic_cast<const corev1::Pod&>(*object);
    EXPECT_EQ(pod.metadata().managedfields_size(), 0);
    told.push_back("put " + pod.metadata().name() + "/" + pod.metadata().uid() + " @" +
                   pod.metadata().resourceversion());
  }
  void Gone(kube::ObjectPtr last) override {
    const auto& pod = dynamic_cast<const corev1::Pod&>(*last);
    told.push_back("gone " + pod.metadata().name() + "/" + pod.metadata().uid() + " " +
                   pod.status().phase());
    if (on_gone) on_gone();
  }
  void ListEnds() override { told.push_back("whole"); }
  void Trouble(const Error& error) override {
    told.push_back("trouble");
    troubles.push_back(error);
  }

  // What it was told since the last time.
  std::vector<std::string> Take() { return std::exchange(told, {}); }

  std::vector<std::string> told;
  std::vector<Error> troubles;
  std::function<void()> on_gone;
};

class ReflectorTest : public testing::Test {
 protected:
  void SetUp() override {
    Begin({"/api/v1/pods", "fieldSelector=spec.nodeName%3Dn1", {"v1", "Pod"}, ApiLane::kPods});
  }

  void Begin(ReflectorOptions options) {
    ticket.reset();
    api.watches.clear();
    ticket = Reflect(api, std::move(options), recorder);
    api.RunPosted();
  }

  // The one watch that is open.
  fakes::FakeApi::Call& Watch() {
    const auto open = fakes::FakeApi::Open(api.watches);
    EXPECT_EQ(open.size(), 1u);
    return *open.back();
  }
  size_t OpenWatches() { return fakes::FakeApi::Open(api.watches).size(); }
  fakes::FakeApi::Call& Page() {
    const auto open = fakes::FakeApi::Open(api.sent);
    EXPECT_EQ(open.size(), 1u);
    return *open.back();
  }
  size_t OpenPages() { return fakes::FakeApi::Open(api.sent).size(); }

  void Send(const std::string& type, const corev1::Pod& pod) {
    api.Send(Watch(), type, kube::EncodeEnvelope(pod));
  }
  void ListOf(const std::vector<corev1::Pod>& pods, const std::string& version) {
    for (const auto& pod : pods) Send("ADDED", pod);
    api.Send(Watch(), "BOOKMARK", Bookmark(version, true));
  }
  void AnswerPage(const std::vector<corev1::Pod>& pods, const std::string& version,
                  const std::string& next) {
    corev1::PodList list;
    list.mutable_metadata()->set_resourceversion(version);
    list.mutable_metadata()->set_continue_(next);
    for (const auto& pod : pods) *list.add_items() = pod;
    ApiReply reply;
    reply.code = 200;
    reply.body = kube::EncodeEnvelope(list);
    api.Answer(Page(), reply);
  }
  // In how many seconds something is asked again.
  double SecondsUntilAsked() {
    const auto from = api.now;
    while (OpenWatches() + OpenPages() == 0 && api.now - from < seconds(100)) {
      api.Advance(milliseconds(10));
    }
    return std::chrono::duration<double>(api.now - from).count();
  }

  fakes::FakeApi api;
  Recorder recorder;
  TicketPtr ticket;
};

TEST_F(ReflectorTest, AWatchSendsTheListFirst) {
  EXPECT_EQ(Watch().call.lane, ApiLane::kPods);
  const std::string path = Watch().call.path;
  EXPECT_THAT(path, testing::StartsWith("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&watch=true&"
                                        "allowWatchBookmarks=true&sendInitialEvents=true&"
                                        "resourceVersionMatch=NotOlderThan&timeoutSeconds="));
  const int timeout = std::stoi(path.substr(path.rfind('=') + 1));
  EXPECT_GE(timeout, 300);
  EXPECT_LE(timeout, 600);
  ListOf({PodOf("a", "1", "5"), PodOf("b", "2", "3")}, "9");
  EXPECT_THAT(recorder.Take(), ElementsAre("list", "put a/1 @5", "put b/2 @3", "whole"));
  Send("MODIFIED", PodOf("a", "1", "10"));
  Send("DELETED", PodOf("b", "2", "11"));
  Send("DELETED", PodOf("c", "3", "12"));  // was never there
  EXPECT_THAT(recorder.Take(), ElementsAre("put a/1 @10", "gone b/2 Running"));
}

TEST_F(ReflectorTest, ASingleObjectIsWatchedForLonger) {
  Begin({"/api/v1/nodes", "fieldSelector=metadata.name%3Dn1", {"v1", "Node"}, ApiLane::kPods});
  const std::string path = Watch().call.path;
  EXPECT_GE(std::stoi(path.substr(path.rfind('=') + 1)), 1800);
}

TEST_F(ReflectorTest, AWatchThatEndsIsResumedAtOnceFromWhatWasSeenLast) {
  ListOf({PodOf("a", "1", "5")}, "9");
  api.Send(Watch(), "BOOKMARK", Bookmark("20", false));
  api.Advance(milliseconds(1100));
  recorder.Take();
  api.End(Watch(), {});
  EXPECT_THAT(Watch().call.path,
              HasSubstr("watch=true&allowWatchBookmarks=true&resourceVersion=20&"));
  EXPECT_THAT(Watch().call.path, Not(HasSubstr("sendInitialEvents")));
  Send("MODIFIED", PodOf("a", "1", "21"));
  EXPECT_THAT(recorder.Take(), ElementsAre("put a/1 @21"));
}

TEST_F(ReflectorTest, AWatchThatEndsAtOnceIsResumedSlowerAndSlower) {
  ListOf({}, "9");
  recorder.Take();
  double last = 0;
  for (int i = 0; i < 4; ++i) {
    api.End(Watch(), {});
    EXPECT_EQ(OpenWatches(), 0u);
    const double waited = SecondsUntilAsked();
    EXPECT_GT(waited, last) << i;
    last = waited;
  }
  EXPECT_GE(last, 6.4);
  EXPECT_TRUE(recorder.Take().empty()) << "that is no failure";
  api.Advance(seconds(121));  // health forgives
  api.Send(Watch(), "BOOKMARK", Bookmark("10", false));
  api.End(Watch(), Unavailable("reset"));
  EXPECT_LE(SecondsUntilAsked(), 1.3);
}

// A busy server ends the watch of who does not take all of it in time.
TEST_F(ReflectorTest, AWatchThatToldOfAChangeIsResumedAtOnceHoweverShortItWas) {
  ListOf({}, "9");
  for (int version = 10; version < 14; ++version) {
    Send("ADDED", PodOf("a", "1", std::to_string(version)));
    api.End(Watch(), {});
    EXPECT_THAT(Watch().call.path, HasSubstr(StrCat("resourceVersion=", version, "&")));
  }
  api.Send(Watch(), "BOOKMARK", Bookmark("20", false));
  api.End(Watch(), {});
  EXPECT_EQ(OpenWatches(), 0u) << "a bookmark is no change";
  EXPECT_GT(SecondsUntilAsked(), 0.0);
}

TEST_F(ReflectorTest, AListCutShortTakesNothingAway) {
  ListOf({PodOf("a", "1", "5"), PodOf("b", "2", "6")}, "9");
  api.Send(Watch(), "ERROR", StatusOf(410, "Expired"));
  SecondsUntilAsked();
  recorder.Take();
  Send("ADDED", PodOf("b", "2", "6"));
  api.End(Watch(), {});  // without the end of the list
  EXPECT_THAT(recorder.Take(), ElementsAre("put b/2 @6", "trouble"));
  SecondsUntilAsked();
  ListOf({PodOf("b", "2", "7")}, "12");
  EXPECT_THAT(recorder.Take(), ElementsAre("list", "put b/2 @7", "gone a/1 ", "whole"));
}

TEST_F(ReflectorTest, TheSuccessorOfANameComesAfterTheEndOfTheOldOne) {
  ListOf({PodOf("a", "1", "5")}, "9");
  api.Send(Watch(), "ERROR", StatusOf(410, "Expired"));
  SecondsUntilAsked();
  recorder.Take();
  ListOf({PodOf("a", "2", "11")}, "12");
  EXPECT_THAT(recorder.Take(), ElementsAre("gone a/1 ", "put a/2 @11", "whole"));
}

TEST_F(ReflectorTest, EachShapeOf410IsAFreshListWithinASecond) {
  const std::vector<std::function<void()>> shapes = {
      [&] { api.Send(Watch(), "ERROR", StatusOf(410, "Expired")); },
      [&] { api.Send(Watch(), "ERROR", StatusOf(0, "Gone")); },
      [&] { api.Refuse(Watch(), Refusal(410, "Expired")); },
  };
  ListOf({}, "9");
  for (const auto& shape : shapes) {
    api.Advance(seconds(2));
    recorder.Take();
    shape();
    EXPECT_EQ(OpenWatches(), 0u) << "spread";
    EXPECT_LE(SecondsUntilAsked(), 1.01);
    EXPECT_THAT(Watch().call.path, HasSubstr("sendInitialEvents=true"));
    EXPECT_THAT(Watch().call.path, Not(HasSubstr("resourceVersion=")));
    ListOf({}, "100");
    EXPECT_THAT(recorder.Take(), ElementsAre("list", "whole")) << "no trouble";
  }
}

TEST_F(ReflectorTest, One410AfterTheOtherSlowsDown) {
  ListOf({}, "9");
  double last = 0;
  for (int i = 0; i < 5; ++i) {
    api.Send(Watch(), "ERROR", StatusOf(410, "Expired"));
    last = SecondsUntilAsked();
    ListOf({}, "100");
  }
  EXPECT_GE(last, 6.4);
}

TEST_F(ReflectorTest, AServerWithoutListsInWatchesIsAskedForPages) {
  api.Refuse(Watch(), Refusal(422, "Invalid"));
  EXPECT_EQ(Page().call.path, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500");
  EXPECT_TRUE(Page().call.repeatable);
  AnswerPage({PodOf("a", "1", "5")}, "9", "to/ken=");
  EXPECT_THAT(Page().call.path, HasSubstr("&limit=500&continue=to%2Fken%3D"));
  AnswerPage({PodOf("b", "2", "6")}, "9", "");
  EXPECT_THAT(recorder.Take(), ElementsAre("list", "list", "put a/1 @5", "put b/2 @6", "whole"));
  EXPECT_THAT(Watch().call.path, HasSubstr("&resourceVersion=9&"));
  api.Send(Watch(), "ERROR", StatusOf(410, "Expired"));
  SecondsUntilAsked();
  AnswerPage({PodOf("b", "2", "6")}, "30", "");
  EXPECT_THAT(recorder.Take(), ElementsAre("list", "put b/2 @6", "gone a/1 ", "whole"))
      << "it is remembered";
}

TEST_F(ReflectorTest, ATokenThatExpiredBeginsTheListAnew) {
  api.Refuse(Watch(), Refusal(400, "BadRequest"));
  AnswerPage({PodOf("a", "1", "5")}, "9", "token");
  api.Answer(Page(), Refusal(410, "Expired"));
  SecondsUntilAsked();
  EXPECT_THAT(Page().call.path, Not(HasSubstr("continue")));
  AnswerPage({}, "12", "");
  EXPECT_THAT(recorder.Take(),
              ElementsAre("list", "list", "put a/1 @5", "list", "gone a/1 ", "whole"));
}

TEST_F(ReflectorTest, TwoListsThatFallSilentAreOneTooMany) {
  api.Advance(seconds(31));
  EXPECT_EQ(api.watches.size(), 2u);
  Send("ADDED", PodOf("a", "1", "5"));
  api.Advance(seconds(31));
  EXPECT_EQ(OpenPages(), 0u) << "an event came";
  api.Advance(seconds(31));
  EXPECT_EQ(OpenWatches(), 0u);
  AnswerPage({PodOf("a", "1", "5")}, "9", "");
  EXPECT_EQ(recorder.told.back(), "whole");
  // The silence was of that hour: the next list comes by a watch again.
  api.Refuse(Watch(), Refusal(410, "Expired"));
  SecondsUntilAsked();
  EXPECT_THAT(Watch().call.path, HasSubstr("sendInitialEvents"));
}

TEST_F(ReflectorTest, AResumedWatchWithoutASignIsReplacedByAList) {
  ListOf({}, "9");
  api.Advance(seconds(400));
  EXPECT_EQ(OpenWatches(), 1u) << "a list was heard on it";
  api.End(Watch(), {});
  api.Advance(seconds(182));
  EXPECT_THAT(Watch().call.path, HasSubstr("sendInitialEvents"));
}

TEST_F(ReflectorTest, AfterABrokenConnectionAListIsAskedForWhateverItsVersions) {
  ListOf({PodOf("a", "1", "5"), PodOf("b", "2", "8")}, "9");
  recorder.Take();
  api.End(Watch(), Unavailable("reset"));
  SecondsUntilAsked();
  EXPECT_THAT(Watch().call.path, HasSubstr("sendInitialEvents"));
  ListOf({PodOf("a", "1", "3")}, "4");  // a restored store
  EXPECT_THAT(recorder.Take(), ElementsAre("trouble", "list", "put a/1 @3", "gone b/2 ", "whole"));
  Send("MODIFIED", PodOf("a", "1", "6"));
  EXPECT_THAT(recorder.Take(), ElementsAre("put a/1 @6"));
}

TEST_F(ReflectorTest, AnHourWithoutAnswersTakesNothingAwayAndIsOverWithTheFirstOne) {
  ListOf({PodOf("a", "1", "5"), PodOf("b", "2", "5")}, "6");
  recorder.Take();
  const size_t before = api.watches.size();
  api.AdvanceWithoutAnswers(std::chrono::hours(1));
  EXPECT_TRUE(api.sent.empty()) << "a server that was not heard is no older one";
  EXPECT_THAT(api.watches.size() - before, testing::AllOf(testing::Ge(60u), testing::Le(360u)));
  for (const std::string& told : recorder.Take()) {
    EXPECT_TRUE(told == "list" || told == "trouble") << told;
  }
  for (int i = 0; OpenWatches() == 0 && i < 60; ++i) api.Advance(seconds(1));
  ListOf({PodOf("a", "1", "9"), PodOf("c", "3", "8")}, "9");
  EXPECT_THAT(recorder.Take(),
              testing::IsSupersetOf({"put a/1 @9", "put c/3 @8", "gone b/2 ", "whole"}));
  const size_t after = api.watches.size();
  api.Advance(seconds(100));
  EXPECT_EQ(api.watches.size(), after) << "the one that brought the list goes on";
}

TEST_F(ReflectorTest, ABusyServerIsLeftAloneAsLongAsItSays) {
  api.Refuse(Watch(), Refusal(429, "TooManyRequests", seconds(7)));
  const double waited = SecondsUntilAsked();
  EXPECT_GE(waited, 7);
  EXPECT_LE(waited, 8.01);
  ASSERT_EQ(recorder.troubles.size(), 1u);
  EXPECT_EQ(recorder.troubles[0].code(), Code::kResourceExhausted);
}

TEST_F(ReflectorTest, AListRefusedFiveTimesMayBeAsOldAsWhatIsKnown) {
  ListOf({PodOf("a", "1", "5")}, "9");
  api.Send(Watch(), "ERROR", StatusOf(410, "Expired"));
  SecondsUntilAsked();
  for (int i = 0; i < 5; ++i) {
    api.Refuse(Watch(), Refusal(429, "TooManyRequests", seconds(1)));
    SecondsUntilAsked();
  }
  EXPECT_THAT(Page().call.path, HasSubstr("resourceVersionMatch=NotOlderThan&resourceVersion=9"));
  api.Answer(Page(), Refusal(504, "Timeout", seconds(1)));  // the store was restored
  SecondsUntilAsked();
  EXPECT_THAT(Page().call.path, Not(HasSubstr("resourceVersion")));
  AnswerPage({PodOf("a", "1", "3")}, "4", "");
  EXPECT_THAT(Watch().call.path, HasSubstr("&resourceVersion=4&"));
}

TEST_F(ReflectorTest, AMissingBindingIsToldAndTriedAgain) {
  api.Refuse(Watch(), Refusal(403, "Forbidden"));
  ASSERT_EQ(recorder.troubles.size(), 1u);
  EXPECT_EQ(recorder.troubles[0].code(), Code::kPermissionDenied);
  EXPECT_THAT(recorder.troubles[0].message(),
              testing::StartsWith("watch /api/v1/pods?fieldSelector=spec.nodeName%3Dn1: the API "
                                  "server says 403 Forbidden: "));
  SecondsUntilAsked();
  ListOf({}, "9");
  EXPECT_THAT(recorder.Take(), ElementsAre("list", "trouble", "list", "whole"));
}

TEST_F(ReflectorTest, WhatCannotBeReadEndsTheWatchAndTakesNothingAway) {
  ListOf({PodOf("a", "1", "5")}, "9");
  recorder.Take();
  api.Send(Watch(), "MODIFIED", "k8s?");
  EXPECT_THAT(recorder.Take(), ElementsAre("trouble"));
  SecondsUntilAsked();
  EXPECT_THAT(Watch().call.path, HasSubstr("&resourceVersion=9&"));
  api.Send(Watch(), "MODIFIED", StatusOf(200, ""));
  EXPECT_THAT(recorder.troubles.back().message(), HasSubstr("expected a Pod, got Status"));
}

TEST_F(ReflectorTest, JsonIsUnderstoodToo) {
  api.Send(Watch(), "ADDED",
           R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"1",)"
           R"("resourceVersion":"5","managedFields":[{"manager":"x"}]}})");
  api.Send(Watch(), "BOOKMARK",
           R"({"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":)"
           R"({"k8s.io/initial-events-end":"true"}}})");
  EXPECT_THAT(recorder.Take(), ElementsAre("list", "put a/1 @5", "whole"));
  api.Send(Watch(), "ERROR",
           R"({"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"})");
  EXPECT_TRUE(recorder.Take().empty());
}

TEST_F(ReflectorTest, NothingIsToldAfterItsEnd) {
  ListOf({PodOf("a", "1", "5"), PodOf("b", "2", "5")}, "9");
  api.Send(Watch(), "ERROR", StatusOf(410, "Expired"));
  SecondsUntilAsked();
  recorder.Take();
  recorder.on_gone = [&] { ticket.reset(); };
  const auto watch = fakes::FakeApi::Open(api.watches).back();
  api.Send(*watch, "BOOKMARK", Bookmark("12", true));
  EXPECT_THAT(recorder.Take(), ElementsAre("gone a/1 "));
  EXPECT_EQ(OpenWatches() + OpenPages(), 0u);
  api.Advance(seconds(500));
  EXPECT_TRUE(recorder.Take().empty());
}

}  // namespace
}  // namespace holdfast::agent
