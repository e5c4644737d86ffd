// SPDX-License-Identifier: Apache-2.0
// check: what is left over on this node.
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/out.h"
#include "agent/cli/table.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

int RunCheck(bool repair, const GlobalOptions& global) {
  return WithSession(global, [&](Session& session) {
    Call context(session);
    v1::CheckRequest request;
    request.set_repair(repair);
    v1::CheckResponse response;
    const grpc::Status status = session.stub().Check(&context, request, &response);
    if (!status.ok()) return Report(status);
    if (response.leftovers_size() == 0) {
      Print("Nothing is left over on this node.\n");
      return kOk;
    }
    Table table({"KIND", "OBJECT", "REASON"});
    for (const auto& leftover : response.leftovers()) {
      table.AddRow({leftover.kind(), leftover.object(), leftover.reason()});
    }
    Print(StrCat(table.Render(true), response.leftovers_size(),
                 repair ? " removed.\n" : " left over. Remove them: holdctl check --repair\n"));
    return repair ? kOk : kFailed;
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

}  // namespace holdfast::agent::cli
