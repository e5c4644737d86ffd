// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "agent/base/bounded_program.h"
#include "agent/cni/network_config.h"
#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::cni {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kOutputBytes = 1 << 20;
constexpr size_t kShownText = 1024;
// A program that is being copied into its place cannot be executed yet; libcni waits as long.
constexpr int kBusyTries = 5;
constexpr milliseconds kBusyPause{1000};

// libcni's names of the verbs in errors.
std::string Lower(const std::string& verb) {
  static const std::map<std::string, std::string> kNames = {
      {"ADD", "add"},       {"DEL", "delete"}, {"CHECK", "check"},
      {"STATUS", "status"}, {"GC", "gc"},      {"VERSION", "version"}};
  return kNames.at(verb);
}

std::string Shown(const std::string& text) { return Printable(text.substr(0, kShownText)); }

// Of the specification's codes the one that says that no DEL is needed. All others, 11 ("try again later") as the rest, are
// tried again by whoever asked.
constexpr int kContainerUnknown = 3;

// What a program that failed says of it: {"code": 11, "msg": "…", "details": "…"} on its standard output. kNotFound: by
// its code it knows nothing of what it was asked about.
Error Complaint(const ProgramEnd& end) {
  if (end.output.empty() && end.errors.empty()) {
    return Unavailable(
        StrCat("netplugin failed with no error message: exit code ", end.status.ShellCode()));
  }
  if (end.output.empty()) return Unavailable(StrCat("netplugin failed: ", end.errors));
  const auto json = ParseObject(end.output);
  const auto said = json ? TextOf(*json, "msg") : Result<std::string>(json.error());
  if (!said) {
    return Unavailable(StrCat("netplugin failed but error parsing its diagnostic message \"",
                              Shown(end.output), "\": ", said.error().message()));
  }
  const auto details = TextOf(*json, "details");
  std::string text = said->empty() ? StrCat("exit code ", end.status.ShellCode()) : Shown(*said);
  if (details && !details->empty()) text += StrCat("; ", Shown(*details));
  const auto code = json->find("code");
  const bool is_unknown =
      code != json->end() && code->is_number_integer() && code->get<int64_t>() == kContainerUnknown;
  return is_unknown ? NotFound(text) : Unavailable(text);
}

Error Failed(const std::string& verb, const std::string& type, Error error) {
  return std::move(error).Wrap(StrCat("plugin type=\"", type, "\" failed (", Lower(verb), ")"));
}

bool IsProgram(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0;
}

// All variables, those too that mean nothing to the verb: what our own environment may have of that name is not for it.
std::vector<std::pair<std::string, std::string>> Variables(
    const std::string& verb, const PluginTarget& target,
    const std::vector<std::string>& directories) {
  return {{"CNI_COMMAND", verb},       {"CNI_CONTAINERID", target.container_id},
          {"CNI_NETNS", target.netns}, {"CNI_IFNAME", target.interface},
          {"CNI_ARGS", target.args},   {"CNI_PATH", Join(directories, ":")}};
}

}  // namespace

Plugins::Plugins(std::vector<std::string> directories, std::string owner, const sys::Wakeup& stop)
    : directories_(std::move(directories)), owner_(std::move(owner)), stop_(stop) {}

Result<std::string> Plugins::Find(const std::string& type) const {
  for (const std::string& directory : directories_) {
    std::string path = StrCat(directory, "/", type);
    if (IsProgram(path)) return path;
  }
  return Unavailable(
      StrCat("failed to find plugin \"", type, "\" in path [", Join(directories_, " "), "]"));
}

Result<std::string> Plugins::Execute(const std::string& verb, const std::string& type,
                                     const std::string& input, const PluginTarget& target,
                                     Deadline deadline) const {
  BoundedProgram program;
  ASSIGN_OR_RETURN(program.command, Find(type));
  program.env = Variables(verb, target, directories_);
  program.owner = owner_;
  program.input = input;
  for (int tries = 1;; ++tries) {
    ProgramLimits limits;
    limits.output = kOutputBytes;
    limits.time = std::max(std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now()),
                           milliseconds(0));
    auto end = RunToItsEnd(program, stop_, limits);
    if (!end && end.error().sys_errno() == ETXTBSY && tries < kBusyTries &&
        steady_clock::now() + kBusyPause < deadline) {
      pollfd stopped{stop_.fd(), POLLIN, 0};
      // However it ends, the next try finds out.
      (void)::poll(&stopped, 1, static_cast<int>(kBusyPause.count()));
      continue;
    }
    if (!end && end.error().code() == Code::kNotFound) {  // that is a plugin's own word
      return Unavailable(end.error().message());
    }
    RETURN_IF_ERROR(end);
    if (end->status.ShellCode() != 0) return Complaint(*end);
    return std::move(end->output);
  }
}

Result<std::string> Plugins::Run(const std::string& verb, const Json& config,
                                 const PluginTarget& target, Deadline deadline) const {
  const std::string type = TypeOf(config);
  auto output = Execute(verb, type, Print(config), target, deadline);
  if (!output) return Failed(verb, type, std::move(output.error()));
  return output;
}

Result<std::vector<std::string>> Plugins::Versions(const std::string& type,
                                                   Deadline deadline) const {
  // The spec asks for no input; plugins of its library read one.
  auto output = Execute("VERSION", type, R"({"cniVersion":"1.0.0"})", {}, deadline);
  if (!output) return Failed("VERSION", type, std::move(output.error()));
  const auto json = ParseObject(*output);
  if (!json) return Failed("VERSION", type, json.error());
  std::vector<std::string> versions;
  const auto list = json->find("supportedVersions");
  if (list == json->end() || !list->is_array()) {
    return Failed("VERSION", type, InvalidArgument("it says no supportedVersions"));
  }
  for (const Json& version : *list) {
    if (version.is_string()) versions.push_back(version.get<std::string>());
  }
  return versions;
}

}  // namespace holdfast::agent::cni
