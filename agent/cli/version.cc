// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/version.h"

#include <memory>
#include <utility>

#include "agent/cli/commands.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using kube::Node;

#if defined(__x86_64__)
constexpr char kPlatform[] = "linux/amd64";
#elif defined(__aarch64__)
constexpr char kPlatform[] = "linux/arm64";
#else
constexpr char kPlatform[] = "linux";
#endif

// "0.1.0" -> major "0", minor "1", gitVersion "v0.1.0".
Node Numbers(const std::string& version) {
  const size_t first = version.find('.');
  const size_t second = first == std::string::npos ? first : version.find('.', first + 1);
  Node tree = Node::Map();
  tree.Add("major", Node::String(version.substr(0, first)));
  tree.Add("minor", Node::String(first == std::string::npos
                                     ? ""
                                     : version.substr(first + 1, second - first - 1)));
  tree.Add("gitVersion", Node::String("v" + version));
  return tree;
}

int RunVersion(bool client_only, const std::string& form, const GlobalOptions& global) {
  const auto output = ParseDocumentOutput(form);
  if (!output) throw CLI::ValidationError("-o", output.error().message());
  const auto print = [&output](const v1::VersionResponse* server) {
    const std::string text =
        output->IsTable() ? VersionText(server) : PrintDocument(*output, VersionDocument(server));
    Print(text);
  };
  if (client_only) {
    print(nullptr);
    return kOk;
  }
  // Without an agent the client's is told all the same, then why there is no more; at once, since
  // this is how scripts see whether there is one.
  const auto session = Session::Connect(global, Session::Patience::kNone);
  v1::VersionResponse response;
  grpc::Status status;
  if (session) {
    Call context(**session);
    status = (*session)->stub().Version(&context, v1::VersionRequest(), &response);
  }
  print(session && status.ok() ? &response : nullptr);
  if (!session) return Report(session.error());
  return status.ok() ? kOk : Report(status);
}

}  // namespace

Node VersionDocument(const v1::VersionResponse* server) {
  Node tree = Node::Map();
  tree.Add("clientVersion", Numbers(HOLDFAST_VERSION)).Add("platform", Node::String(kPlatform));
  if (server == nullptr) return tree;
  Node& agent = tree.Add("serverVersion", Numbers(server->version()));
  agent.Add("apiVersion", Node::String(server->api_version()));
  agent.Add("nodeName", Node::String(server->node_name()));
  agent.Add("kernelVersion", Node::String(server->kernel()));
  return tree;
}

std::string VersionText(const v1::VersionResponse* server) {
  std::string text = StrCat("Client Version: ", HOLDFAST_VERSION, "\n");
  if (server == nullptr) return text;
  return StrCat(text, "Server Version: ", server->version(), "\nAPI: ", server->api_version(),
                "\nNode: ", server->node_name(), "\nKernel: ", server->kernel(), "\n");
}

void AddVersion(CLI::App& app, Invocation& invocation) {
  struct Options {
    bool client_only = false;
    std::string output;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("version", "Versions of this program and of the agent");
  command->fallthrough();
  command->add_flag("--client", options->client_only, "This program's only; needs no agent");
  command->add_option("-o,--output", options->output, "json or yaml");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] {
      return RunVersion(options->client_only, options->output, invocation.global);
    };
  });
}

}  // namespace holdfast::agent::cli
