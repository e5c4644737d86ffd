// SPDX-License-Identifier: Apache-2.0
// apply: manifests into the agent's manifest directory.
#include <cstdio>
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/manifests.h"
#include "agent/cli/out.h"
#include "agent/cli/table.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

struct ApplyOptions {
  std::vector<std::string> files;
  std::string dry_run = "none";
  bool recursive = false;
};

const char* OutcomeWord(v1::EditedObject::Outcome outcome) {
  switch (outcome) {
    case v1::EditedObject::CREATED:
      return "created";
    case v1::EditedObject::CONFIGURED:
      return "configured";
    case v1::EditedObject::DELETED:
      return "deleted";
    default:
      return "unchanged";
  }
}

// Both ask the agent: its checks are the ones that count.
const char* DryRunWords(const std::string& dry_run) {
  return dry_run == "none" ? "" : dry_run == "client" ? " (dry run)" : " (server dry run)";
}

// What is wrong with a manifest is said line by line; everything else as any other failure.
int ReportApply(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::INVALID_ARGUMENT) return ReportChange(status);
  std::fprintf(stderr, "error: invalid manifest; nothing of it was applied\n%s\n",
               Visible(status.error_message()).c_str());
  return kFailed;
}

int ApplyOne(Session& session, const ManifestText& manifest, const std::string& dry_run) {
  Call context(session);
  v1::ApplyRequest request;
  request.set_manifest(manifest.text);
  request.set_origin(manifest.origin);
  request.set_dry_run(dry_run != "none");
  if (session.options().namespace_given) request.set_namespace_(session.options().name_space);
  v1::ApplyResponse response;
  const grpc::Status status = session.stub().Apply(&context, request, &response);
  if (!status.ok()) return ReportApply(status);
  for (const v1::EditedObject& object : response.objects()) {
    Print(StrCat(ToLower(object.kind()), "/", object.name(), " ", OutcomeWord(object.outcome()),
                 DryRunWords(dry_run), "\n"));
  }
  return kOk;
}

int RunApply(const ApplyOptions& options, const GlobalOptions& global) {
  const auto manifests = ReadManifests(options.files, options.recursive);
  if (!manifests) return Report(manifests.error());
  return WithSession(global, [&](Session& session) {
    int code = kOk;
    for (const ManifestText& manifest : *manifests) {
      if (ApplyOne(session, manifest, options.dry_run) != kOk) code = kFailed;
    }
    return code;
  });
}

}  // namespace

void AddFileFlags(CLI::App& command, std::vector<std::string>& files, bool& recursive) {
  command.add_option("-f,--filename", files, "File, directory or - for stdin; may be repeated")
      ->allow_extra_args(false);
  command.add_flag("-R,--recursive", recursive, "Sub-directories of a directory too");
}

void AddApply(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<ApplyOptions>();
  CLI::App* command =
      app.add_subcommand("apply", "Write the objects of a manifest into the manifest directory");
  command->fallthrough();
  AddFileFlags(*command, options->files, options->recursive);
  command->get_option("--filename")->required();
  command->add_option("--dry-run", options->dry_run, "Check and report only: none, server, client")
      ->expected(0, 1)
      ->default_str("server")
      ->check(CLI::IsMember({"none", "server", "client"}));
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunApply(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
