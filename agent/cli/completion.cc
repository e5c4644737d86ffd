// SPDX-License-Identifier: Apache-2.0
// completion: shell scripts that complete commands, kinds and names. The names are asked
// from the agent at completion time.
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/out.h"

namespace holdfast::agent::cli {
namespace {

// clang-format off: it takes the text of a raw string for C++
constexpr char kBash[] = R"sh(# Asks the agent, and of the namespace, that the command line names.
_holdctl_ask() {
  local i where=()
  for ((i = 2; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -n|--namespace|--socket)
        where+=("${COMP_WORDS[i]}")
        [ "${COMP_WORDS[i+1]}" = = ] && ((i++))
        where+=("${COMP_WORDS[i+1]}") ;;
      -A|--all-namespaces) where+=(-A) ;;
    esac
  done
  holdctl "$@" "${where[@]}" --request-timeout=1s 2>/dev/null
}
_holdctl_names() { _holdctl_ask get "$1" -o name | sed 's,^[^/]*/,,'; }
_holdctl_namespaces() {
  holdctl get pods,services -A -o 'jsonpath={range .items[*]}{.metadata.namespace}{"\n"}{end}' --request-timeout=1s 2>/dev/null | sort -u
}
_holdctl_containers() {
  local pod=${COMP_WORDS[2]} i
  for ((i = 2; i < COMP_CWORD - 1; i++)); do
    case ${COMP_WORDS[i]} in -*) ;; *) pod=${COMP_WORDS[i]}; break ;; esac
  done
  _holdctl_ask get pod "${pod#*/}" -o 'jsonpath={.spec.initContainers[*].name} {.spec.containers[*].name}'
}
_holdctl_flags() { holdctl "$1" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u; }
_holdctl() {
  local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  local previous=${COMP_WORDS[COMP_CWORD-1]} words=
  case $previous in
    -f|--filename|--socket) COMPREPLY=($(compgen -f -- "$current")); return ;;
    -n|--namespace) words=$(_holdctl_namespaces) ;;
    -c|--container) words=$(_holdctl_containers) ;;
    --sort-by) [ "$command" = top ] && words="cpu memory" ;;
    -o|--output)
      words="json yaml"
      case $command in get|image) words="table wide json yaml name jsonpath= jsonpath-as-json= jsonpath-file= custom-columns= custom-columns-file=" ;; esac ;;
    *)
      if [[ $current == -* && $COMP_CWORD -gt 1 ]]; then
        COMPREPLY=($(compgen -W "$(_holdctl_flags "$command")" -- "$current"))
        return
      fi
      case $COMP_CWORD.$command in
        1.*) words="get describe logs exec attach port-forward cp debug apply delete explain top proxy image check wait version completion help" ;;
        2.get) words="pods services endpoints endpointslices events node configmaps secrets images all" ;;
        2.describe) words="pod service node configmap secret $(_holdctl_names pods)" ;;
        2.delete) words="pod service endpointslice configmap secret" ;;
        2.explain) words="service" ;;
        2.top) words="pods node containers" ;;
        2.wait) words="pod $(_holdctl_names pods)" ;;
        2.proxy) words="dump" ;;
        2.image) words="import pull push ls rm inspect export tag prune du" ;;
        *.image) words=$(holdctl image ls -o name --request-timeout=1s 2>/dev/null) ;;
        *.completion) words="bash zsh fish" ;;
        *.logs|*.exec|*.attach|*.debug) words=$(_holdctl_names pods) ;;
        *.top) case ${COMP_WORDS[2]} in no*) words=$(_holdctl_names nodes) ;; *) words=$(_holdctl_names pods) ;; esac ;;
        *.port-forward) words="$(_holdctl_names pods) $(_holdctl_names services | sed 's|^|service/|')" ;;
        *.cp) COMPREPLY=($(compgen -S : -W "$(_holdctl_names pods)" -- "$current") $(compgen -f -- "$current")); return ;;
        *.get|*.describe|*.delete|*.explain|*.wait) words=$(_holdctl_names "${COMP_WORDS[2]}") ;;
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _holdctl holdctl
)sh";
// clang-format on

constexpr char kZshHead[] = "autoload -U +X bashcompinit && bashcompinit\n";

// clang-format off
constexpr char kFish[] = R"sh(function __holdctl_names
  holdctl get $argv[1] -o name --request-timeout=1s 2>/dev/null | string replace -r '^[^/]*/' ''
end
set -l commands get describe logs exec attach port-forward cp debug apply delete explain top proxy image check wait version completion help
set -l services services service svc
set -l configmaps configmaps configmap cm
set -l secrets secrets secret
complete -c holdctl -f
complete -c holdctl -n "not __fish_seen_subcommand_from $commands" -a "$commands"
complete -c holdctl -n "__fish_seen_subcommand_from get" -a "pods services endpoints endpointslices events node configmaps secrets images all"
complete -c holdctl -n "__fish_seen_subcommand_from describe" -a "pod service node configmap secret"
complete -c holdctl -n "__fish_seen_subcommand_from delete" -a "pod service endpointslice configmap secret"
complete -c holdctl -n "__fish_seen_subcommand_from explain" -a "service"
complete -c holdctl -n "__fish_seen_subcommand_from top" -a "pods node containers"
complete -c holdctl -n "__fish_seen_subcommand_from top" -l sort-by -x -a "cpu memory"
complete -c holdctl -n "__fish_seen_subcommand_from top" -l show-swap
complete -c holdctl -n "__fish_seen_subcommand_from image" -a "import pull push ls rm inspect export tag prune du"
complete -c holdctl -n "__fish_seen_subcommand_from proxy" -a "dump"
complete -c holdctl -n "__fish_seen_subcommand_from completion" -a "bash zsh fish"
complete -c holdctl -n "__fish_seen_subcommand_from get describe delete explain; and __fish_seen_subcommand_from $services" -a "(__holdctl_names services)"
complete -c holdctl -n "__fish_seen_subcommand_from get describe delete; and __fish_seen_subcommand_from $configmaps" -a "(__holdctl_names configmaps)"
complete -c holdctl -n "__fish_seen_subcommand_from get describe delete; and __fish_seen_subcommand_from $secrets" -a "(__holdctl_names secrets)"
complete -c holdctl -n "__fish_seen_subcommand_from get describe delete logs exec attach port-forward debug wait; and not __fish_seen_subcommand_from $services $configmaps $secrets" -a "(__holdctl_names pods)"
complete -c holdctl -n "__fish_seen_subcommand_from version explain" -s o -l output -x -a "json yaml"
complete -c holdctl -n "__fish_seen_subcommand_from apply delete" -s f -l filename -r -F
)sh";
// clang-format on

int PrintScript(const std::string& shell) {
  if (shell == "zsh") Print(kZshHead);
  Print(shell == "fish" ? kFish : kBash);
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
      [shell, &invocation] { invocation.action = [shell] { return PrintScript(*shell); }; });
}

}  // namespace holdfast::agent::cli
