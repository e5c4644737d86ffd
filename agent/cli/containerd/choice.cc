// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/choice.h"

#include <map>
#include <set>
#include <utility>

#include "runtime/image/documents/reference.h"

namespace holdfast::agent::containerd {
namespace {

bool IsCriId(const std::string& name) { return name.starts_with("sha256:"); }

// Names by content, in the order of the first of each.
class Chooser {
 public:
  explicit Chooser(const std::vector<std::string>& wanted) {
    for (const std::string& text : wanted) {
      const auto name = runtime::ParseReference(text);
      wanted_.emplace(name ? name->Name() : text, text);
    }
    choose_all_ = wanted.empty();
  }

  void Add(const NamedImage& image) {
    if (IsCriId(image.name)) {
      ids_.push_back(image);
      return;
    }
    const auto name = runtime::ParseReference(image.name);
    const std::string stored = name ? name->Name() : image.name;
    const bool asked = wanted_.contains(stored);
    if (asked) found_.insert(stored);
    if (!choose_all_ && !asked) return;
    if (!name) {
      choice_.skipped.push_back({image.name, "no name that an image can have here"});
    } else if (!name->digest.empty() && name->digest != image.target.digest) {
      choice_.skipped.push_back({image.name, "its content is " + image.target.digest});
    } else if (name->digest.empty()) {
      tagged_.emplace(name->repository, image.target.digest);
      Keep(image.target, image.name);
    } else {
      digests_.push_back({*name, image, asked});
    }
  }

  Choice Finish() {
    for (const ByDigest& each : digests_) {
      const bool has_tag = tagged_.contains({each.name.repository, each.image.target.digest});
      if (each.asked || !has_tag) Keep(each.image.target, each.image.name);
    }
    for (const NamedImage& image : ids_) {
      if (choose_all_ && !by_digest_.contains(image.target.digest)) {
        choice_.skipped.push_back({image.name, "it has no other name"});
      }
    }
    for (const auto& [stored, text] : wanted_) {
      if (!found_.contains(stored)) choice_.absent.push_back(text);
    }
    return std::move(choice_);
  }

 private:
  struct ByDigest {
    runtime::Reference name;
    NamedImage image;
    bool asked;
  };

  void Keep(const Target& target, const std::string& name) {
    const auto [known, added] = by_digest_.emplace(target.digest, choice_.images.size());
    if (added) choice_.images.push_back({target, {}});
    choice_.images[known->second].names.push_back(name);
  }

  bool choose_all_ = true;
  std::map<std::string, std::string> wanted_;  // as it is stored: as it was written
  std::set<std::string> found_;
  std::set<std::pair<std::string, std::string>> tagged_;  // repository and content
  std::vector<ByDigest> digests_;
  std::vector<NamedImage> ids_;
  std::map<std::string, size_t> by_digest_;
  Choice choice_;
};

}  // namespace

Choice ChooseImages(const std::vector<NamedImage>& images, const std::vector<std::string>& wanted) {
  Chooser chooser(wanted);
  for (const NamedImage& image : images) chooser.Add(image);
  return chooser.Finish();
}

}  // namespace holdfast::agent::containerd
