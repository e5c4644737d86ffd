// SPDX-License-Identifier: Apache-2.0
// check and version.
#include <cstdio>
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/table.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

int RunCheck(bool repair, const GlobalOptions& global) {
  return WithSession(global, [&](Session& session) {
    grpc::ClientContext context;
    v1::CheckRequest request;
    request.set_repair(repair);
    v1::CheckResponse response;
    const grpc::Status status = session.stub().Check(&context, request, &response);
    if (!status.ok()) return Report(status);
    if (response.leftovers_size() == 0) {
      std::puts("Nothing is left over on this node.");
      return kOk;
    }
    Table table({"KIND", "OBJECT", "REASON"});
    for (const auto& leftover : response.leftovers()) {
      table.AddRow({leftover.kind(), leftover.object(), leftover.reason()});
    }
    std::fputs(table.Render(true).c_str(), stdout);
    if (repair) {
      std::printf("%d removed.\n", response.leftovers_size());
      return kOk;
    }
    std::printf("%d left over. Remove them: holdctl check --repair\n", response.leftovers_size());
    return kFailed;
  });
}

int RunVersion(bool client_only, const GlobalOptions& global) {
  std::printf("Client Version: %s\n", HOLDFAST_VERSION);
  if (client_only) return kOk;
  std::fflush(stdout);
  return WithSession(global, [](Session& session) {
    grpc::ClientContext context;
    v1::VersionResponse response;
    const grpc::Status status = session.stub().Version(&context, v1::VersionRequest(), &response);
    if (!status.ok()) return Report(status);
    std::printf("Server Version: %s\nAPI: %s\nNode: %s\nKernel: %s\n", response.version().c_str(),
                response.api_version().c_str(), response.node_name().c_str(),
                response.kernel().c_str());
    return kOk;
  });
}

}  // namespace

void AddCheck(CLI::App& app, Invocation& invocation) {
  const auto repair = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "check", "Look for what is ours on this machine and belongs to no pod; 1 when there is some");
  command->fallthrough();
  command->add_flag("--repair", *repair, "Remove it");
  command->callback([repair, &invocation] {
    invocation.action = [repair, &invocation] { return RunCheck(*repair, invocation.global); };
  });
}

void AddVersion(CLI::App& app, Invocation& invocation) {
  const auto client_only = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("version", "Versions of this program and of the agent");
  command->fallthrough();
  command->add_flag("--client", *client_only, "This program's only; needs no agent");
  command->callback([client_only, &invocation] {
    invocation.action = [client_only, &invocation] {
      return RunVersion(*client_only, invocation.global);
    };
  });
}

}  // namespace holdfast::agent::cli
