// SPDX-License-Identifier: Apache-2.0
// completion: shell scripts that complete commands, resources and pod names. The names are asked
// from the agent at completion time.
#include <cstdio>
#include <memory>

#include "agent/cli/commands.h"

namespace holdfast::agent::cli {
namespace {

// clang-format off: it takes the text of a raw string for C++
constexpr char kBash[] = R"sh(_holdctl() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  local previous=${COMP_WORDS[COMP_CWORD-1]} words=
  case $previous in
    -f|--filename|--socket) COMPREPLY=($(compgen -f -- "$current")); return ;;
    -o|--output) words="table wide json yaml name jsonpath=" ;;
    *)
      if [ "$COMP_CWORD" = 1 ]; then
        words="get describe logs exec apply delete explain image check wait version completion"
      else
        case $command in
          get)
            if [ "$COMP_CWORD" = 2 ]; then words="pods services endpoints events node images"
            else words=$(holdctl get pods -o name 2>/dev/null | cut -d/ -f2); fi ;;
          image)
            if [ "$COMP_CWORD" = 2 ]; then words="import ls rm inspect export"
            else words=$(holdctl image ls -o name 2>/dev/null); fi ;;
          completion) words="bash zsh fish" ;;
          describe|delete) words="pod $(holdctl get pods -o name 2>/dev/null | cut -d/ -f2)" ;;
          logs|exec|wait) words=$(holdctl get pods -o name 2>/dev/null | cut -d/ -f2) ;;
        esac
      fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _holdctl holdctl
)sh";
// clang-format on

constexpr char kZshHead[] = "autoload -U +X bashcompinit && bashcompinit\n";

// clang-format off
constexpr char kFish[] = R"sh(function __holdctl_pods
  holdctl get pods -o name 2>/dev/null | string replace 'pod/' ''
end
set -l commands get describe logs exec apply delete explain image check wait version completion
complete -c holdctl -f
complete -c holdctl -n "not __fish_seen_subcommand_from $commands" -a "$commands"
complete -c holdctl -n "__fish_seen_subcommand_from get" -a "pods services endpoints events node images"
complete -c holdctl -n "__fish_seen_subcommand_from image" -a "import ls rm inspect export"
complete -c holdctl -n "__fish_seen_subcommand_from completion" -a "bash zsh fish"
complete -c holdctl -n "__fish_seen_subcommand_from describe delete logs exec wait" -a "(__holdctl_pods)"
complete -c holdctl -n "__fish_seen_subcommand_from apply delete" -s f -l filename -r -F
)sh";
// clang-format on

int Print(const std::string& shell) {
  if (shell == "zsh") std::fputs(kZshHead, stdout);
  std::fputs(shell == "fish" ? kFish : kBash, stdout);
  return kOk;
}

}  // namespace

void AddCompletion(CLI::App& app, Invocation& invocation) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion", "Print a completion script: source <(holdctl completion bash)");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback(
      [shell, &invocation] { invocation.action = [shell] { return Print(*shell); }; });
}

}  // namespace holdfast::agent::cli
