// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/object_store.h"

#include <algorithm>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/list_requests.h"
#include "agent/cluster/reflector.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPoll{60};
constexpr seconds kPollSpread{30};
// What a pod starts with has come: until a watch is worth its request the pod is left alone, and the API server with it.
constexpr seconds kBeforeWatch{1};

}  // namespace

// What a watch says of one object. It may end itself by what it says, so nothing is touched after that.
class ObjectStore::Follower : public ObjectHandler {
 public:
  Follower(ObjectStore& store, Object& object) : store_(store), object_(object) {}

  void ListBegins() override { in_list_ = true; }
  void ListEnds() override { in_list_ = false; }
  void Put(kube::ObjectPtr found) override {
    store_.OnFollowed(object_, TakeData(std::move(found)), in_list_);
  }
  void Gone(kube::ObjectPtr /*last*/) override { store_.Ask(object_); }
  // What is known stays; the reflector goes on trying.
  void Trouble(const Error& /*error*/) override {}

 private:
  ObjectStore& store_;
  Object& object_;
  bool in_list_ = false;
};

struct ObjectStore::Object {
  struct User {
    ObjectUse use;
    uint64_t arrival = 0;
  };

  explicit Object(ObjectRef of) : ref(std::move(of)) {}

  // An answer to a question that was asked after the user arrived.
  bool Serves(const User& user) const {
    return answered >= user.arrival || (data && data->immutable);
  }
  bool ServesAll() const {
    return std::all_of(users.begin(), users.end(),
                       [this](const auto& user) { return Serves(user.second); });
  }
  // Whoever uses it so sees what it becomes.
  bool IsFollowed() const {
    return std::any_of(users.begin(), users.end(), [](const auto& user) {
      return user.second.use.in_volume || user.second.use.by_sandbox;
    });
  }
  bool MayBeWatched() const { return agent::MayBeWatched(ref); }
  // A container cannot start without it, or it is of no use yet.
  bool IsAwaited() const {
    if (data) return !data->settled;
    return !MayBeWatched() || std::any_of(users.begin(), users.end(), [](const auto& user) {
      return user.second.use.required;
    });
  }
  bool IsImmutable() const { return data && data->immutable; }

  const ObjectRef ref;
  std::map<PodUid, User> users;
  std::shared_ptr<const ObjectData> data;  // null: absent, or not known yet
  uint64_t asked = 0;                      // the arrivals when the question under way was asked
  uint64_t answered = 0;                   // the same of the last answer; 0: none yet
  std::string trouble;                     // why there is no newer answer
  unsigned failures = 0;                   // since the last answer
  unsigned absences = 0;                   // answers in a row that left somebody waiting
  unsigned early_tries = 0;
  milliseconds early_for{0};
  bool told = false;  // by the watch, while the question was under way
  TicketPtr question, retry, poll, before_watch;
  std::unique_ptr<Follower> follower;  // before what calls it
  TicketPtr watch;
};

ObjectStore::ObjectStore(Api& api, size_t most_watches, Changed changed)
    : api_(api), most_watches_(most_watches), changed_(std::move(changed)) {}

ObjectStore::~ObjectStore() = default;

// --- users ---

void ObjectStore::Use(const PodUid& uid, const std::map<ObjectRef, ObjectUse>& uses) {
  ++arrivals_;
  std::set<ObjectRef>& of_pod = of_pods_[uid];
  for (auto ref = of_pod.begin(); ref != of_pod.end();) {
    if (!uses.contains(*ref)) RemoveUse(*ref, uid);
    ref = uses.contains(*ref) ? std::next(ref) : of_pod.erase(ref);
  }
  for (const auto& [ref, use] : uses) {
    of_pod.insert(ref);
    auto& object = objects_[ref];
    if (!object) object = std::make_unique<Object>(ref);
    AddUse(*object, uid, use);
  }
  if (of_pod.empty()) of_pods_.erase(uid);
}

void ObjectStore::Drop(const PodUid& uid) { Use(uid, {}); }

void ObjectStore::Refresh(const PodUid& uid) {
  const auto of_pod = of_pods_.find(uid);
  if (of_pod == of_pods_.end()) return;
  for (const ObjectRef& ref : of_pod->second) {
    Object& object = *objects_.at(ref);
    if (!object.IsFollowed() && !object.IsImmutable() && !object.question) Ask(object);
  }
}

void ObjectStore::AddUse(Object& object, const PodUid& uid, const ObjectUse& use) {
  const auto [user, is_new] = object.users.try_emplace(uid, Object::User{use, arrivals_});
  user->second.use = use;
  if (is_new) {
    object.early_tries = 0;
    object.early_for = milliseconds(0);
    // A question that is under way was asked before this pod came: another one follows its answer.
    if (!object.Serves(user->second) && !object.question) Ask(object);
    Tell(object, uid);
  }
  if (object.answered > 0) Follow(object);
}

void ObjectStore::RemoveUse(const ObjectRef& ref, const PodUid& uid) {
  Object& object = *objects_.at(ref);
  object.users.erase(uid);
  if (!object.IsFollowed()) StopFollowing(object);
  if (object.users.empty()) {
    objects_.erase(ref);
  } else if (object.answered > 0) {
    Follow(object);
  }
}

// --- questions ---

void ObjectStore::Ask(Object& object) {
  object.retry.reset();
  object.poll.reset();
  object.asked = arrivals_;
  object.told = false;
  object.question = api_.Send(GetCall(object.ref), [this, &object](Result<ApiReply> reply) {
    OnAnswer(object, std::move(reply));
  });
}

void ObjectStore::Retry(Object& object, milliseconds delay) {
  object.retry = api_.After(delay, [this, &object] { Ask(object); });
}

void ObjectStore::OnAnswer(Object& object, Result<ApiReply> reply) {
  const TicketPtr answered = std::move(object.question);
  if (!reply) return OnTrouble(object, WhyOf(object.ref, reply.error()), BackOff(object));
  if (reply->code == 404) return OnAbsent(object);
  if (!reply->ok()) return OnRefused(object, *reply);
  auto data = ReadObject(object.ref, *reply);
  if (!data) return OnTrouble(object, WhyOf(object.ref, data.error()), BackOff(object));
  OnFound(object, std::move(*data));
}

void ObjectStore::OnRefused(Object& object, const ApiReply& reply) {
  if (IsTooEarly(reply) && object.early_for < kTooEarlyFor) {
    const milliseconds delay = DelayWhenTooEarly(object.early_tries++);
    object.early_for += delay;
    return Retry(object, delay);
  }
  milliseconds delay = BackOff(object);
  if (reply.retry_after) delay = std::max(delay, milliseconds(*reply.retry_after));
  OnTrouble(object, WhyOf(object.ref, reply), delay);
}

void ObjectStore::OnFound(Object& object, std::shared_ptr<const ObjectData> data) {
  object.absences = data->settled ? 0 : object.absences + 1;
  const bool is_same = object.data && object.data->version == data->version;
  const bool is_older = object.told && object.data && IsOlder(data->version, object.data->version);
  if (is_same || is_older) return Answered(object, false);
  object.data = std::move(data);
  Answered(object, true);
}

void ObjectStore::OnAbsent(Object& object) {
  ++object.absences;
  // A watch that has told of it since the question was asked knows better.
  if (object.told || !object.data) return Answered(object, false);
  object.data.reset();
  Answered(object, true);
}

void ObjectStore::Answered(Object& object, bool changed) {
  const uint64_t before = object.answered;
  object.answered = object.asked;
  object.trouble.clear();
  object.failures = 0;
  object.early_tries = 0;
  object.early_for = milliseconds(0);
  Follow(object);
  if (!object.ServesAll()) Ask(object);
  for (const auto& [uid, user] : object.users) {
    if (changed || user.arrival > before) Tell(object, uid);
  }
}

void ObjectStore::OnTrouble(Object& object, std::string why, milliseconds delay) {
  object.trouble = std::move(why);
  Retry(object, delay);
  TellAll(object);
}

milliseconds ObjectStore::BackOff(Object& object) {
  return DelayAfter(object.failures++, Random());
}

// --- what goes on changing ---

// Once there was an answer: what is mounted is followed by a watch or asked for from time to time, and so, more often, is
// what a container waits for.
void ObjectStore::Follow(Object& object) {
  if (object.IsImmutable()) return StopFollowing(object);
  if (object.watch || object.before_watch) return;
  if (object.IsFollowed() && object.MayBeWatched() && watches_ < most_watches_) {
    ++watches_;
    object.poll.reset();
    if (object.IsAwaited() || !object.data) return Watch(object);
    object.before_watch = api_.After(kBeforeWatch, [this, &object] { Watch(object); });
    return;
  }
  if (object.poll) return;
  if (object.IsAwaited() && !(object.IsFollowed() && object.MayBeWatched())) {
    object.poll =
        api_.After(DelayAfter(object.absences - 1, Random()), [this, &object] { Ask(object); });
  } else if (object.IsFollowed()) {
    const double spread = static_cast<double>(milliseconds(kPollSpread).count()) * Random();
    object.poll = api_.After(kPoll + milliseconds(static_cast<int64_t>(spread)),
                             [this, &object] { Ask(object); });
  }
}

// It begins with what there is, so nothing is missed in between.
void ObjectStore::Watch(Object& object) {
  object.before_watch.reset();
  object.follower = std::make_unique<Follower>(*this, object);
  object.watch = Reflect(api_, WatchOptions(object.ref), *object.follower);
}

void ObjectStore::StopFollowing(Object& object) {
  object.poll.reset();
  if (!object.watch && !object.before_watch) return;
  --watches_;
  object.before_watch.reset();
  if (!object.watch) return;
  object.watch.reset();
  // It may be what calls: it goes when it has returned.
  api_.Post([gone = std::shared_ptr<Follower>(std::move(object.follower))] { (void)gone; });
}

void ObjectStore::OnFollowed(Object& object, std::shared_ptr<const ObjectData> data, bool of_list) {
  if (object.data && object.data->version == data->version) return;
  // An event may still be on its way while a newer answer has come; a new list is what there is.
  if (!of_list && object.data && IsOlder(data->version, object.data->version)) return;
  object.data = std::move(data);
  object.told = true;
  if (object.IsImmutable()) StopFollowing(object);
  TellAll(object);
}

// --- what pods are told ---

void ObjectStore::TellAll(Object& object) {
  for (const auto& [uid, user] : object.users) Tell(object, uid);
}

void ObjectStore::Tell(Object& object, const PodUid& uid) {
  ObjectInput input;
  if (object.Serves(object.users.at(uid))) {
    input.state = object.data ? InputState::kPresent : InputState::kAbsent;
    input.data = object.data;
    if (!object.data) input.why = NotFoundText(object.ref);
  } else if (!object.trouble.empty()) {
    input.state = InputState::kUnavailable;
    input.why = object.trouble;
  }
  changed_(uid, object.ref, std::move(input));
}

}  // namespace holdfast::agent
