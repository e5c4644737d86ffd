// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/blob_downloads.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/writeback.h"
#include "runtime/image/content/copy.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/content/room.h"
#include "runtime/image/wire/address.h"

namespace holdfast::runtime {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{100};
// A server that breaks off after each few bytes is not asked for ever.
constexpr int kMaxBreaks = 20;
constexpr uint64_t kProgress = 64 << 10;  // what makes a new try worth it

}  // namespace

struct BlobDownloads::Job {
  WantedBlob blob;
  UniqueFd file;
  Sha256 hash;
  uint64_t have = 0;
  sys::Writeback writeback;
  size_t origin = 0;
  Attempt attempt;
  uint64_t running = 0;   // id of the request; 0: none
  bool answered = false;  // the head of this request was looked at
  Steady::time_point not_before;
  uint64_t have_at_break = 0;
  int breaks = 0;
  bool resumed = false;  // its beginning is of an earlier pull
  bool done = false;
};

BlobDownloads::BlobDownloads(RegistryClient& client, std::vector<Origin>& origins,
                             DownloadPlace place, DownloadLimits limits)
    : client_(client), origins_(origins), place_(place), limits_(limits) {}

BlobDownloads::~BlobDownloads() {
  for (const auto& job : jobs_) {
    if (job->running != 0) client_.Stop(job->running);
  }
}

Result<void> BlobDownloads::Run(const std::vector<WantedBlob>& blobs,
                                const std::function<void(const Digest&)>& whole,
                                const std::function<Result<void>()>& moved) {
  whole_ = whole;
  for (const WantedBlob& blob : blobs) {
    auto job = std::make_unique<Job>();
    job->blob = blob;
    RETURN_IF_ERROR(OpenFile(*job));
    job->attempt.url = origins_.front().Url("blobs", blob.digest.value);
    jobs_.push_back(std::move(job));
  }
  const auto open = [](const auto& job) { return !job->done; };
  while (std::ranges::any_of(jobs_, open)) {
    RETURN_IF_ERROR(LaunchDue());
    ASSIGN_OR_RETURN(const std::optional<FetchEnd> end, client_.Next(kPatience));
    RETURN_IF_ERROR(moved());
    if (!end) continue;
    const auto job =
        std::ranges::find_if(jobs_, [&](const auto& one) { return one->running == end->id; });
    if (job != jobs_.end()) RETURN_IF_ERROR(OnEnd(**job, *end));
  }
  return {};
}

// What an earlier pull has left is hashed as if it had just come.
Result<void> BlobDownloads::OpenFile(Job& job) {
  const std::string name = StagedBlobName(job.blob.digest);
  if (!place_.partial.Take(job.blob.digest, place_.ingest, name)) {
    ASSIGN_OR_RETURN(job.file, place_.ingest.Create(name));
    return {};
  }
  ASSIGN_OR_RETURN(job.file, sys::OpenAt(place_.ingest.dir(), name, O_RDWR | O_NOFOLLOW));
  const auto hashed = CopyHashed(job.file.get(), job.blob.size, [&](std::string_view piece) {
    job.hash.Update(piece);
    return Result<void>();
  });
  if (!hashed) return Restart(job);  // larger than the blob, or the disk cannot read it
  job.have = hashed->size;
  job.resumed = job.have > 0;
  if (job.blob.progress != nullptr) job.blob.progress->bytes = job.have;
  return job.have == job.blob.size ? OnWhole(job) : Result<void>();
}

Result<void> BlobDownloads::LaunchDue() {
  auto running = static_cast<size_t>(
      std::ranges::count_if(jobs_, [](const auto& job) { return job->running != 0; }));
  const auto now = Steady::now();
  for (const auto& job : jobs_) {
    if (running == limits_.at_a_time) break;
    if (job->done || job->running != 0 || now < job->not_before) continue;
    RETURN_IF_ERROR(Launch(*job));
    ++running;
  }
  return {};
}

Result<void> BlobDownloads::Launch(Job& job) {
  fetch::Request request = client_.RequestFor(origins_[job.origin], job.attempt.url);
  if (job.have > 0) request.headers.push_back(StrCat("Range: bytes=", job.have, "-"));
  job.answered = false;
  if (job.blob.progress != nullptr) job.blob.progress->state = LayerProgress::State::kDownloading;
  ASSIGN_OR_RETURN(job.running,
                   client_.Begin(std::move(request),
                                 [this, &job](const fetch::Head& head, std::string_view piece) {
                                   return Take(job, head, piece);
                                 }));
  return {};
}

Result<void> BlobDownloads::Restart(Job& job) {
  if (::ftruncate(job.file.get(), 0) != 0 || ::lseek(job.file.get(), 0, SEEK_SET) < 0) {
    return Error::FromErrno(errno, "truncate a blob");
  }
  job.hash = Sha256();
  job.have = 0;
  job.writeback = {};
  job.resumed = false;
  return {};
}

// Where the bytes that now come belong, and whether there are as many as there should be.
Result<void> BlobDownloads::NoteBegin(Job& job, const fetch::Head& head) {
  job.answered = true;
  if (head.status == 200 && job.have > 0) RETURN_IF_ERROR(Restart(job));
  if (head.status == 206 && head.offset != static_cast<int64_t>(job.have)) {
    return InvalidArgument(StrCat("sent bytes from ", head.offset,
                                  " on, asked for were those from ", job.have, " on"));
  }
  const auto expected = static_cast<int64_t>(job.blob.size - job.have);
  if (head.length >= 0 && head.length != expected) {
    return InvalidArgument(
        StrCat("sends ", head.length, " bytes where the manifest says ", expected));
  }
  return {};
}

Result<void> BlobDownloads::Take(Job& job, const fetch::Head& head, std::string_view piece) {
  if (head.status != 200 && head.status != 206) return {};  // an error page
  if (!job.answered) RETURN_IF_ERROR(NoteBegin(job, head));
  if (job.have + piece.size() > job.blob.size) {
    return InvalidArgument(
        StrCat("sends more than the ", job.blob.size, " bytes that the manifest says"));
  }
  RETURN_IF_ERROR(CheckRoom(job.file.get(), limits_.reserve, piece.size()));
  RETURN_IF_ERROR(sys::WriteAll(job.file.get(), piece));
  job.hash.Update(piece);
  job.have += piece.size();
  // While the rest still comes: all of it is synced before anything is named.
  job.writeback.Reached(job.file.get(), job.have);
  if (job.have == job.blob.size) job.writeback.Rest(job.file.get());
  if (job.blob.progress != nullptr) job.blob.progress->bytes = job.have;
  HOLDFAST_PAUSE_POINT("image.pull-piece");
  return {};
}

Result<void> BlobDownloads::OnEnd(Job& job, const FetchEnd& end) {
  using Next = Verdict::Next;
  job.running = 0;
  const bool arrived = end.head.status == 200 || end.head.status == 206;
  if (end.refused && end.refused->code() != Code::kInvalidArgument) return *end.refused;
  if (end.refused) return NextOrigin(job, *end.refused);
  if (arrived && job.have == job.blob.size) return OnWhole(job);
  // A short answer that says it is complete broke off as well.
  if (arrived)
    return OnBroken(job, Unavailable(end.end.error.empty() ? "ends early" : end.end.error));
  if (end.head.status == 416) {
    RETURN_IF_ERROR(Restart(job));
    return OnBroken(job, Unavailable("416 Requested Range Not Satisfiable"));
  }
  Origin& origin = origins_[job.origin];
  Verdict verdict = Judge(end, "GET request to " + fetch::Shown(job.attempt.url), job.attempt);
  const bool own = job.attempt.url.starts_with(origin.host.base + "/");
  if (verdict.next == Next::kFollow) job.attempt.url = verdict.url;
  if (verdict.next == Next::kRetry) job.not_before = Steady::now() + verdict.wait;
  if (verdict.next == Next::kFail) return NextOrigin(job, std::move(verdict.error));
  if (verdict.next == Next::kAuthorize) {
    if (!own) return NextOrigin(job, Error(Code::kPermissionDenied, "401 Unauthorized"));
    auto authorized = client_.Authorize(origin, end.head.challenges);
    if (!authorized) return NextOrigin(job, std::move(authorized.error()));
  }
  return {};
}

// Goes on where it ended, from the registry again: what it redirected to may have run out.
Result<void> BlobDownloads::OnBroken(Job& job, Error error) {
  if (job.have >= job.have_at_break + kProgress) job.attempt.failures = 0;
  job.have_at_break = job.have;
  job.attempt.url = origins_[job.origin].Url("blobs", job.blob.digest.value);
  job.attempt.redirects = job.attempt.authorizations = 0;
  Verdict verdict = RetryLater(std::move(error), job.attempt);
  if (verdict.next == Verdict::Next::kFail || ++job.breaks > kMaxBreaks) {
    return NextOrigin(job, std::move(verdict.error));
  }
  job.not_before = Steady::now() + verdict.wait;
  return {};
}

Result<void> BlobDownloads::OnWhole(Job& job) {
  const Digest got = job.hash.Finish();
  const bool resumed = job.resumed;
  if (got != job.blob.digest) {
    RETURN_IF_ERROR(Restart(job));  // it is not kept for another pull
    // Not this host's fault: a power cut may have spoiled what was here.
    if (resumed) return {};
    return NextOrigin(
        job, InvalidArgument(StrCat("content does not match its digest: it is ", got.value)));
  }
  job.done = true;
  job.file.Reset();
  if (job.blob.progress != nullptr) job.blob.progress->state = LayerProgress::State::kDownloaded;
  whole_(job.blob.digest);
  HOLDFAST_PAUSE_POINT("image.pull-blob");
  return {};
}

// From its beginning: what another host sent is not mixed with this one's.
Result<void> BlobDownloads::NextOrigin(Job& job, Error error) {
  const std::string& host = origins_[job.origin].host.authority;
  if (job.origin + 1 == origins_.size()) {
    return std::move(error).Wrap(StrCat("blob ", job.blob.digest.value, " of ", host));
  }
  ++job.origin;
  job.attempt = Attempt();
  job.attempt.url = origins_[job.origin].Url("blobs", job.blob.digest.value);
  job.breaks = 0;
  job.have_at_break = 0;
  return Restart(job);
}

}  // namespace holdfast::runtime
