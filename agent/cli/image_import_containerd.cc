// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/image_import_containerd.h"

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/cli/containerd/choice.h"
#include "agent/cli/containerd/image_content.h"
#include "agent/cli/containerd/images.h"
#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::cli {
namespace {

constexpr char kDefaultNamespace[] = "k8s.io";  // CRI's

int ReportOf(const std::string& name, Error error) {
  const bool absent = error.code() == Code::kNotFound;
  Error told = std::move(error).Wrap(name);
  if (!absent) return Report(told);
  return Report(Error(told.code(), StrCat(told.message(), "; pull it: holdctl image pull ", name)));
}

int ReportOf(const std::string& name, const grpc::Status& status) {
  return ReportChange({status.error_code(), StrCat(name, ": ", status.error_message())});
}

class ContainerdImport {
 public:
  ContainerdImport(Session& session, int root) : session_(session), root_(root) {}

  int Run(const containerd::Choice& choice) {
    for (const auto& [name, why] : choice.skipped) {
      std::fprintf(stderr, "note: %s was skipped: %s\n", Printable(name).c_str(), why.c_str());
    }
    for (const std::string& name : choice.absent) {
      code_ = Report(NotFound(name + ": containerd has no image of that name"));
    }
    for (const containerd::ChosenImage& image : choice.images) {
      if (!Import(image)) break;
    }
    return code_;
  }

 private:
  // False: the agent has gone.
  bool Import(const containerd::ChosenImage& image) {
    const std::string name = Printable(image.names.front());
    const auto files = containerd::OpenImageContent(root_, image);
    if (!files) {
      code_ = ReportOf(name, files.error());
      return true;
    }
    // What the agent should have by now may have gone with the image that brought it.
    auto status = Send(*files, Layers::kNew);
    if (status && status->error_code() == grpc::StatusCode::NOT_FOUND && !sent_.empty()) {
      status = Send(*files, Layers::kAll);
    }
    if (!status || !status->ok()) {
      code_ = status ? ReportOf(name, *status) : ReportOf(name, status.error());
      return !status || status->error_code() != grpc::StatusCode::UNAVAILABLE;
    }
    for (const containerd::LayoutFile& each : *files) {
      if (each.is_layer) sent_.insert(each.name);
    }
    return true;
  }

  enum class Layers : uint8_t { kNew, kAll };
  Result<grpc::Status> Send(const std::vector<containerd::LayoutFile>& files, Layers layers) {
    std::vector<TarMember> members;
    for (const containerd::LayoutFile& each : files) {
      const bool is_there = layers == Layers::kNew && each.is_layer && sent_.contains(each.name);
      if (!is_there) members.push_back({each.name, each.file.get(), each.size});
    }
    return SendArchive(session_, {},
                       [&](const ByteSink& sink) { return WriteTarOf(members, sink); });
  }

  Session& session_;
  const int root_;
  std::set<std::string> sent_;  // layers of images that were imported
  int code_ = kOk;
};

}  // namespace

int ImportContainerd(Session& session, const ImportFlags& flags) {
  const std::string name_space =
      flags.containerd_namespace.empty() ? kDefaultNamespace : flags.containerd_namespace;
  const auto root = sys::OpenDir(flags.containerd_root);
  if (!root) return Report(root.error());
  const auto images = containerd::ReadImagesBelow(root->get(), name_space);
  if (!images) return Report(Error(images.error()).Wrap(flags.containerd_root));
  const auto choice = containerd::ChooseImages(*images, flags.sources);
  if (images->empty()) std::fprintf(stderr, "No images in namespace %s.\n", name_space.c_str());
  return ContainerdImport(session, root->get()).Run(choice);
}

}  // namespace holdfast::agent::cli
