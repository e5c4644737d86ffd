// SPDX-License-Identifier: Apache-2.0
// image import: an archive, a layout's directory, or the images of a former containerd, as an archive to the agent.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/cli/session.h"
#include "agent/cli/tar_writer.h"

namespace holdfast::agent::cli {

struct ImportFlags {
  std::vector<std::string> sources;  // one archive, or names of containerd's images
  std::string name;
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;
  std::string user;
  std::string workdir;
  bool root_tar = false;
  std::string containerd_root;  // "": from an archive
  std::string containerd_namespace;
};

// What fits no such command: "" when all does.
std::string WrongImport(const ImportFlags& flags);

// Exit code; failures are told.
int ImportImages(Session& session, const ImportFlags& flags);

// One archive, which `write` makes; what was imported is told. The call's status, when `write` is not to blame.
Result<grpc::Status> SendArchive(Session& session, const v1::ImportImageRequest::Options& options,
                                 const std::function<Result<void>(const ByteSink&)>& write);

}  // namespace holdfast::agent::cli
