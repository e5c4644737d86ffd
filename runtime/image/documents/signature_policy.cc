// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/signature_policy.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/json/json_read.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kRegistries = "docker";
constexpr std::string_view kOciArchive = "oci-archive", kOciDirectory = "oci";
constexpr std::string_view kDockerArchive = "docker-archive", kRootTar = "tarball";
// Those by which no image comes here.
constexpr std::array<std::string_view, 7> kOthers = {
    "atomic", "containers-storage", "dir", "docker-daemon", "openshift", "ostree", "sif"};

using Scopes = std::map<std::string, bool, std::less<>>;
using Transports = std::map<std::string, Scopes, std::less<>>;

std::string_view TransportOf(ImportKind kind) {
  switch (kind) {
    case ImportKind::kOciArchive:
      return kOciArchive;
    case ImportKind::kOciDirectory:
      return kOciDirectory;
    case ImportKind::kDockerArchive:
      return kDockerArchive;
    case ImportKind::kRootTar:
      break;
  }
  return kRootTar;
}

bool IsImport(std::string_view transport) {
  return transport == kOciArchive || transport == kOciDirectory || transport == kDockerArchive ||
         transport == kRootTar;
}

Result<json::Object> ObjectOf(const json::Element& element) {
  json::Object object;
  if (element.get(object) != simdjson::SUCCESS) return InvalidArgument("not an object");
  return object;
}

// `read` for each field. One that is there twice is refused: readers differ in which of them counts.
template <class Read>
Result<void> EachField(const json::Object& object, Read read) {
  std::set<std::string_view> seen;
  for (const auto field : object) {
    if (!seen.insert(field.key).second) {
      return InvalidArgument(StrCat("\"", field.key, "\" is there twice"));
    }
    RETURN_IF_ERROR(read(field.key, field.value));
  }
  return {};
}

// Whether one requirement lets an image in.
Result<bool> AcceptsOne(const json::Element& element) {
  ASSIGN_OR_RETURN(const json::Object object, ObjectOf(element));
  std::string_view type, other;
  RETURN_IF_ERROR(
      EachField(object, [&](std::string_view key, const json::Element& value) -> Result<void> {
        if (key != "type") {
          other = key;
        } else if (value.get(type) != simdjson::SUCCESS) {
          return InvalidArgument("type: not a string");
        }
        return {};
      }));
  if (type == "signedBy" || type == "sigstoreSigned" || type == "signedBaseLayer") {
    return InvalidArgument(
        StrCat("\"", type, "\" wants a signature, and signatures are not checked here"));
  }
  if (type != "insecureAcceptAnything" && type != "reject") {
    return InvalidArgument(StrCat("unknown type \"", type, "\""));
  }
  if (!other.empty()) return InvalidArgument(StrCat("unknown field \"", other, "\""));
  return type != "reject";
}

// All of a list's requirements must be met.
Result<bool> AcceptsAll(const json::Element& element) {
  json::Array list;
  if (element.get(list) != simdjson::SUCCESS) return InvalidArgument("not a list");
  if (list.size() == 0) return InvalidArgument("a list without requirements");
  bool accepts = true;
  for (const json::Element one : list) {
    ASSIGN_OR_RETURN(const bool met, AcceptsOne(one));
    accepts = accepts && met;
  }
  return accepts;
}

Result<Scopes> ReadScopes(const json::Element& element) {
  ASSIGN_OR_RETURN(const json::Object object, ObjectOf(element));
  Scopes scopes;
  RETURN_IF_ERROR(
      EachField(object, [&](std::string_view scope, const json::Element& value) -> Result<void> {
        ASSIGN_OR_RETURN(const bool accepts,
                         WithContext(AcceptsAll(value), StrCat("\"", scope, "\"")));
        scopes.emplace(scope, accepts);
        return {};
      }));
  return scopes;
}

Result<Transports> ReadTransports(const json::Element& element) {
  ASSIGN_OR_RETURN(const json::Object object, ObjectOf(element));
  Transports transports;
  RETURN_IF_ERROR(
      EachField(object, [&](std::string_view name, const json::Element& value) -> Result<void> {
        const bool known = name == kRegistries || IsImport(name) ||
                           std::ranges::find(kOthers, name) != kOthers.end();
        if (!known) return InvalidArgument(StrCat("unknown transport \"", name, "\""));
        ASSIGN_OR_RETURN(Scopes scopes, WithContext(ReadScopes(value), name));
        transports.emplace(name, std::move(scopes));
        return {};
      }));
  return transports;
}

// Archives come as streams: where one lies, or whether it was a directory, is not known here.
Result<void> CheckImports(const Transports& transports) {
  for (const auto& [name, scopes] : transports) {
    if (!IsImport(name)) continue;
    for (const auto& [scope, accepts] : scopes) {
      if (scope.empty()) continue;
      return InvalidArgument(StrCat(name, ": \"", scope, "\": only the scope \"\" is known here"));
    }
  }
  const auto directory = transports.find(kOciDirectory);
  const auto archive = transports.find(kOciArchive);
  if (directory == transports.end()) return {};
  if (archive != transports.end() && archive->second == directory->second) return {};
  return InvalidArgument(StrCat("\"", kOciDirectory, "\" says something else than \"", kOciArchive,
                                "\": a directory is imported as an archive here"));
}

// What a policy may name the image by, the nearest first. A port belongs to a host and to no "*.".
std::vector<std::string> ScopesOf(const Reference& reference) {
  std::vector<std::string> scopes = {reference.Name()};
  std::string part = reference.repository;
  for (size_t end = part.size(); end != std::string::npos; end = part.rfind('/')) {
    part.resize(end);
    scopes.push_back(part);
  }
  const std::string host = part.substr(0, part.find(':'));
  for (size_t dot = host.find('.'); dot != std::string::npos; dot = host.find('.', dot + 1)) {
    scopes.push_back("*" + host.substr(dot));
  }
  scopes.emplace_back();
  return scopes;
}

Error Rejected(std::string_view image) {
  return Error(Code::kPermissionDenied,
               StrCat("Source image rejected: Running image ", image, " is rejected by policy."));
}

}  // namespace

Result<SignaturePolicy> SignaturePolicy::Parse(std::string_view text) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object policy, json::ParseObject(parser, text, "policy"));
  SignaturePolicy made;
  std::optional<bool> fallback;
  RETURN_IF_ERROR(
      EachField(policy, [&](std::string_view key, const json::Element& value) -> Result<void> {
        if (key == "default") {
          ASSIGN_OR_RETURN(fallback, WithContext(AcceptsAll(value), key));
        } else if (key == "transports") {
          ASSIGN_OR_RETURN(made.transports_, WithContext(ReadTransports(value), key));
        } else {
          return InvalidArgument(StrCat("unknown field \"", key, "\""));
        }
        return {};
      }));
  if (!fallback) return InvalidArgument("no default");
  made.default_ = *fallback;
  RETURN_IF_ERROR(WithContext(CheckImports(made.transports_), "transports"));
  return made;
}

bool SignaturePolicy::Accepts(std::string_view transport,
                              const std::vector<std::string>& scopes) const {
  const auto found = transports_.find(transport);
  if (found == transports_.end()) return default_;
  for (const std::string& scope : scopes) {
    if (const auto rule = found->second.find(scope); rule != found->second.end())
      return rule->second;
  }
  return default_;
}

Result<void> SignaturePolicy::AdmitPull(const Reference& reference) const {
  if (Accepts(kRegistries, ScopesOf(reference))) return {};
  return Rejected(StrCat(kRegistries, "://", reference.Name())).Wrap("SignatureValidationFailed");
}

Result<void> SignaturePolicy::AdmitImport(ImportKind kind) const {
  const std::string_view transport = TransportOf(kind);
  if (Accepts(transport, {""})) return {};
  return Rejected(StrCat("from ", transport));
}

}  // namespace holdfast::runtime
