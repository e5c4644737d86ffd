// SPDX-License-Identifier: Apache-2.0
// check: what is left over on this node, and what it may not do in its cluster.
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/out.h"
#include "agent/cli/table.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

void PrintLeftovers(const v1::CheckResponse& response, bool repaired) {
  if (response.leftovers_size() == 0) return Print("Nothing is left over on this node.\n");
  Table table({"KIND", "OBJECT", "REASON"});
  for (const auto& leftover : response.leftovers()) {
    table.AddRow({leftover.kind(), leftover.object(), leftover.reason()});
  }
  Print(StrCat(table.Render(true), response.leftovers_size(),
               repaired ? " removed.\n" : " left over. Remove them: holdctl check --repair\n"));
}

// What the node may not do in its cluster, and what grants it.
void PrintRights(const v1::CheckResponse& response) {
  if (!response.rights_unknown().empty()) {
    Print(StrCat("\nNot known what the node may do in its cluster: ", response.rights_unknown(),
                 "\n"));
  }
  if (response.missing_rights_size() == 0) return;
  Table table({"MAY NOT", "RESOURCE", "WITHOUT IT"});
  for (const auto& right : response.missing_rights()) {
    table.AddRow({right.verb(), right.resource(), right.without()});
  }
  Print(StrCat("\n", table.Render(true)));
  if (!response.rights_advice().empty()) Print(StrCat(response.rights_advice(), "\n"));
  if (response.rights_manifest().empty()) return;
  Print(StrCat("Grant it as an administrator of the cluster, with kubectl apply -f - and:\n\n",
               response.rights_manifest()));
}

int RunCheck(bool repair, const GlobalOptions& global) {
  return WithSession(global, [&](Session& session) {
    Call context(session);
    v1::CheckRequest request;
    request.set_repair(repair);
    v1::CheckResponse response;
    const grpc::Status status = session.stub().Check(&context, request, &response);
    if (!status.ok()) return Report(status);
    PrintLeftovers(response, repair);
    PrintRights(response);
    const bool left = response.leftovers_size() > 0 && !repair;
    return left || response.missing_rights_size() > 0 ? kFailed : kOk;
  });
}

}  // namespace

void AddCheck(CLI::App& app, Invocation& invocation) {
  const auto repair = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "check",
      "Look for what is ours on this machine and belongs to no pod, and for rights that the node "
      "lacks in its cluster; 1 when there is some");
  command->fallthrough();
  command->add_flag("--repair", *repair, "Remove it");
  command->callback([repair, &invocation] {
    invocation.action = [repair, &invocation] { return RunCheck(*repair, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
