// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/wire/stream_request.h"

#include <optional>
#include <utility>

#include "holdfast/base/percent.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent::streams {
namespace {

constexpr size_t kMaxPorts = 64;

// Absent when a % is not followed by two digits.
std::optional<std::string> Unescape(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i] == '+' && plus_is_space ? ' ' : text[i];
      continue;
    }
    const std::optional<char> byte = PercentByte(text, i);
    if (!byte) return std::nullopt;
    out += *byte;
    i += 2;
  }
  return out;
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<StreamVerb> VerbOf(std::string_view name) {
  if (name == "exec") return StreamVerb::kExec;
  if (name == "attach") return StreamVerb::kAttach;
  if (name == "run") return StreamVerb::kRun;
  if (name == "portForward") return StreamVerb::kPortForward;
  return std::nullopt;
}

// /exec/NAMESPACE/POD[/UID]/CONTAINER, /portForward/NAMESPACE/POD[/UID]
bool TakePath(std::string_view path, StreamRequest& request) {
  std::vector<std::string> words;
  if (!path.starts_with('/')) return false;
  for (const std::string_view part : Split(path.substr(1), '/')) {
    auto word = Unescape(part, false);
    if (!word || word->empty()) return false;
    words.push_back(std::move(*word));
  }
  const auto verb = VerbOf(words[0]);
  const size_t least = verb == StreamVerb::kPortForward ? 3 : 4;
  if (!verb || words.size() < least || words.size() > least + 1) return false;
  request.verb = *verb;
  request.pod_namespace = words[1];
  request.pod = words[2];
  if (words.size() > least) request.uid = words[3];
  if (verb != StreamVerb::kPortForward) request.container = words.back();
  return true;
}

void TakeParameter(std::string_view name, std::string value, StreamRequest& request) {
  const bool on = value == "1";
  if (name == "input") request.input = on;
  if (name == "output") request.output = on;
  if (name == "error") request.error = on;
  if (name == "tty") request.tty = on;
  if (name == "port") return request.ports.push_back(std::move(value));
  if (name == "command" && request.verb == StreamVerb::kExec) {
    return request.command.push_back(std::move(value));
  }
  if (name == "cmd" && request.verb == StreamVerb::kRun) {  // for legacy reasons
    for (const std::string_view word : Split(value, ' ')) request.command.emplace_back(word);
  }
}

bool TakeQuery(std::string_view query, StreamRequest& request) {
  for (const std::string_view pair : Split(query, '&')) {
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    auto name = Unescape(pair.substr(0, equals), true);
    auto value =
        equals == std::string_view::npos ? std::string() : Unescape(pair.substr(equals + 1), true);
    if (!name || !value) return false;
    TakeParameter(*name, std::move(*value), request);
  }
  return true;
}

}  // namespace

std::expected<StreamRequest, Refusal> ParseStreamRequest(std::string_view target) {
  const size_t question = target.find('?');
  StreamRequest request;
  if (!TakePath(target.substr(0, question), request)) return Refused(404, "404: Page Not Found");
  if (question != std::string_view::npos && !TakeQuery(target.substr(question + 1), request)) {
    return Refused(400, "Unable to decode query.");
  }
  if (request.tty) request.error = false;  // a terminal has one output
  const bool remote_command =
      request.verb == StreamVerb::kExec || request.verb == StreamVerb::kAttach;
  if (remote_command && !request.input && !request.output && !request.error) {
    return Refused(400, "you must specify at least 1 of stdin, stdout, stderr");
  }
  return request;
}

std::expected<std::vector<uint16_t>, Refusal> ParsePorts(const std::vector<std::string>& values) {
  if (values.empty()) return Refused(400, "query parameter \"port\" is required");
  std::vector<uint16_t> ports;
  for (const std::string& value : values) {
    for (const std::string_view text : Split(value, ',')) {
      if (text.empty()) return Refused(400, "query parameter \"port\" cannot be empty");
      const auto port = WholeNumber<uint16_t>(text);
      if (!port) return Refused(400, StrCat("unable to parse \"", text, "\" as a port"));
      if (*port == 0) return Refused(400, StrCat("port \"", text, "\" must be > 0"));
      ports.push_back(*port);
    }
  }
  if (ports.size() > kMaxPorts) return Refused(400, "too many ports: at most 64");
  return ports;
}

}  // namespace holdfast::agent::streams
