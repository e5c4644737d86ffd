// SPDX-License-Identifier: Apache-2.0
// What kubectl's command line understands and CLI11 does not. Pure.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace holdfast::agent::cli {

// "-n=prod" as "--namespace=prod", for every short option of the command that is named: CLI11 would
// take the "=" for the beginning of the value.
std::vector<std::string> WithLongNames(const CLI::App& app, std::vector<std::string> words);

// The command whose name these words are, "image ls"; null when there is none.
const CLI::App* FindCommand(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace holdfast::agent::cli
