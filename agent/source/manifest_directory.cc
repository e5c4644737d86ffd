// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_directory.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "agent/source/directory_watch.h"
#include "agent/source/manifest_file.h"
#include "agent/source/manifest_table.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"
#include "holdfast/sys/wakeup.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

// How long a missing directory is left alone, and how long Reread waits for files to become quiet.
constexpr std::chrono::seconds kReadRetry{1};
constexpr std::chrono::seconds kRereadPatience{2};

bool SameContent(const PodSnapshot& a, const PodSnapshot& b) {
  return a.pods == b.pods && a.services == b.services && a.slices == b.slices &&
         a.configs == b.configs && a.errors == b.errors;
}

}  // namespace

class ManifestDirectory::Impl {
 public:
  Impl(ManifestDirectoryOptions options, std::shared_ptr<const Clock> clock, sys::Wakeup wake)
      : options_(std::move(options)),
        rules_{options_.path, options_.node_name, options_.multiple_documents},
        clock_(std::move(clock)),
        watch_(options_.path),
        wake_(std::move(wake)),
        table_(options_.quiet) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    {
      const std::lock_guard hold(mutex_);
      stopping_ = true;
    }
    wake_.Set();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> Start() {
    LookUntilQuiet();
    ASSIGN_OR_RETURN(thread_, sys::StartThread("manifests", [this] { Run(); }));
    return {};
  }

  std::shared_ptr<const PodSnapshot> Snapshot() const {
    const std::lock_guard hold(mutex_);
    return snapshot_;
  }

  void SetChangeCallback(std::function<void()> changed) {
    std::function<void()> announce;
    {
      const std::lock_guard hold(mutex_);
      changed_ = std::move(changed);
      if (snapshot_->complete) announce = changed_;
    }
    if (announce) announce();
  }

  void Reread(const std::set<std::string>& files) {
    std::unique_lock hold(mutex_);
    const uint64_t request = ++requested_.number;
    requested_.all = requested_.all || files.empty();
    requested_.files.insert(files.begin(), files.end());
    wake_.Set();
    answered_.wait_for(hold, kRereadPatience, [&] { return done_ >= request || stopping_; });
  }

 private:
  // What Reread() was called for since the last look.
  struct Request {
    uint64_t number = 0;  // of all calls so far
    bool all = false;
    std::set<std::string> files;
  };

  ManifestTable::Moment Now() const { return {clock_->Boot(), clock_->Wall()}; }

  void Run() {
    while (!Stopping()) {
      pollfd fds[2] = {{watch_.inotify_fd(), POLLIN, 0}, {wake_.fd(), POLLIN, 0}};
      ::poll(fds, 2, Timeout());
      wake_.Clear();
      Look();
    }
  }

  bool Stopping() const {
    const std::lock_guard hold(mutex_);
    return stopping_;
  }

  int Timeout() const {
    std::chrono::nanoseconds wait = next_listing_ - clock_->Boot();
    if (missing_ || !watch_.follows()) wait = kReadRetry;
    if (look_again_) wait = std::min(wait, *look_again_ - clock_->Boot());
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
    return static_cast<int>(std::clamp<int64_t>(milliseconds, 0, 60'000));
  }

  // A first snapshot without a file that was written a moment ago would end its pods, and its
  // Services' rules, as if it had been deleted. Somebody who never stops writing is not waited for.
  void LookUntilQuiet() {
    const auto deadline = std::chrono::steady_clock::now() + 5 * options_.quiet;
    for (Look(); look_again_ && std::chrono::steady_clock::now() < deadline; Look()) {
      pollfd event{watch_.inotify_fd(), POLLIN, 0};
      ::poll(&event, 1, Timeout());
    }
  }

  // One pass: events, what they are about or everything, reading what is due, publishing. The same
  // for every cause.
  void Look() {
    const Request request = TakeRequest();
    auto moved = watch_.Refresh();
    missing_ = !moved;
    TellHowItIsFollowed();
    DirectoryWatch::News news = watch_.ReadEvents();
    for (const auto& [name, deed] : news.deeds) NoteDeed(name, deed);
    for (const std::string& name : request.files) table_.NoteEdited(name);
    news.files.insert(request.files.begin(), request.files.end());
    news.files.merge(again_);
    again_.clear();
    const ManifestTable::Moment now = Now();
    const bool all = blind_ || !moved || *moved || news.all || request.all ||
                     now.boot >= next_listing_ || table_.size() >= kMaxManifestFiles;
    auto plan = all ? ObserveAll(moved, now) : ObserveSome(news.files, now);
    if (plan) {
      look_again_ = plan->look_again;
      for (const auto& [name, signature] : plan->read) Read(name, signature, now);
    }
    Publish(request);
  }

  void NoteDeed(const std::string& name, DirectoryWatch::Deed deed) {
    using Deed = DirectoryWatch::Deed;
    switch (deed) {
      case Deed::kRenamedIn:
        return table_.NoteRenamedIn(name);
      case Deed::kMade:
        return table_.NoteWriting(name, false, clock_->Boot());
      case Deed::kWritten:
        return table_.NoteWriting(name, true, clock_->Boot());
      case Deed::kClosed:
        return table_.NoteClosed(name);
    }
  }

  void TellHowItIsFollowed() {
    const bool unfollowed = !missing_ && !watch_.follows();
    if (std::exchange(unfollowed_, unfollowed) == unfollowed || !options_.warn) return;
    options_.warn(StrCat(options_.path,
                         unfollowed
                             ? ": this user has no inotify left (fs.inotify.max_user_instances, "
                               "max_user_watches): looked at each second instead of at each change"
                             : ": followed by inotify again"));
  }

  // Nothing when the directory is there but cannot be read: that says nothing about its files.
  std::optional<ManifestTable::Plan> ObserveAll(const Result<bool>& opened,
                                                const ManifestTable::Moment& now) {
    Result<ManifestTable::Listing> listing = ManifestTable::Listing();
    if (opened) listing = watch_.List();
    const bool absent = !opened && opened.error().code() == Code::kNotFound;
    std::string trouble;
    if (!opened) trouble = opened.error().message();
    if (!listing) trouble = listing.error().message();
    table_.NoteDirectory(trouble, now);
    next_listing_ = now.boot + options_.resync;
    blind_ = !trouble.empty();
    if (!listing || (!opened && !absent)) return std::nullopt;
    return table_.Observe(*listing, now);
  }

  std::optional<ManifestTable::Plan> ObserveSome(const std::set<std::string>& files,
                                                 const ManifestTable::Moment& now) {
    const auto seen = watch_.Look(files);
    if (!seen) return ObserveAll(true, now);
    return table_.ObserveSome(*seen, now);
  }

  Request TakeRequest() {
    const std::lock_guard hold(mutex_);
    Request next;
    next.number = requested_.number;
    return std::exchange(requested_, std::move(next));
  }

  void Read(const std::string& name, const FileSignature& seen, const ManifestTable::Moment& now) {
    auto content = ReadManifestFile(watch_.directory(), name);
    const bool moved_on = content ? content->signature != seen
                                  : content.error().code() == Code::kUnavailable ||
                                        content.error().code() == Code::kNotFound;
    if (moved_on) {
      look_again_ = now.boot + options_.quiet;
      again_.insert(name);
    } else if (content) {
      table_.Loaded(name, seen, ReadFileObjects(name, content->text, rules_), now);
    } else {
      table_.Failed(name, seen, content.error().message(), now);
    }
  }

  void Publish(const Request& request) {
    auto next = std::make_shared<PodSnapshot>(table_.Build());
    next->complete = true;
    std::function<void()> announce;
    {
      const std::lock_guard hold(mutex_);
      next->generation = snapshot_->generation + 1;
      if (!snapshot_->complete || !SameContent(*snapshot_, *next)) {
        snapshot_ = std::move(next);
        announce = changed_;
      }
      // Whoever asked for all waits until nothing is on its way any more.
      whole_ = whole_ || request.all;
      if (!look_again_ || (!whole_ && again_.empty())) {
        done_ = request.number;
        whole_ = false;
      }
    }
    answered_.notify_all();
    if (announce) announce();
  }

  const ManifestDirectoryOptions options_;
  const FileRules rules_;
  const std::shared_ptr<const Clock> clock_;  // shared with the agent, which may outlive us or not
  // Used by Start, then only by the thread.
  DirectoryWatch watch_;
  const sys::Wakeup wake_;
  ManifestTable table_;
  std::optional<BootTime> look_again_;
  std::set<std::string> again_;  // to be looked at again, event or not
  BootTime next_listing_;
  bool blind_ = true;  // the last listing failed, or there was none
  bool missing_ = false;
  bool unfollowed_ = false;  // there, and without inotify

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable answered_;
  std::shared_ptr<const PodSnapshot> snapshot_ = std::make_shared<PodSnapshot>();
  std::function<void()> changed_;
  Request requested_;
  uint64_t done_ = 0;   // the last call that has been answered
  bool whole_ = false;  // one that has not is for all
  bool stopping_ = false;
  std::thread thread_;
};

ManifestDirectory::ManifestDirectory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ManifestDirectory::~ManifestDirectory() = default;

Result<std::unique_ptr<ManifestDirectory>> ManifestDirectory::Start(
    ManifestDirectoryOptions options, std::shared_ptr<const Clock> clock) {
  ASSIGN_OR_RETURN(sys::Wakeup wake, sys::Wakeup::Make());
  auto impl = std::make_unique<Impl>(std::move(options), std::move(clock), std::move(wake));
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<ManifestDirectory>(new ManifestDirectory(std::move(impl)));
}

std::shared_ptr<const PodSnapshot> ManifestDirectory::Snapshot() const { return impl_->Snapshot(); }
void ManifestDirectory::SetChangeCallback(std::function<void()> changed) {
  impl_->SetChangeCallback(std::move(changed));
}
void ManifestDirectory::Reread(const std::set<std::string>& files) { impl_->Reread(files); }

}  // namespace holdfast::agent
