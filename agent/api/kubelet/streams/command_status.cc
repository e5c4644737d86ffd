// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/command_status.h"

#include <cstdio>

#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      char escaped[8];
      // Always six characters.
      (void)std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string ExitStatus(int code, bool json) {
  const std::string message =
      StrCat("command terminated with non-zero exit code: exit status ", code);
  if (!json) return message;
  return StrCat(R"({"metadata":{},"status":"Failure","message":")", message,
                R"(","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode",)",
                R"("message":")", code, R"("}]}})");
}

}  // namespace

std::string InternalErrorStatus(std::string_view cause, bool json) {
  const std::string message = StrCat("Internal error occurred: ", cause);
  if (!json) return message;
  return StrCat(R"({"metadata":{},"status":"Failure","message":)", Quoted(message),
                R"(,"reason":"InternalError","details":{"causes":[{"message":)", Quoted(cause),
                R"(}]},"code":500})");
}

std::string CommandStatus(const StreamEnd& end, std::string_view doing, bool json) {
  if (end.error)
    return InternalErrorStatus(StrCat("error ", doing, ": ", end.error->message()), json);
  if (end.exit && end.exit->exit_code != 0) return ExitStatus(end.exit->exit_code, json);
  return json ? R"({"metadata":{},"status":"Success"})" : "";
}

}  // namespace holdfast::agent::streams
