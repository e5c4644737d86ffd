// SPDX-License-Identifier: Apache-2.0
// explain service: who gets packets to a Service, and why.
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "agent/cli/commands.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/resource.h"
#include "agent/cli/table.h"
#include "agent/kube/parse.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using Response = v1::ExplainServiceResponse;

struct ExplainOptions {
  std::vector<std::string> words;
  std::string from;
  std::string output;
};

std::string SenderInWords(const std::string& from) {
  if (from == "pod") return "from a pod of this node";
  if (from == "node") return "from this node itself";
  if (from == "outside") return "from outside";
  return "from anybody";
}

std::string What(const Response::Answer& answer) {
  switch (answer.outcome()) {
    case Response::Answer::SERVE:
      return StrCat("one of ", answer.endpoints_size(), answer.local() ? " on this node: " : ": ",
                    Join(answer.endpoints(), " "),
                    answer.masquerade() ? ", with this node's address as source" : "");
    case Response::Answer::REJECT:
      return "rejected";
    case Response::Answer::DROP:
    case Response::Answer::FILTER:
      return "dropped";
    default:
      return "no rule";
  }
}

std::string Address(const Response::Frontend& frontend) {
  if (frontend.address().empty()) return StrCat("port ", frontend.port(), " of the node");
  return JoinHostPort(frontend.address(), frontend.port());
}

// `head` in a column of its own.
std::string Line(std::string head, std::string_view rest) {
  constexpr size_t kHeadWidth = 25;
  head.resize(std::max(head.size(), kHeadWidth), ' ');
  return StrCat("    ", head, " ", rest, "\n");
}

std::string FrontendText(const Response::Frontend& frontend) {
  std::string text =
      StrCat("  ", frontend.kind(), " ", Address(frontend), "/", frontend.protocol(), "\n");
  for (const Response::Answer& answer : frontend.answers()) {
    text += Line(SenderInWords(answer.from()) + ":",
                 StrCat(What(answer), " (", Visible(answer.reason()), ")"));
  }
  for (const std::string& line : frontend.announced()) {
    text += Line("announced on", Visible(line));
  }
  return text;
}

std::string EndpointsText(const Response::Port& port) {
  if (port.endpoints_size() == 0) return "  No endpoints\n";
  Table table({"  ENDPOINT", "POD", "NODE", "CLUSTER LIST", "LOCAL LIST"});
  for (const Response::Endpoint& endpoint : port.endpoints()) {
    table.AddRow({"  " + endpoint.address(), endpoint.pod().empty() ? "<none>" : endpoint.pod(),
                  endpoint.node().empty() ? "<none>" : endpoint.node(), endpoint.verdict(),
                  endpoint.local_verdict()});
  }
  return table.Render(true);
}

std::string Text(const PodName& name, const Response& response) {
  std::string text = StrCat("Service ", name.name_space, "/", name.name, "\n");
  if (!response.skipped().empty()) text += StrCat("No rules: ", Visible(response.skipped()), ".\n");
  for (const std::string& problem : response.problems()) {
    text += StrCat("Problem: ", Visible(problem), "\n");
  }
  for (const Response::Port& port : response.ports()) {
    const std::string port_name = port.name().empty() ? "<unnamed>" : Visible(port.name());
    text += StrCat("\nPort ", port_name, " (", port.ip_family(), ")");
    if (port.affinity_seconds() != 0) {
      text += StrCat(", a client keeps its endpoint for ", port.affinity_seconds(), " s");
    }
    text += "\n";
    for (const Response::Frontend& frontend : port.frontends()) text += FrontendText(frontend);
    text += EndpointsText(port);
  }
  return text;
}

// The response as gRPC's own JSON: every field, also those that are empty.
Result<kube::Node> Document(const Response& response) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(response, &text, options);
  if (!status.ok()) return Internal(StrCat("response: ", status.ToString()));
  // It is our own text: no limit but its size.
  const kube::ParseLimits limits{.max_bytes = text.size(),
                                 .max_document_bytes = text.size(),
                                 .max_documents = 1,
                                 .max_values = text.size()};
  kube::ParsedText parsed = kube::ParseJson(text, limits);
  if (parsed.documents.empty()) return Internal("response: no JSON");
  return std::move(parsed.documents.front());
}

int Show(const Output& output, const PodName& name, const Response& response) {
  if (output.IsTable()) {
    Print(Text(name, response));
    return kOk;
  }
  const auto document = Document(response);
  if (!document) return Report(document.error());
  Print(PrintDocument(output, *document));
  return kOk;
}

int RunExplain(const ExplainOptions& options, const GlobalOptions& global) {
  const auto output = ParseDocumentOutput(options.output);
  if (!output) throw CLI::ValidationError("-o", output.error().message());
  const auto read = ReadResourceWords(options.words, Resource::kServices);
  if (!read) throw CLI::ValidationError("explain", read.error().message());
  if (read->resources.front() != Resource::kServices || read->objects.size() != 1) {
    throw CLI::ValidationError("explain", "expected service NAME");
  }
  const PodName name = ParsePodName(read->objects.front().name, global.name_space);
  return WithSession(global, [&](Session& session) {
    v1::ExplainServiceRequest request;
    request.set_namespace_(name.name_space);
    request.set_name(name.name);
    request.set_from(options.from);
    Response response;
    const grpc::Status status = Ask(session, [&](Call& call) {
      return session.stub().ExplainService(&call, request, &response);
    });
    if (!status.ok()) return Report(status);
    return Show(*output, name, response);
  });
}

}  // namespace

void AddExplain(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand(
      "explain", "Tell who gets packets to a Service, and why each endpoint is used or not");
  command->fallthrough();
  command->add_option("service", options->words, "service NAME")->required();
  command->add_option("--from", options->from, "Only for packets from this source address");
  command->add_option("-o,--output", options->output, "json or yaml: the API's response");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunExplain(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
