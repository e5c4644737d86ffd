// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/image_upkeep.h"

#include <chrono>
#include <cstdio>

#include "agent/cli/durations.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/rows.h"
#include "agent/cli/table.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent::cli {
namespace {

constexpr std::string_view kUntil = "until=";

std::string FirstName(const v1::Image& image) {
  return image.repo_tags().empty() ? "<none>" : image.repo_tags(0);
}

Result<WallTime> ParseUntil(const std::string& text, WallTime now) {
  if (const auto age = kube::ParseDuration(text); age && age->count() >= 0) {
    return WallTime{now.since_epoch - *age};
  }
  // (0 would be no limit to the server.)
  if (const auto time = kube::ParseRfc3339(text); time && time->seconds > 0) {
    return kube::ToWallTime(*time);
  }
  const auto seconds = WholeNumber<int64_t>(text);
  constexpr int64_t kLast = 9'000'000'000;  // as nanoseconds it still fits 64 bits
  if (seconds && *seconds > 0 && *seconds <= kLast) {
    return WallTime{std::chrono::seconds(*seconds)};
  }
  return InvalidArgument(StrCat("--filter until=", text,
                                ": not a duration such as 24h, a time such as "
                                "2026-01-02T15:04:05Z, or seconds since 1970"));
}

// No answer is a no.
bool Confirmed(const PruneOptions& options) {
  std::fprintf(stderr,
               "WARNING! This will remove all %s.\nAre you sure you want to continue? [y/N] ",
               options.all ? "images without a pod that uses them" : "images without a name");
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

std::string UseText(const v1::ImageUsageResponse::Usage& usage, WallTime now) {
  if (usage.in_use()) return "now";
  if (usage.image().pinned()) return "pinned";
  if (usage.used_unix_nanos() == 0) return "never";
  return Age(WallTime{std::chrono::nanoseconds(usage.used_unix_nanos())}, now) + " ago";
}

}  // namespace

Result<WallTime> UntilOf(const std::vector<std::string>& filters, WallTime now) {
  WallTime until;
  for (const std::string& filter : filters) {
    if (!filter.starts_with(kUntil)) {
      return InvalidArgument(StrCat("--filter ", filter, ": only until=TIME is known"));
    }
    ASSIGN_OR_RETURN(until, ParseUntil(filter.substr(kUntil.size()), now));
  }
  return until;
}

int TagImage(Session& session, const std::string& source, const std::string& target) {
  Call context(session);
  v1::TagImageRequest request;
  request.set_source(source);
  request.set_target(target);
  v1::TagImageResponse response;
  const grpc::Status status = session.stub().TagImage(&context, request, &response);
  if (!status.ok()) return ReportChange(status);
  Print(StrCat("image \"", source, "\" tagged \"", target, "\"\n"));
  return kOk;
}

int PruneImages(Session& session, const PruneOptions& options) {
  const auto until = UntilOf(options.filters, CurrentTime());
  if (!until) return Report(until.error());
  if (!options.force && !Confirmed(options)) return kFailed;
  Call context(session);
  v1::PruneImagesRequest request;
  request.set_all(options.all);
  request.set_until_unix_nanos(until->since_epoch.count());
  v1::PruneImagesResponse response;
  const grpc::Status status = session.stub().PruneImages(&context, request, &response);
  if (!status.ok()) return ReportChange(status);
  for (const v1::Image& image : response.images()) {
    for (const std::string& name : image.repo_tags()) Print(StrCat("untagged: ", name, "\n"));
    Print(StrCat("deleted: ", image.id(), "\n"));
  }
  Print(StrCat("Total reclaimed space: ", HumanBytes(response.reclaimed_bytes()), "\n"));
  return response.errors().empty() ? kOk : Report(Internal(response.errors()));
}

int ShowImageUsage(Session& session, bool with_header) {
  v1::ImageUsageResponse response;
  const grpc::Status status = Ask(session, [&](Call& call) {
    return session.stub().ImageUsage(&call, v1::ImageUsageRequest(), &response);
  });
  if (!status.ok()) return Report(status);
  Table table({"IMAGE", "ID", "SIZE", "SHARED", "UNIQUE", "USED"});
  for (const auto& usage : response.images()) {
    table.AddRow({FirstName(usage.image()), ShortId(usage.image().id()),
                  HumanBytes(usage.size_bytes()), HumanBytes(usage.shared_bytes()),
                  HumanBytes(usage.unique_bytes()), UseText(usage, CurrentTime())});
  }
  Print(table.Render(with_header));
  Print(StrCat("\nTotal: ", HumanBytes(response.total_bytes() + response.partial_bytes()),
               ", of unfinished pulls: ", HumanBytes(response.partial_bytes()),
               ", reclaimable: ", HumanBytes(response.reclaimable_bytes()), "\n"));
  return kOk;
}

}  // namespace holdfast::agent::cli
