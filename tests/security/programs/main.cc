// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <iostream>

#include "attacker.h"

namespace attacker {

std::string Outcome(long result) {
  if (result >= 0) return "ok";
  const char* name = ::strerrorname_np(errno);
  return name != nullptr ? name : std::to_string(errno);
}

namespace {

int Run(const std::string& verb, const Words& words) {
  if (verb == "calls") return Calls();
  if (verb == "devices") return Devices();
  if (verb == "families") return Families();
  if (verb == "mount-cgroups") return MountCgroups();
  if (verb == "open-for-writing") return OpenForWriting(words);
  if (verb == "open-for-reading") return OpenForReading(words);
  if (verb == "descend") return Descend(words);
  if (verb == "exchange") return Exchange(words);
  if (verb == "fill") return Fill(words);
  if (verb == "martian") return Martian(words);
  if (verb == "fork") return Fork(words);
  if (verb == "push-back") return PushBack(words);
  if (verb == "identity") return Identity();
  if (verb == "neighbours") return Neighbours(words);
  if (verb == "objects") return Objects(words);
  if (verb == "spin") return Spin(words);
  std::cerr << "no verb " << verb << '\n';
  return 2;
}

}  // namespace
}  // namespace attacker

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return attacker::Run(argv[1], attacker::Words(argv + 2, argv + argc));
}
