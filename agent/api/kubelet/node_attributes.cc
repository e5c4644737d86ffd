// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/node_attributes.h"

#include <algorithm>
#include <iterator>

namespace holdfast::agent::api {
namespace {

// "/pods" and "/pods/…", not "/podsx".
bool IsBelow(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

}  // namespace

std::vector<std::string> SubresourcesOf(std::string_view path) {
  struct Row {
    std::string_view prefix;
    std::vector<std::string> subresources;
  };
  static const std::vector<Row> kRows = {
      {"/stats", {"stats"}},
      {"/metrics", {"metrics"}},
      {"/logs", {"log"}},
      {"/checkpoint", {"checkpoint"}},
      {"/statusz", {"statusz"}},
      {"/flagz", {"configz"}},
      {"/pods", {"pods", "proxy"}},
      {"/runningpods", {"pods", "proxy"}},
      {"/healthz", {"healthz", "proxy"}},
      {"/configz", {"configz", "proxy"}},
  };
  for (const Row& row : kRows) {
    if (IsBelow(path, row.prefix)) return row.subresources;
  }
  return {"proxy"};
}

bool IsSession(std::string_view path) {
  constexpr std::string_view kSessions[] = {"/exec", "/attach", "/portForward", "/run", "/cri"};
  return std::any_of(std::begin(kSessions), std::end(kSessions),
                     [&](std::string_view prefix) { return IsBelow(path, prefix); });
}

std::string VerbOf(std::string_view method, std::string_view path) {
  if (method == "POST") return "create";
  if (method == "GET") return IsSession(path) ? "create" : "get";
  if (method == "PUT") return "update";
  if (method == "PATCH") return "patch";
  if (method == "DELETE") return "delete";
  return "";
}

}  // namespace holdfast::agent::api
