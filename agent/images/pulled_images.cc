// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pulled_images.h"

#include <fcntl.h>

#include <set>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/image/documents/reference.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMaxRecord = 1 << 20;
constexpr size_t kMostByAccount = 10'000;
constexpr char kRecordPrefix[] = "sha256-";

// The name under which the store has what a pod names so.
std::string StoredName(const std::string& image) {
  const auto reference = runtime::ParseReference(image);
  return reference ? reference->Name() : image;
}

// "" for what is no name.
std::string RepositoryOf(const std::string& image) {
  const auto reference = runtime::ParseReference(image);
  return reference ? reference->repository : "";
}

}  // namespace

PulledImages::PulledImages(PulledImagesOptions options, ImageStore& images, const Clock& clock,
                           DirFd pulling, DirFd pulled)
    : options_(std::move(options)),
      images_(images),
      clock_(clock),
      pulling_(std::move(pulling)),
      pulled_(std::move(pulled)) {}

Result<std::unique_ptr<PulledImages>> PulledImages::Open(PulledImagesOptions options,
                                                         ImageStore& images, const Clock& clock) {
  ASSIGN_OR_RETURN(const DirFd top, sys::MakeDirs(AT_FDCWD, options.directory, 0700));
  ASSIGN_OR_RETURN(DirFd pulling, sys::MakeDirs(top.get(), "pulling", 0700));
  ASSIGN_OR_RETURN(DirFd pulled, sys::MakeDirs(top.get(), "pulled", 0700));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(pulling.get(), "."));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(pulled.get(), "."));
  std::unique_ptr<PulledImages> made(
      new PulledImages(std::move(options), images, clock, std::move(pulling), std::move(pulled)));
  made->ReadRecords();
  made->Recover();
  made->Prune();
  return made;
}

void PulledImages::Tell(const std::string& what, const Error& error) const {
  options_.log(StrCat(options_.directory, ": ", what, ": ", error.message()));
}

// One that cannot be read counts as one that lets nobody in.
void PulledImages::ReadRecords() {
  const auto names = sys::ListDirAt(pulled_.get(), ".");
  if (!names) return Tell("pulled", names.error());
  for (const std::string& name : *names) {
    if (!name.starts_with(kRecordPrefix)) continue;
    const auto text = sys::ReadFileAt(pulled_.get(), name, kMaxRecord);
    auto record = text ? DecodePulledRecord(*text) : Result<PulledRecord>(text.error());
    if (!record) Tell(name, record.error());
    records_[name] = record ? std::move(*record) : PulledRecord();
  }
}

// An image that came by a pull whose end nobody saw: with which credentials is not known.
void PulledImages::Recover() {
  const auto names = sys::ListDirAt(pulling_.get(), ".");
  if (!names) return Tell("pulling", names.error());
  for (const std::string& name : *names) {
    const auto text = sys::ReadFileAt(pulling_.get(), name, kMaxRecord);
    const auto image = text ? DecodePullIntent(*text) : Result<std::string>(text.error());
    if (!image) Tell(name, image.error());
    const auto here = image ? images_.Get(*image) : Result<Image>(image.error());
    if (here && !Record(here->id, RepositoryOf(*image), {})) continue;  // it is told
    HOLDFAST_PAUSE_POINT("agent.images.intent_recovered");
    if (auto removed = sys::RemoveFileAt(pulling_.get(), name); !removed) {
      Tell(name, removed.error());
    }
  }
}

Result<void> PulledImages::Begin(const std::string& image) {
  const std::string name = StoredName(image);
  const std::lock_guard disk(disk_);
  RETURN_IF_ERROR(WithContext(
      sys::WriteFileAtomicAt(pulling_.get(), RecordFileName(name), EncodePullIntent(name), 0600),
      "failed to record image pull intent"));
  const std::lock_guard lock(mutex_);
  ++begun_[name];
  return {};
}

void PulledImages::ForgetIntent(const std::string& name) {
  const std::lock_guard disk(disk_);
  {
    const std::lock_guard lock(mutex_);
    const auto begun = begun_.find(name);
    if (begun == begun_.end() || --begun->second > 0) return;
    begun_.erase(begun);
  }
  if (auto removed = sys::RemoveFileAt(pulling_.get(), RecordFileName(name)); !removed) {
    Tell("forget a pull", removed.error());
  }
}

void PulledImages::Failed(const std::string& image) { ForgetIntent(StoredName(image)); }

void PulledImages::Pulled(const std::string& image, const Digest& id, const PullCredentials& shown,
                          const PodUid& pod) {
  if (shown == PullCredentials()) KeepForPod(StoredName(image), id, pod);
  if (!Record(id, RepositoryOf(image), shown)) return;  // the next start finds the intent
  HOLDFAST_PAUSE_POINT("agent.images.pull_recorded");
  ForgetIntent(StoredName(image));
}

// Who is forgotten asks the registry again.
void PulledImages::KeepForPod(const std::string& name, const Digest& id, const PodUid& pod) {
  const std::lock_guard lock(mutex_);
  if (by_account_.size() >= kMostByAccount) by_account_.clear();
  by_account_.insert({StrCat(name, " ", id.value), pod});
}

// What cannot be written, which is told, holds as long as this process lives.
Result<void> PulledImages::Record(const Digest& id, const std::string& repository,
                                  const PullCredentials& shown) {
  const std::string file = RecordFileName(id.value);
  const std::lock_guard disk(disk_);
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    PulledRecord& record = records_[file];
    record.image_ref = id.value;
    record.updated = clock_.Wall();
    if (shown != PullCredentials()) MergeCredentials(record.repositories[repository], shown);
    text = EncodePulledRecord(record);
  }
  auto written = sys::WriteFileAtomicAt(pulled_.get(), file, text, 0600);
  if (!written) Tell("record a pull", written.error());
  return written;
}

bool PulledImages::MayUse(const std::string& image, const Digest& id, const PodUid& pod,
                          const Secrets& secrets) const {
  const std::string repository = RepositoryOf(image);
  const std::string name = StoredName(image);
  PulledRecord record;
  {
    const std::lock_guard lock(mutex_);
    const auto known = records_.find(RecordFileName(id.value));
    const bool pulled = known != records_.end() || begun_.contains(name);
    if (!options_.verification.IsRequired(repository, pulled)) return true;
    if (known == records_.end()) return false;
    if (by_account_.contains({StrCat(name, " ", id.value), pod})) return true;
    record = known->second;
  }
  return IsAccessible(record, repository, {}) || IsAccessible(record, repository, secrets());
}

void PulledImages::Prune() {
  const WallTime until = clock_.Wall();
  const auto images = images_.List();
  if (!images) return Tell("list images", images.error());
  std::set<std::string> here;
  for (const Image& image : *images) here.insert(RecordFileName(image.id.value));
  const std::lock_guard disk(disk_);
  std::vector<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [file, record] : records_) {
      // One that was written meanwhile may be of an image that came meanwhile.
      if (!here.contains(file) && record.updated < until) gone.push_back(file);
    }
  }
  for (const std::string& file : gone) {
    if (auto removed = sys::RemoveFileAt(pulled_.get(), file); !removed) {
      Tell("forget an image", removed.error());
      continue;
    }
    const std::lock_guard lock(mutex_);
    records_.erase(file);
  }
}

}  // namespace holdfast::agent
