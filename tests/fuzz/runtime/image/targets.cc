// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/image/targets.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "runtime/image/documents/artifact.h"
#include "runtime/image/documents/json_text.h"
#include "runtime/image/documents/oci_documents.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/documents/signature_policy.h"
#include "runtime/image/fetch/challenge.h"
#include "runtime/image/pull/media_type.h"
#include "runtime/image/pull/registry_host.h"
#include "runtime/image/pull/short_names.h"
#include "runtime/image/pull/token.h"
#include "runtime/image/unpack/member_name.h"
#include "runtime/image/unpack/tar_reader.h"
#include "runtime/image/wire/address.h"
#include "runtime/image/wire/wire.h"

namespace holdfast::runtime::fuzz {
namespace {

UniqueFd Memory(std::string_view text) {
  UniqueFd fd(::memfd_create("input", MFD_CLOEXEC));
  (void)sys::WriteAll(fd.get(), text);
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

// Makes the checksum of everything that looks like a header right again: damage should reach what
// comes after the checksum.
std::string Repair(std::string_view text) {
  constexpr size_t kBlock = 512;
  constexpr size_t kChecksum = 148;
  constexpr size_t kMagic = 257;
  std::string tar(text);
  for (size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    if (tar.compare(at + kMagic, 5, "ustar") != 0) continue;
    std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(at + kChecksum), 8, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(tar[at + i]);
    for (size_t i = 6; i-- > 0; sum >>= 3)
      tar[at + kChecksum + i] = static_cast<char>('0' + (sum & 7));
    tar[at + kChecksum + 6] = '\0';
  }
  return tar;
}

// A clean name never leaves, whatever it came from.
void CheckName(const std::string& raw) {
  const auto clean = unpack::CleanMemberName(raw);
  if (!clean) return;
  const std::string padded = "/" + *clean + "/";
  const bool climbs = padded.find("/../") != std::string::npos || clean->starts_with('/') ||
                      clean->find('\0') != std::string::npos;
  if (climbs) __builtin_trap();
  (void)unpack::ParentOf(*clean);
  (void)unpack::Printable(raw);
}

}  // namespace

void FuzzTar(Input input) {
  const UniqueFd in = Memory(Repair(input));
  auto reader = unpack::TarReader::Open(in.get());
  uint64_t left = 64 << 20;
  while (reader) {
    const auto member = reader->Next();
    if (!member || !*member) return;
    CheckName((*member)->name);
    CheckName((*member)->target);
    const auto read = reader->ReadData([&](std::string_view piece, uint64_t) -> Result<void> {
      if (piece.size() > left) return InvalidArgument("enough");
      left -= piece.size();
      return {};
    });
    if (!read) return;
  }
}

void FuzzDocuments(Input text) {
  (void)ParseIndex(text, "", 100);
  if (const auto manifest = ParseManifest(text, kOciManifest, 100); manifest) {
    const auto parts = PartsOfArtifact(*manifest);
    for (const ArtifactPart& part : parts ? *parts : std::vector<ArtifactPart>()) {
      if (part.kind != ArtifactPart::Kind::kFile) continue;
      const auto clean = unpack::CleanMemberName(part.path);
      if (!clean || *clean != part.path) __builtin_trap();
    }
  }
  (void)ParseDockerArchive(text, 100, 100);
  (void)SignaturePolicy::Parse(text);
  if (const auto config = ParseConfig(text, 1); config) {
    // What was read can be written and is read again.
    const auto again =
        ParseConfig(WriteConfig(config->config, Digest("sha256:" + std::string(64, 'a'))), 1);
    if (!again || again->config.env.size() != config->config.env.size()) __builtin_trap();
  }
  if (const auto reference = ParseReference(std::string(text)); reference) {
    const auto again = ParseReference(reference->Name());
    if (!again || again->Name() != reference->Name()) __builtin_trap();
  }
}

void FuzzRegistry(Input input) {
  const std::string text(input);
  const auto registry = *fetch::ParseAddress("http://localhost:5000/v2");
  for (const fetch::Challenge& challenge : fetch::ParseChallenges(input)) {
    (void)TokenUrl(challenge, {"a/b", true, {"c"}}, registry);
  }
  if (const auto address = fetch::ParseAddress(text)) (void)address->Origin();
  (void)ReadTokenReply(input);
  (void)ManifestType("application/json", input);
  (void)ManifestType(input, "{}");
  (void)fetch::DecodeRequest(input);
  const auto fields = fetch::Decode(input);
  if (!fields) return;
  (void)fetch::DecodeHead(*fields);
  (void)fetch::DecodeEnd(*fields);
}

void FuzzHosts(Input input) { (void)ParseHostsToml(input, "registry.example"); }

void FuzzShortNames(Input input) {
  const size_t end = std::min(input.find('\0'), input.size());
  ShortNames names;
  if (!names.Add(input.substr(0, end))) return;
  const std::string wanted(end < input.size() ? input.substr(end + 1) : "app:1");
  if (!ParseReference(wanted)) return;
  const auto candidates = names.Candidates(wanted);
  if (!candidates) return;
  if (candidates->empty()) __builtin_trap();
  // Whatever the file says: a name to ask a registry for is a name.
  for (const std::string& candidate : *candidates) {
    if (!ParseReference(candidate)) __builtin_trap();
  }
}

}  // namespace holdfast::runtime::fuzz
