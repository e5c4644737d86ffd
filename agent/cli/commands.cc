// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/commands.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "agent/cli/out.h"
#include "agent/cli/words.h"
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
    "  holdctl port-forward web 8080:80     a local port that leads to one of a pod\n"
    "  holdctl cp web:/etc/app.conf .       copy files to and from a container\n"
    "  holdctl apply -f pod.yaml            run a pod\n"
    "  holdctl top pods                     CPU and memory that pods use\n"
    "  holdctl explain service web          who gets packets to a Service, and why\n"
    "  holdctl image import app.tar         add an image\n"
    "\nExit codes: 0 done, 1 failed, 2 wrong usage; exec passes on the program's.\n"
    "Manual: man holdctl; docs/holdctl.md";

void AddGlobals(CLI::App& app, GlobalOptions& global) {
  app.add_option("--socket", global.socket,
                 "The agent's socket (else $HOLDFAST_SOCKET, else /run/holdfast/holdfastd.sock)");
  app.add_option("-n,--namespace", global.name_space, "Namespace (default: default)");
  app.add_option_function<std::string>(
      "--request-timeout",
      [&global](const std::string& text) {
        const bool seconds = text.find_first_not_of("0123456789") == std::string::npos;
        global.request_timeout =
            DurationFlag("--request-timeout", seconds ? StrCat(text, "s") : text);
      },
      "Give up a request that is not answered within 5s, 2m, …; 0, the default: never. Not for "
      "exec, attach, port-forward, cp, image transfers, and what follows or watches");
  app.set_version_flag("-v,--version", "Client Version: " HOLDFAST_VERSION,
                       "This program's version");
}

// The command that was named, as far as it is known.
struct Named {
  const CLI::App* command;
  std::string path;  // "holdctl image"
};

Named NamedCommand(const CLI::App& app) {
  Named named{.command = &app, .path = app.get_name()};
  while (!named.command->get_subcommands().empty()) {
    named.command = named.command->get_subcommands().front();
    named.path += " " + named.command->get_name();
  }
  return named;
}

int UsageError(const CLI::App& app, const CLI::ParseError& error, const std::string& last) {
  const Named named = NamedCommand(app);
  const bool has_commands =
      !named.command->get_subcommands([](const CLI::App*) { return true; }).empty();
  const std::vector<std::string> unknown = app.remaining(true);
  std::string message = FlagFault(error, unknown, last);
  const auto word = std::find_if(unknown.begin(), unknown.end(),
                                 [](const std::string& text) { return !text.starts_with('-'); });
  if (has_commands && word != unknown.end()) {
    message = StrCat("unknown command \"", *word, "\" for \"", named.path, "\"");
  }
  std::fprintf(stderr, "error: %s\nSee '%s --help' for usage.\n", message.c_str(),
               named.path.c_str());
  return kUsage;
}

int Parse(CLI::App& app, Invocation& invocation, std::vector<std::string> words) {
  const std::string last = words.empty() ? "" : words.back();
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
    invocation.global.namespace_given = app.count("--namespace") > 0;
    return invocation.action();
  } catch (const CLI::CallForHelp&) {
    Print(app.help());
    return kOk;
  } catch (const CLI::CallForVersion& version) {
    Print(StrCat(version.what(), "\n"));
    return kOk;
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error, last);
  } catch (const std::system_error& error) {  // a thread that the kernel refuses
    return Report(Internal(error.what()));
  }
}

}  // namespace

std::chrono::nanoseconds DurationFlag(const std::string& flag, const std::string& text) {
  const auto duration = kube::ParseDuration(text);
  if (!duration || duration->count() < 0) {
    throw CLI::ValidationError(InvalidFlag(flag, text, "not a duration such as 90s or 1h30m"));
  }
  return *duration;
}

int WithSession(const GlobalOptions& options, const std::function<int(Session&)>& work) {
  const auto session = Session::Connect(options, Session::Patience::kForARestart);
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
  for (const auto add : {AddGet, AddDescribe, AddLogs, AddExec, AddAttach, AddPortForward, AddCopy,
                         AddDebug, AddApply, AddDelete, AddExplain, AddProxy, AddImage, AddCheck,
                         AddWait, AddTop, AddVersion, AddCompletion, AddHelp}) {
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
  return FinishOutput(Parse(app, invocation, WithLongNames(app, std::move(words))));
}

void AddHelp(CLI::App& app, Invocation& invocation) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand("help", "Help for a command");
  command->add_option("command", *words, "The command: get, image ls, …");
  command->callback([words, &app, &invocation] {
    invocation.action = [words, &app] {
      const CLI::App* named = FindCommand(app, *words);
      if (named == nullptr) throw CLI::ValidationError("help", "there is no such command");
      std::string path;
      for (const CLI::App* up = named; up != nullptr; up = up->get_parent()) {
        path = StrCat(up->get_name(), path.empty() ? "" : " ", path);
      }
      // Not App::help(): that of an App whose command runs is the command's.
      Print(app.get_formatter()->make_help(named, path, CLI::AppFormatMode::Normal));
      return kOk;
    };
  });
}

}  // namespace holdfast::agent::cli
