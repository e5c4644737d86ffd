// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/cli/targets.h"

#include "agent/cli/jsonpath.h"
#include "agent/kube/parse.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzJsonPath(std::string_view input) {
  static const agent::kube::Node root =
      agent::kube::ParseYamlOrJson(
          R"({"items":[{"a":{"b":"c","n":2},"on":true},{"a":{"b":"d","n":10}}],"kind":"List","none":null})")
          .documents.front();
  constexpr size_t kLongest = 64;  // what {..}{..} chooses grows with each pair
  const auto path = agent::cli::JsonPath::Parse(input.substr(0, kLongest));
  if (path) (void)path->Apply(root);
}

}  // namespace holdfast::fuzz
