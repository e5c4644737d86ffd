// SPDX-License-Identifier: Apache-2.0
// explain service: who gets packets to a Service, and why.
#include <google/protobuf/util/json_util.h>

#include <cstdio>
#include <memory>
#include <string>

#include "agent/cli/commands.h"
#include "agent/cli/output.h"
#include "agent/cli/resource.h"
#include "agent/cli/table.h"
#include "agent/kube/parse.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using Response = v1::ExplainServiceResponse;

struct ExplainOptions {
  std::vector<std::string> words;
  std::string from;
  std::string output;
};

std::string Sender(const std::string& from) {
  if (from == "pod") return "from a pod of this node";
  if (from == "node") return "from this node itself";
  if (from == "outside") return "from outside";
  return "from anybody";
}

std::string Join(const google::protobuf::RepeatedPtrField<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += StrCat(out.empty() ? "" : " ", item);
  return out;
}

std::string What(const Response::Answer& answer) {
  switch (answer.outcome()) {
    case Response::Answer::SERVE:
      return StrCat("one of ", answer.endpoints_size(), answer.local() ? " on this node: " : ": ",
                    Join(answer.endpoints()),
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
  const bool v6 = frontend.address().find(':') != std::string::npos;
  return StrCat(v6 ? StrCat("[", frontend.address(), "]") : frontend.address(), ":",
                frontend.port());
}

void PrintFrontend(const Response::Frontend& frontend) {
  std::printf("  %s %s/%s\n", frontend.kind().c_str(), Address(frontend).c_str(),
              frontend.protocol().c_str());
  for (const Response::Answer& answer : frontend.answers()) {
    std::printf("    %-25s %s (%s)\n", (Sender(answer.from()) + ":").c_str(), What(answer).c_str(),
                Visible(answer.reason()).c_str());
  }
  for (const std::string& line : frontend.announced()) {
    std::printf("    %-25s %s\n", "announced on", Visible(line).c_str());
  }
}

void PrintEndpoints(const Response::Port& port) {
  if (port.endpoints_size() == 0) {
    std::puts("  No endpoints");
    return;
  }
  Table table({"  ENDPOINT", "POD", "NODE", "CLUSTER LIST", "LOCAL LIST"});
  for (const Response::Endpoint& endpoint : port.endpoints()) {
    table.AddRow({"  " + endpoint.address(), endpoint.pod().empty() ? "<none>" : endpoint.pod(),
                  endpoint.node().empty() ? "<none>" : endpoint.node(), endpoint.verdict(),
                  endpoint.local_verdict()});
  }
  std::fputs(table.Render(true).c_str(), stdout);
}

void Print(const PodName& name, const Response& response) {
  std::printf("Service %s/%s\n", name.name_space.c_str(), name.name.c_str());
  if (!response.skipped().empty()) {
    std::printf("No rules: %s.\n", Visible(response.skipped()).c_str());
  }
  for (const std::string& problem : response.problems()) {
    std::printf("Problem: %s\n", Visible(problem).c_str());
  }
  for (const Response::Port& port : response.ports()) {
    std::printf("\nPort %s (%s)", port.name().empty() ? "<unnamed>" : Visible(port.name()).c_str(),
                port.ip_family().c_str());
    if (port.affinity_seconds() != 0) {
      std::printf(", a client keeps its endpoint for %llu s",
                  static_cast<unsigned long long>(port.affinity_seconds()));
    }
    std::puts("");
    for (const Response::Frontend& frontend : port.frontends()) PrintFrontend(frontend);
    PrintEndpoints(port);
  }
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

int Write(const Output& output, const PodName& name, const Response& response) {
  if (output.IsTable()) {
    Print(name, response);
    return kOk;
  }
  const auto document = Document(response);
  if (!document) return Report(document.error());
  std::fputs(PrintDocument(output, *document).c_str(), stdout);
  return kOk;
}

int RunExplain(const ExplainOptions& options, const GlobalOptions& global) {
  const auto output = ParseDocumentOutput(options.output);
  if (!output) throw CLI::ValidationError("-o", output.error().message());
  const auto read = ReadResourceWords(options.words);
  if (!read) throw CLI::ValidationError("explain", read.error().message());
  if (read->resource.value_or(Resource::kServices) != Resource::kServices ||
      read->names.size() != 1) {
    throw CLI::ValidationError("explain", "expected service NAME");
  }
  const PodName name = ParsePodName(read->names.front(), global.name_space);
  return WithSession(global, [&](Session& session) {
    grpc::ClientContext context;
    v1::ExplainServiceRequest request;
    request.set_namespace_(name.name_space);
    request.set_name(name.name);
    request.set_from(options.from);
    Response response;
    const grpc::Status status = session.stub().ExplainService(&context, request, &response);
    if (!status.ok()) return Report(status);
    return Write(*output, name, response);
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
