// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/push/blob_uploads.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/image/wire/address.h"

namespace holdfast::runtime {
namespace {

using Steady = std::chrono::steady_clock;
using State = PushedLayer::State;

constexpr std::chrono::milliseconds kLook{100};
// From a blob's last byte to the answer: what stands behind the registry may move all of it.
constexpr std::chrono::minutes kLongestAnswer{10};
constexpr size_t kMaxAnswer = 64 << 10;

}  // namespace

struct BlobUploads::Job {
  OutgoingBlob blob;
  bool asked = false;    // whether it is there
  UniqueFd file;         // while it is sent; its offset is the helper's too
  Attempt attempt;       // url: where it is sent; "" before the registry has said
  uint64_t running = 0;  // id of the request; 0: none
  uint64_t sent = 0;
  Steady::time_point moved;
  Steady::time_point not_before;
  bool done = false;
};

BlobUploads::BlobUploads(RegistryClient& client, Origin& origin, const BlobStore& blobs)
    : client_(client), origin_(origin), blobs_(blobs) {}

BlobUploads::~BlobUploads() {
  for (const auto& job : jobs_) {
    if (job->running != 0) client_.Stop(job->running);
  }
}

Result<void> BlobUploads::Run(const std::vector<OutgoingBlob>& blobs,
                              const std::function<void()>& moved) {
  for (const OutgoingBlob& blob : blobs) {
    jobs_.push_back(std::make_unique<Job>());
    jobs_.back()->blob = blob;
  }
  const auto open = [](const auto& job) { return !job->done; };
  while (std::ranges::any_of(jobs_, open)) {
    RETURN_IF_ERROR(StartDue());
    ASSIGN_OR_RETURN(const std::optional<FetchEnd> end, client_.Next(kLook));
    for (const auto& job : jobs_) {
      if (job->running == 0) continue;
      const bool ended = end && end->id == job->running;
      RETURN_IF_ERROR(
          WithContext(ended ? OnEnd(*job, *end) : Look(*job),
                      StrCat("blob ", job->blob.digest.value, " to ", origin_.host.authority)));
    }
    moved();
  }
  return {};
}

Result<void> BlobUploads::StartDue() {
  for (const auto& job : jobs_) {
    const auto running =
        std::ranges::count_if(jobs_, [](const auto& one) { return one->running != 0; });
    if (static_cast<size_t>(running) == kAtATime) break;
    if (job->done || job->running != 0 || Steady::now() < job->not_before) continue;
    RETURN_IF_ERROR(WithContext(
        Start(*job), StrCat("blob ", job->blob.digest.value, " to ", origin_.host.authority)));
  }
  return {};
}

void BlobUploads::End(Job& job, State how) {
  job.done = true;
  job.file.Reset();
  if (job.blob.progress == nullptr) return;
  job.blob.progress->state = how;
  job.blob.progress->bytes = job.blob.size;
}

Result<void> BlobUploads::Start(Job& job) {
  if (!std::exchange(job.asked, true)) {
    ASSIGN_OR_RETURN(const bool there, IsThere(job));
    if (there) {
      End(job, State::kPresent);
      return {};
    }
    if (!job.blob.source.empty()) {
      ASSIGN_OR_RETURN(const auto url, Mount(job));
      if (!url) {
        End(job, State::kMounted);
        return {};
      }
      job.attempt.url = *url;
    }
  }
  if (job.attempt.url.empty()) {
    ASSIGN_OR_RETURN(std::string session, NewSession());
    const char separator = session.find('?') == std::string::npos ? '?' : '&';
    job.attempt.url = StrCat(session, separator, "digest=", job.blob.digest.value);
  }
  return Launch(job);
}

Result<bool> BlobUploads::IsThere(const Job& job) {
  const auto answer = client_.Ask(origin_, {"HEAD", origin_.Url("blobs", job.blob.digest.value)});
  if (answer) return true;
  if (answer.error().code() == Code::kNotFound) return false;
  return answer.error();
}

// Nothing: it is there now. Else where it is to be sent, or "" where a new session has to be asked
// for: a registry need not know of this, nor let us read what the blob would be taken from.
Result<std::optional<std::string>> BlobUploads::Mount(const Job& job) {
  Origin before = origin_;
  auto& sources = origin_.scope.sources;
  if (std::ranges::find(sources, job.blob.source) == sources.end()) {
    sources.push_back(job.blob.source);
  }
  const std::string query =
      StrCat("uploads/?mount=", job.blob.digest.value, "&from=", job.blob.source);
  const auto answer = client_.Ask(origin_, {"POST", origin_.Url("blobs", query), "", kMaxAnswer});
  if (!answer && answer.error().code() == Code::kUnavailable) return answer.error();
  if (!answer) {
    origin_ = std::move(before);
    return std::string();
  }
  if (answer->head.status == 201) return std::nullopt;
  ASSIGN_OR_RETURN(std::string session, UploadUrl(*answer));
  const char separator = session.find('?') == std::string::npos ? '?' : '&';
  return StrCat(session, separator, "digest=", job.blob.digest.value);
}

Result<std::string> BlobUploads::NewSession() {
  ASSIGN_OR_RETURN(
      const Answer answer,
      client_.Ask(origin_, {"POST", origin_.Url("blobs", "uploads/"), "", kMaxAnswer}));
  return UploadUrl(answer);
}

// Where the registry wants to have it, which may be another host, as far as a redirect may lead.
Result<std::string> BlobUploads::UploadUrl(const Answer& answer) const {
  if (answer.location.empty()) {
    return InvalidArgument(StrCat("answers ", answer.head.status,
                                  " to an upload and does not say where (no Location)"));
  }
  ASSIGN_OR_RETURN(const fetch::Address from, fetch::ParseAddress(origin_.host.base));
  ASSIGN_OR_RETURN(const fetch::Address to, fetch::ParseAddress(answer.location));
  RETURN_IF_ERROR(CheckRedirect(from, to));
  return answer.location;
}

// A file of its own each time: the helper may still be in the last one.
Result<void> BlobUploads::Launch(Job& job) {
  ASSIGN_OR_RETURN(job.file, blobs_.OpenBlob(job.blob.digest));
  fetch::Request request = client_.RequestFor(origin_, job.attempt.url);
  request.method = "PUT";
  ASSIGN_OR_RETURN(request.upload_bytes, blobs_.SizeOf(job.blob.digest));
  request.slow_seconds = 0;  // Look() sees to it, who knows how far it is
  request.headers.emplace_back("Content-Type: application/octet-stream");
  ASSIGN_OR_RETURN(job.running, client_.Begin(
                                    std::move(request),
                                    [](const fetch::Head&, std::string_view) {
                                      return Result<void>();
                                    },  // nothing to know
                                    job.file.get()));
  job.sent = 0;
  job.moved = Steady::now();
  if (job.blob.progress != nullptr) job.blob.progress->state = State::kUploading;
  return {};
}

Result<void> BlobUploads::Look(Job& job) {
  const off_t at = ::lseek(job.file.get(), 0, SEEK_CUR);
  if (at < 0) return Error::FromErrno(errno, "seek");
  const auto now = Steady::now();
  const auto sent = static_cast<uint64_t>(at);
  if (sent != job.sent) job.moved = now;
  job.sent = sent;
  if (job.blob.progress != nullptr) job.blob.progress->bytes = std::min(sent, job.blob.size);
  const std::chrono::seconds patience =
      sent < job.blob.size ? client_.stall() : std::chrono::seconds(kLongestAnswer);
  if (now - job.moved < patience) return {};
  client_.Stop(std::exchange(job.running, 0));
  return Again(job, Unavailable(StrCat("stands still for ", patience.count(), " s")));
}

// From its beginning, in a session of its own: what is left of the old one is the registry's to remove.
Result<void> BlobUploads::Again(Job& job, Error error) {
  Verdict verdict = RetryLater(std::move(error), job.attempt);
  if (verdict.next == Verdict::Next::kFail) return std::move(verdict.error);
  job.attempt.url.clear();
  job.attempt.redirects = 0;
  job.not_before = Steady::now() + verdict.wait;
  return {};
}

Result<void> BlobUploads::OnEnd(Job& job, FetchEnd end) {
  using Next = Verdict::Next;
  job.running = 0;
  // Who refuses may hang up before all was sent.
  if (end.head.status >= 300) end.end.error.clear();
  // The session was lost, as by a restart.
  if (end.head.status == 404) return Again(job, Unavailable("404 Not Found"));
  const std::string what = "PUT request to " + fetch::Shown(job.attempt.url);
  const bool own = job.attempt.url.starts_with(origin_.host.base + "/");
  Verdict verdict = Judge(end, what, job.attempt);
  switch (verdict.next) {
    case Next::kDone:
      break;
    case Next::kFollow:
      job.attempt.url = verdict.url;
      return {};
    case Next::kRetry:
      job.attempt.url.clear();
      job.attempt.redirects = 0;
      job.not_before = Steady::now() + verdict.wait;
      return {};
    case Next::kAuthorize:
      if (!own) return Error(Code::kPermissionDenied, StrCat(what, ": 401 Unauthorized"));
      job.attempt.url.clear();
      return client_.Authorize(origin_, end.head.challenges);
    case Next::kFail:
      return std::move(verdict.error);
  }
  const std::string& said = end.head.digest;
  if (!said.empty() && said != job.blob.digest.value) {
    return InvalidArgument(StrCat(what, ": the registry took it for ", said));
  }
  End(job, State::kDone);
  return {};
}

}  // namespace holdfast::runtime
