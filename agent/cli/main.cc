// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/commands.h"

int main(int argc, char** argv) { return holdfast::agent::cli::Main(argc, argv); }
