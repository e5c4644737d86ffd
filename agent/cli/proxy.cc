// SPDX-License-Identifier: Apache-2.0
// proxy dump: the rules of Services, in the language of the tool that loads them.
#include "agent/cli/commands.h"
#include "agent/cli/out.h"

namespace holdfast::agent::cli {
namespace {

int RunDump(const GlobalOptions& global) {
  return WithSession(global, [](Session& session) {
    Call context(session);
    const auto reader = session.stub().DumpProxy(&context, v1::DumpProxyRequest());
    for (v1::DumpProxyResponse part; reader->Read(&part);) {
      if (Write(part.data())) continue;
      GiveUp(context, *reader);
      return kFailed;
    }
    const grpc::Status status = reader->Finish();
    return status.ok() ? kOk : Report(status);
  });
}

}  // namespace

void AddProxy(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("proxy", "The rules that Services are made of");
  command->require_subcommand(1);
  CLI::App* dump = command->add_subcommand(
      "dump", "Print them as the agent means them to be, for nft -f or iptables-restore");
  dump->callback(
      [&invocation] { invocation.action = [&invocation] { return RunDump(invocation.global); }; });
}

}  // namespace holdfast::agent::cli
