// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/healthz.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

constexpr std::string_view kBelow = "/healthz/";

// All checks; the agent's own is syncloop.
HttpAnswer All(bool verbose, bool well) {
  if (well && !verbose) return {.body = "ok"};
  const std::string checks = StrCat("[+]ping ok\n[+]log ok\n", well ? "[+]" : "[-]", "syncloop ",
                                    well ? "ok" : "failed: reason withheld", "\n");
  return {.status = well ? 200u : 500u,
          .body = StrCat(checks, "healthz check ", well ? "passed" : "failed", "\n")};
}

}  // namespace

HttpAnswer HealthzAnswer(std::string_view path, bool verbose, const std::string& trouble) {
  if (!path.starts_with(kBelow)) return All(verbose, trouble.empty());
  const std::string_view check = path.substr(kBelow.size());
  if (check == "syncloop" && !trouble.empty()) {
    return {.status = 500, .body = StrCat("internal server error: ", trouble, "\n")};
  }
  if (check == "ping" || check == "log" || check == "syncloop") return {.body = "ok"};
  return {.status = 404, .body = "404 page not found\n"};
}

}  // namespace holdfast::agent::api
