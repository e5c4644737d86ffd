// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_images.h"

#include <algorithm>

namespace holdfast::agent {
namespace {

// A kubelet's nodeStatusMaxImages, and its limit of names.
constexpr size_t kMostImages = 50;
constexpr size_t kMostNames = 5;

NodeImage AsNodeImage(const Image& image) {
  NodeImage shown{image.repo_digests, static_cast<int64_t>(image.size_bytes)};
  shown.names.insert(shown.names.end(), image.repo_tags.begin(), image.repo_tags.end());
  if (shown.names.size() > kMostNames) shown.names.resize(kMostNames);
  return shown;
}

}  // namespace

std::vector<NodeImage> ShownImages(const std::vector<Image>& images) {
  std::vector<NodeImage> shown;
  for (const Image& image : images) {
    if (NodeImage one = AsNodeImage(image); !one.names.empty()) shown.push_back(std::move(one));
  }
  std::sort(shown.begin(), shown.end(), [](const NodeImage& a, const NodeImage& b) {
    return a.size_bytes != b.size_bytes ? a.size_bytes > b.size_bytes : a.names < b.names;
  });
  if (shown.size() > kMostImages) shown.resize(kMostImages);
  return shown;
}

}  // namespace holdfast::agent
