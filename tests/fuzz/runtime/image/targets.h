// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the image store: everything that reads bytes of an archive
// or a registry, and the two files that say how registries are reached and named. Each takes any
// input and must neither crash nor hang nor use more memory than its limits.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::runtime::fuzz {

using Input = std::string_view;

void FuzzTar(Input input);        // members, names, data of a tar stream
void FuzzInflate(Input input);    // gzip, compared with zlib, and zstd
void FuzzDocuments(Input input);  // index, manifest, config, manifest.json, reference
void FuzzRegistry(
    Input input);             // challenges, addresses, tokens, media types, the helper's messages
void FuzzHosts(Input input);  // hosts.toml
void FuzzShortNames(Input input);  // registries.conf and, behind a zero byte, a name to look up

}  // namespace holdfast::runtime::fuzz
