// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/reflector.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/guarded.h"
#include "agent/cluster/list_requests.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kFirstByteLimit{30};
constexpr std::chrono::seconds kPageLimit{60};
constexpr std::chrono::seconds kLivedAfter{1};      // a watch that ends after this has not failed
constexpr std::chrono::seconds kHealthyAfter{120};  // no failure before that counts any more
constexpr std::chrono::seconds kSilentList{30};  // without an event and without the end of the list
constexpr int kSilentListsUntilPaging = 2;
// A watch from a version that is not there yet (a store was restored) hangs; others have a bookmark each minute.
constexpr std::chrono::seconds kSilentWatch{180};
constexpr int kCrowdedUntilPaging = 5;
constexpr milliseconds kSpread{1000};  // in which all nodes list anew

class Reflector : public std::enable_shared_from_this<Reflector> {
 public:
  Reflector(Api& api, ReflectorOptions options, ObjectHandler& handler)
      : api_(api),
        options_(std::move(options)),
        handler_(handler),
        what_(StrCat("watch ", options_.path, options_.selectors.empty() ? "" : "?",
                     options_.selectors)) {}

  void Start() { api_.Post(Guarded(weak_from_this(), &Reflector::Begin)); }

  void Stop() {
    stopped_ = true;
    CancelAll();
  }
  bool stopped() const { return stopped_; }

 private:
  struct Known {
    std::string uid, version;
    uint64_t epoch = 0;  // of the list that it was in last
  };
  using Key = std::pair<std::string, std::string>;  // namespace, name

  double Random() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  // --- requests ---

  void Begin() {
    if (stopped_) return;
    CancelAll();
    if (!must_list_) return Follow();
    const bool crowded = crowded_ >= kCrowdedUntilPaging;
    BeginList();
    if (stopped_) return;
    const bool silent = silent_lists_ >= kSilentListsUntilPaging;
    if (use_watch_list_ && !crowded && !silent) return WatchList();
    ListPage(crowded ? version_ : "", "");
  }

  void WatchList() {
    silence_ = api_.After(kSilentList, Guarded(weak_from_this(), &Reflector::LookForSilence));
    OpenWatch(WatchListPath(options_, WatchTimeout(options_, Random())));
  }

  void Follow() {
    if (use_watch_list_) {
      silence_ = api_.After(kSilentWatch, Guarded(weak_from_this(), &Reflector::LookForSilence));
    }
    OpenWatch(WatchPath(options_, version_, WatchTimeout(options_, Random())));
  }

  void OpenWatch(std::string path) {
    lived_ = false;
    heard_ = false;
    moved_ = false;
    age_ = api_.After(kLivedAfter, Guarded(weak_from_this(), &Reflector::Lived));
    ApiCall call;
    call.path = std::move(path);
    call.lane = options_.lane;
    call.limit = kFirstByteLimit;
    call_ = api_.Watch(std::move(call), Guarded(weak_from_this(), &Reflector::OnEvent),
                       Guarded(weak_from_this(), &Reflector::OnEnded),
                       Guarded(weak_from_this(), &Reflector::OnRefused));
  }

  void ListPage(const std::string& version, const std::string& next) {
    ApiCall call;
    call.path = ListPath(options_, version, next);
    call.lane = options_.lane;
    call.limit = kPageLimit;
    call.repeatable = true;
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Reflector::OnPage));
  }

  void Lived() {
    lived_ = true;
    expired_ = false;
    age_ = api_.After(kHealthyAfter - kLivedAfter, Guarded(weak_from_this(), &Reflector::Healthy));
  }
  void Healthy() { failures_ = 0; }

  // Of a list that ought to come, or of a watch that ought to go on.
  void LookForSilence() {
    if (listing_) {
      if (std::exchange(heard_, false)) {
        silence_ = api_.After(kSilentList, Guarded(weak_from_this(), &Reflector::LookForSilence));
        return;
      }
      ++silent_lists_;
      return Begin();
    }
    if (heard_) return;
    must_list_ = true;
    Retry(Spread());
  }

  // --- what comes ---

  void OnEvent(std::string_view type, std::string_view bytes) {
    heard_ = true;
    if (type == "ERROR") return OnRefused(RefusalOf(bytes));
    auto object = DecodeObject(bytes, options_.type);
    if (!object) return Fail(std::move(object.error()).Wrap(what_));
    const ObjectMark mark = MarkOf(**object);
    if (type == "BOOKMARK") {
      if (listing_ && mark.ends_list) EndList(mark.version);
    } else if (type == "DELETED") {
      Remove(mark, std::move(*object));
    } else {
      Put(mark, std::move(*object));
    }
    // Within a list they are in no order.
    if (listing_ || mark.version.empty()) return;
    version_ = mark.version;
    moved_ = moved_ || type != "BOOKMARK";
  }

  void OnEnded(const Result<void>& end) {
    age_.reset();
    if (!end) {
      // The server may have been away, and what it has now may be what it once had: a store that was restored counts its
      // versions on from an old one, and a watch would go on as if nothing had happened. A server that goes in order
      // ends its watches in order.
      must_list_ = true;
      return Fail(end.error());
    }
    if (listing_) return Fail(Unavailable(what_ + ": it ended before all that is there was sent"));
    // A server that is busy ends watches of those who do not take what comes fast enough.
    if (lived_ || moved_) return Begin();
    Retry(BackOff());
  }

  void OnPage(const Result<ApiReply>& reply) {
    if (!reply) return Fail(reply.error());
    if (!reply->ok()) return OnRefused(*reply);
    auto page = DecodePage(reply->body, options_.type);
    if (!page) return Fail(std::move(page.error()).Wrap(what_));
    for (kube::ObjectPtr& object : page->items) {
      const ObjectMark mark = MarkOf(*object);
      Put(mark, std::move(object));
      if (stopped_) return;
    }
    if (!page->next.empty()) return ListPage("", page->next);
    EndList(page->version);
    Begin();
  }

  void OnRefused(const ApiReply& reply) {
    if (reply.code == 410 || reply.reason == "Expired" || reply.reason == "Gone") return Expired();
    if (listing_ && use_watch_list_ && (reply.code == 400 || reply.code == 422)) {
      use_watch_list_ = false;  // an older server
      return Begin();
    }
    if (listing_ && reply.code == 504) version_.clear();  // perhaps it never becomes that new
    if (listing_ && reply.code == 429) ++crowded_;
    handler_.Trouble(ErrorOf(reply, what_));
    if (!reply.retry_after) return Retry(BackOff());
    Retry(std::max(milliseconds(*reply.retry_after), milliseconds(100)) + Spread());
  }

  // The version is too old: at once after a restart of the server, so that only a second one in a row slows us down.
  void Expired() {
    must_list_ = true;
    Retry(std::exchange(expired_, true) ? BackOff() : Spread());
  }

  void Fail(const Error& error) {
    handler_.Trouble(error);
    Retry(BackOff());
  }

  milliseconds BackOff() { return DelayAfter(failures_++, Random()); }
  milliseconds Spread() { return milliseconds(static_cast<int64_t>(kSpread.count() * Random())); }

  void Retry(milliseconds delay) {
    CancelAll();
    if (!stopped_) wait_ = api_.After(delay, Guarded(weak_from_this(), &Reflector::Begin));
  }

  void CancelAll() {
    call_.reset();
    age_.reset();
    silence_.reset();
    wait_.reset();
  }

  // --- what is known ---

  void BeginList() {
    listing_ = true;
    ++epoch_;
    handler_.ListBegins();
  }

  void EndList(const std::string& version) {
    if (stopped_) return;
    for (auto it = known_.begin(); it != known_.end() && !stopped_;) {
      if (it->second.epoch == epoch_) {
        ++it;
        continue;
      }
      const auto gone = known_.extract(it++);
      TellGone(gone.key(), gone.mapped());
    }
    if (stopped_) return;
    listing_ = false;
    must_list_ = false;
    crowded_ = 0;
    silent_lists_ = 0;
    silence_.reset();
    version_ = version;
    handler_.ListEnds();
  }

  void Put(const ObjectMark& mark, kube::ObjectPtr object) {
    const Key key{mark.object_namespace, mark.name};
    Known& known = known_[key];
    if (!known.uid.empty() && known.uid != mark.uid) TellGone(key, known);
    known = {mark.uid, mark.version, epoch_};
    if (!stopped_) handler_.Put(std::move(object));
  }

  void Remove(const ObjectMark& mark, kube::ObjectPtr last) {
    const auto found = known_.find({mark.object_namespace, mark.name});
    if (found == known_.end() || found->second.uid != mark.uid) return;
    known_.erase(found);
    handler_.Gone(std::move(last));
  }

  void TellGone(const Key& key, const Known& known) {
    handler_.Gone(
        BareObject(options_.type, {key.first, key.second, known.uid, known.version, false}));
  }

  Api& api_;
  const ReflectorOptions options_;
  ObjectHandler& handler_;
  const std::string what_;
  std::minstd_rand random_{std::random_device()()};

  bool stopped_ = false;
  bool use_watch_list_ = true;  // until the server turns out not to send one
  bool must_list_ = true;
  bool listing_ = false;
  bool expired_ = false;  // the last one, and none lived since
  bool lived_ = false;    // the watch that is open
  bool heard_ = false;    // the watch that is open, or since the last look
  bool moved_ = false;    // the watch that is open told of a change
  int silent_lists_ = 0;  // since one came
  int crowded_ = 0;       // lists refused since one succeeded
  unsigned failures_ = 0;
  uint64_t epoch_ = 0;
  std::string version_;  // the newest that was seen
  std::map<Key, Known> known_;
  TicketPtr call_, age_, silence_, wait_;
};

class ReflectorTicket : public Ticket {
 public:
  explicit ReflectorTicket(std::shared_ptr<Reflector> reflector)
      : reflector_(std::move(reflector)) {}
  ~ReflectorTicket() override { reflector_->Stop(); }

 private:
  const std::shared_ptr<Reflector> reflector_;  // what runs keeps it, too
};

}  // namespace

TicketPtr Reflect(Api& api, ReflectorOptions options, ObjectHandler& handler) {
  auto reflector = std::make_shared<Reflector>(api, std::move(options), handler);
  reflector->Start();
  return std::make_unique<ReflectorTicket>(std::move(reflector));
}

}  // namespace holdfast::agent
