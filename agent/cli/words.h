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

// What is said of a flag's argument that is of another type, as kubectl begins it.
std::string InvalidFlag(const std::string& flag, const std::string& argument,
                        const std::string& why);

// What is wrong with a line's flags, in kubectl's words: one that is unknown, lacks its argument, or has one of another
// type; else CLI11's own words. `unknown`: what no command took; `last`: the line's last word.
std::string FlagFault(const CLI::ParseError& error, const std::vector<std::string>& unknown,
                      const std::string& last);

// The command whose name these words are, "image ls"; null when there is none.
const CLI::App* FindCommand(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace holdfast::agent::cli
