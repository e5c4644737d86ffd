// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/containerd/targets.h"

#include <string>
#include <vector>

#include "agent/cli/containerd/choice.h"
#include "agent/cli/containerd/images.h"
#include "tests/support/bolt_file.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

using test_support::kBoltPage;

agent::containerd::ReadAt FuzzedFile(const std::string& file) {
  return [&file](uint64_t offset, size_t size) -> Result<std::string> {
    return offset < file.size() ? file.substr(offset, size) : std::string();
  };
}

}  // namespace

void FuzzBolt(std::string_view input) {
  std::vector<std::string> pages;
  for (size_t at = 0; at < input.size(); at += kBoltPage) {
    std::string page(input.substr(at, kBoltPage));
    page.replace(0, 8, test_support::LittleEndian(uint64_t{2 + pages.size()}));
    pages.push_back(std::move(page));
  }
  const std::string file = test_support::BoltFile(pages);
  const auto images = agent::containerd::ReadImages(FuzzedFile(file), "k8s.io");
  if (!images) return;
  size_t names = 0;
  for (const auto& image : *images) {
    Require(image.name.size() <= 4096 && image.target.digest.size() <= 4096, "limits", input);
  }
  const auto choice = agent::containerd::ChooseImages(*images, {});
  for (const auto& image : choice.images) names += image.names.size();
  Require(names + choice.skipped.size() <= images->size(), "each name once at most", input);
}

}  // namespace holdfast::fuzz
