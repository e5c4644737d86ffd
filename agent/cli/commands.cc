// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/commands.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

constexpr char kFooter[] =
    "\nExamples:\n"
    "  holdctl get pods -A -o wide          all pods with addresses\n"
    "  holdctl describe pod web             why a pod is as it is; also service, node\n"
    "  holdctl logs -f web                  follow a log over rotation and restarts\n"
    "  holdctl exec -it web -- sh           a shell in a container\n"
    "  holdctl apply -f pod.yaml            run a pod\n"
    "  holdctl explain service web          who gets packets to a Service, and why\n"
    "  holdctl image import app.tar         add an image\n"
    "\nExit codes: 0 done, 1 failed, 2 wrong usage; exec passes on the program's.\n"
    "Manual: man holdctl; docs/holdctl.md";

void AddGlobals(CLI::App& app, GlobalOptions& global) {
  app.add_option("--socket", global.socket,
                 "The agent's socket (else $HOLDFAST_SOCKET, else /run/holdfast/holdfastd.sock)");
  app.add_option("-n,--namespace", global.name_space, "Namespace (default: default)");
}

int UsageError(const CLI::App& app, const std::string& message) {
  const CLI::App* deepest = &app;
  std::string path = app.get_name();
  while (!deepest->get_subcommands().empty()) {
    deepest = deepest->get_subcommands().front();
    path += " " + deepest->get_name();
  }
  std::fprintf(stderr, "error: %s\nSee '%s --help' for usage.\n", message.c_str(), path.c_str());
  return kUsage;
}

}  // namespace

std::chrono::nanoseconds DurationFlag(const std::string& flag, const std::string& text) {
  const auto duration = kube::ParseDuration(text);
  if (!duration || duration->count() < 0) {
    throw CLI::ValidationError(flag, "\"" + text + "\" is not a duration such as 90s or 1h30m");
  }
  return *duration;
}

int WithSession(const GlobalOptions& options, const std::function<int(Session&)>& work) {
  const auto session = Session::Connect(options);
  if (!session) return Report(session.error());
  return work(**session);
}

int Main(int argc, const char* const* argv) {
  CLI::App app("holdctl: see and change what runs on this node, through the agent's socket",
               "holdctl");
  Invocation invocation;
  AddGlobals(app, invocation.global);
  app.require_subcommand(1);
  app.fallthrough();
  for (const auto add : {AddGet, AddDescribe, AddLogs, AddExec, AddApply, AddDelete, AddExplain,
                         AddProxy, AddImage, AddCheck, AddWait, AddVersion, AddCompletion}) {
    add(app, invocation);
  }
  app.footer(kFooter);  // last: commands would inherit it
  // CLI11 would give what follows "--" to the next positional; exec needs to know where it stood.
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes != words.end()) {
    invocation.has_dashes = true;
    invocation.after_dashes.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
    return invocation.action();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app.remaining();
    if (app.get_subcommands().empty() && !unknown.empty()) {
      return UsageError(app, StrCat("unknown command \"", unknown.front(), "\" for \"holdctl\""));
    }
    return UsageError(app, error.what());
  }
}

}  // namespace holdfast::agent::cli
