// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/options.h"

#include <charconv>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

template <class T>
Result<void> ParseNumber(std::string_view option, std::string_view text, T& out) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || rest != text.data() + text.size()) {
    return InvalidArgument(StrCat(option, ": \"", text, "\" is no number"));
  }
  return {};
}

Result<void> CheckPath(std::string_view option, std::string_view path) {
  if (!path.starts_with('/')) {
    return InvalidArgument(StrCat(option, ": \"", path, "\" is no absolute path"));
  }
  return {};
}

}  // namespace

std::vector<std::string> Options::ToArguments() const {
  std::vector<std::string> arguments{"holdfast-keeper", command, StrCat("--run-dir=", run_dir)};
  for (const std::string& dir : visible) arguments.push_back(StrCat("--visible=", dir));
  if (generation != 0) arguments.push_back(StrCat("--generation=", generation));
  return arguments;
}

Result<Options> ParseOptions(int argc, char** argv) {
  Options options;
  if (argc < 2) return InvalidArgument("a subcommand is missing: hold, launch or log (see --help)");
  options.command = argv[1];
  if (options.command != "hold" && options.command != "launch" && options.command != "log") {
    return InvalidArgument(StrCat("unknown subcommand \"", options.command, "\" (see --help)"));
  }
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    if (equals == std::string_view::npos) {
      return InvalidArgument(StrCat("\"", argument, "\": options have the form --name=value"));
    }
    const std::string_view value = argument.substr(equals + 1);
    if (name == "--run-dir") {
      RETURN_IF_ERROR(CheckPath(name, value));
      options.run_dir = value;
    } else if (name == "--visible") {
      RETURN_IF_ERROR(CheckPath(name, value));
      options.visible.emplace_back(value);
    } else if (name == "--generation") {
      RETURN_IF_ERROR(ParseNumber(name, value, options.generation));
    } else if (name == "--resume") {
      RETURN_IF_ERROR(ParseNumber(name, value, options.resume));
    } else {
      return InvalidArgument(StrCat("unknown option \"", name, "\""));
    }
  }
  if (options.run_dir.empty()) return InvalidArgument("--run-dir is missing");
  if (options.command == "launch" && options.generation == 0) {
    return InvalidArgument("--generation is missing");
  }
  return options;
}

}  // namespace holdfast::runtime::keeper
