// SPDX-License-Identifier: Apache-2.0
#include "agent/report/event_poster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "agent/report/event_queue.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

EventPtr EventOf(const std::string& name, int count = 1) {
  auto event = std::make_shared<corev1::Event>();
  event->mutable_metadata()->set_name(name);
  event->mutable_metadata()->set_namespace_("ns");
  event->mutable_metadata()->set_resourceversion("77");
  event->mutable_metadata()->mutable_creationtimestamp()->set_seconds(1);
  event->mutable_involvedobject()->set_kind("Pod");
  event->set_reason("Started");
  event->set_message("said \"so\"");
  event->set_count(count);
  event->mutable_lasttimestamp()->set_seconds(1'000 + count);
  return event;
}

TEST(EventQueueTest, OfOneEventOnlyTheNewestWaits) {
  EventQueue queue(2);
  EXPECT_TRUE(queue.Add({ChangeType::kAdded, EventOf("a")}));
  EXPECT_TRUE(queue.Add({ChangeType::kModified, EventOf("b", 2)}));
  EXPECT_FALSE(queue.Add({ChangeType::kAdded, EventOf("c")})) << "there is no room";
  EXPECT_TRUE(queue.Add({ChangeType::kModified, EventOf("a", 3)}));
  EXPECT_TRUE(queue.Add({ChangeType::kDeleted, EventOf("d")}));
  const auto a = queue.Take();
  EXPECT_EQ(a->event->count(), 3);
  EXPECT_TRUE(a->create);
  const auto b = queue.Take();
  EXPECT_EQ(b->event->metadata().name(), "b");
  EXPECT_FALSE(b->create);
  EXPECT_FALSE(queue.Take());
}

TEST(EventQueueTest, WhatIsOnItsWayIsNotOvertaken) {
  EventQueue queue(10);
  queue.Add({ChangeType::kAdded, EventOf("a")});
  auto first = queue.Take();
  queue.Add({ChangeType::kModified, EventOf("a", 2)});
  queue.Add({ChangeType::kAdded, EventOf("b")});
  EXPECT_EQ(queue.Take()->event->metadata().name(), "b");
  EXPECT_FALSE(queue.Take());
  first->tries = 1;
  queue.PutBack(*first);
  const auto again = queue.Take();
  EXPECT_EQ(again->event->count(), 2);
  EXPECT_TRUE(again->create) << "it did not arrive";
  EXPECT_EQ(again->tries, 1);
  queue.Add({ChangeType::kModified, EventOf("a", 3)});
  EXPECT_FALSE(queue.Take());
  queue.Finish(*again);
  EXPECT_FALSE(queue.Take()->create);
}

// A view whose events are made by hand.
class View : public PodView {
 public:
  std::vector<PodPtr> ListPods() const override { return {}; }
  PodPtr FindPod(const std::string&, const std::string&) const override { return nullptr; }
  std::vector<EventPtr> ListEvents() const override { return {}; }
  std::unique_ptr<Subscription> WatchPods(std::function<void(const PodChange&)>) override {
    return nullptr;
  }
  std::unique_ptr<Subscription> WatchEvents(
      std::function<void(const EventChange&)> on_change) override {
    for (const EventPtr& event : there) on_change({ChangeType::kAdded, event});
    tell = std::move(on_change);
    return std::make_unique<Watching>(*this);
  }

  std::vector<EventPtr> there;
  std::function<void(const EventChange&)> tell;

 private:
  struct Watching : Subscription {
    explicit Watching(View& of) : view(of) {}
    ~Watching() override { view.tell = {}; }
    View& view;
  };
};

class EventPosterTest : public testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start() {
    poster.reset();
    EventPosterOptions options;
    options.busy = [this] { return busy; };
    options.log = [this](const std::string& line) { lines.push_back(line); };
    poster = std::make_unique<EventPoster>(api, view, std::move(options));
    api.RunPosted();
    api.Advance(milliseconds(100));
  }
  void Add(const std::string& name) { Tell(ChangeType::kAdded, EventOf(name)); }
  void Tell(ChangeType type, EventPtr event) {
    view.tell({type, std::move(event)});
    api.RunPosted();
    api.Advance(milliseconds(100));
  }
  std::vector<fakes::FakeApi::CallPtr> Asked() { return fakes::FakeApi::Open(api.sent); }
  std::string Name(const fakes::FakeApi::Call& call) {
    const auto object = kube::DecodeEnvelope(call.call.body);
    return object ? dynamic_cast<const corev1::Event&>(**object).metadata().name() : "?";
  }
  void Answer(int code, std::optional<seconds> retry_after = std::nullopt) {
    ApiReply reply;
    reply.code = code;
    reply.retry_after = retry_after;
    api.Answer(*Asked().at(0), reply);
  }

  fakes::FakeApi api;
  View view;
  bool busy = false;
  std::vector<std::string> lines;
  std::unique_ptr<EventPoster> poster;
};

TEST_F(EventPosterTest, ANewEventIsPosted) {
  Add("a");
  ASSERT_EQ(Asked().size(), 1u);
  const ApiCall& call = Asked()[0]->call;
  EXPECT_EQ(call.verb, ApiVerb::kPost);
  EXPECT_EQ(call.path, "/api/v1/namespaces/ns/events");
  EXPECT_EQ(call.lane, ApiLane::kEvents);
  const auto object = kube::DecodeEnvelope(call.body);
  const auto& event = dynamic_cast<const corev1::Event&>(**object);
  EXPECT_EQ(event.reason(), "Started");
  EXPECT_EQ(event.metadata().resourceversion(), "") << "a server refuses it";
  EXPECT_FALSE(event.metadata().has_creationtimestamp());
  Answer(201);
  EXPECT_TRUE(Asked().empty());
}

TEST_F(EventPosterTest, ACountIsPatchedAndAnExpiredEventMadeAnew) {
  Tell(ChangeType::kModified, EventOf("a", 5));
  const ApiCall call = Asked().at(0)->call;
  EXPECT_EQ(call.verb, ApiVerb::kPatch);
  EXPECT_EQ(call.path, "/api/v1/namespaces/ns/events/a");
  EXPECT_EQ(call.content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(call.body,
            R"({"count":5,"lastTimestamp":"1970-01-01T00:16:45Z","message":"said \"so\""})");
  Answer(404);
  EXPECT_EQ(Asked().at(0)->call.verb, ApiVerb::kPost);
  Answer(404);  // the namespace is not there
  EXPECT_TRUE(Asked().empty());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("POST /api/v1/namespaces/ns/events: the API server "
                                           "says 404")));
}

TEST_F(EventPosterTest, WhatItTellsOfComesFirst) {
  view.tell({ChangeType::kAdded, EventOf("a")});
  api.RunPosted();
  api.Advance(milliseconds(60));
  view.tell({ChangeType::kAdded, EventOf("b")});
  api.RunPosted();
  api.Advance(milliseconds(39));
  EXPECT_TRUE(Asked().empty());
  api.Advance(milliseconds(1));
  EXPECT_EQ(Asked().size(), 2u) << "the second has waited with the first";
}

TEST_F(EventPosterTest, WhatWasThereBeforeIsPostedToo) {
  view.there = {EventOf("old")};
  Start();
  EXPECT_EQ(Name(*Asked().at(0)), "old");
}

TEST_F(EventPosterTest, TwoAreOnTheirWayAtOnce) {
  for (const char* name : {"a", "b", "c"}) Add(name);
  ASSERT_EQ(Asked().size(), 2u);
  Tell(ChangeType::kModified, EventOf("a", 2));
  Answer(201);
  ASSERT_EQ(Asked().size(), 2u);
  EXPECT_EQ(Name(*Asked()[0]), "b");
  EXPECT_EQ(Name(*Asked()[1]), "c");
  Answer(409);
  EXPECT_EQ(Asked()[1]->call.verb, ApiVerb::kPatch);
  EXPECT_TRUE(lines.empty()) << "an event that is there needs no words";
}

TEST_F(EventPosterTest, TroubleIsWaitedForAndGivenUpAtLast) {
  Add("a");
  Answer(429, seconds(3));
  api.Advance(milliseconds(2'999));
  EXPECT_TRUE(Asked().empty());
  api.Advance(milliseconds(1));
  for (int i = 0; i < 10; ++i) {
    api.Answer(*Asked().at(0), Unavailable("no answer"));
    EXPECT_TRUE(Asked().empty());
    api.Advance(seconds(10));
  }
  Answer(503);
  api.Advance(seconds(10));
  EXPECT_TRUE(Asked().empty());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("events: 1 were not sent")));
}

TEST_F(EventPosterTest, WhatIsTooMuchIsDroppedAndCounted) {
  Add("x");
  Add("y");
  for (int i = 0; i < 1100; ++i) Add("e" + std::to_string(i));
  ASSERT_EQ(lines.size(), 1u) << "told at once, then once a minute";
  EXPECT_THAT(lines[0], HasSubstr("events: 1 were not sent: 1000 wait"));
  api.Advance(minutes(1));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[1], HasSubstr("events: 99 were not sent"));
  for (int i = 0; i < 1002; ++i) Answer(201);
  EXPECT_TRUE(Asked().empty());
}

TEST_F(EventPosterTest, WhatIsMoreImportantComesFirstForASecond) {
  busy = true;
  Add("a");
  view.tell({ChangeType::kAdded, EventOf("b")});
  view.tell({ChangeType::kAdded, EventOf("c")});
  api.RunPosted();
  EXPECT_TRUE(Asked().empty());
  api.Advance(milliseconds(999));
  EXPECT_TRUE(Asked().empty());
  api.Advance(milliseconds(1));
  EXPECT_EQ(Asked().size(), 2u);
  busy = false;
  Answer(201);
  busy = true;
  Add("d");
  Answer(201);
  Answer(201);
  EXPECT_TRUE(Asked().empty());
  busy = false;
  api.Advance(milliseconds(100));
  EXPECT_EQ(Asked().size(), 1u);
}

TEST_F(EventPosterTest, ItsEndIsTheEndOfAllRequests) {
  Add("a");
  poster.reset();
  EXPECT_TRUE(Asked().empty());
  EXPECT_FALSE(view.tell);
}

}  // namespace
}  // namespace holdfast::agent
