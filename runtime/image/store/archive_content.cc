// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/archive_content.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

constexpr int kMaxLinks = 8;

Result<UniqueFd> RequireRegular(Result<UniqueFd> fd, const std::string& name) {
  if (!fd) return fd;
  struct stat st{};
  if (::fstat(fd->get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return InvalidArgument(StrCat("\"", name, "\": not a regular file"));
  }
  return fd;
}

// "a/../b/./c" and absolute names, by text: the names are keys of a map, not paths.
std::string Lexical(const std::string& base, const std::string& target) {
  std::vector<std::string> parts;
  const std::string whole = target.starts_with('/') ? target : StrCat(base, "/", target);
  size_t begin = 0;
  while (begin <= whole.size()) {
    size_t end = whole.find('/', begin);
    if (end == std::string::npos) end = whole.size();
    const std::string part = whole.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string out;
  for (const std::string& part : parts) out += out.empty() ? part : "/" + part;
  return out;
}

class SplitContent : public ArchiveContent {
 public:
  SplitContent(DirFd directory, const ArchiveMembers& members) : directory_(std::move(directory)) {
    for (size_t i = 0; i < members.files.size(); ++i) files_.emplace(members.files[i], i);
    for (const auto& [name, target] : members.links) {
      const size_t slash = name.rfind('/');
      const std::string base = slash == std::string::npos ? std::string() : name.substr(0, slash);
      links_.emplace(name, Lexical(base, target));
    }
  }

  bool Has(const std::string& name) const override { return files_.contains(Resolve(name)); }

  Result<UniqueFd> Open(const std::string& name) const override {
    const auto file = files_.find(Resolve(name));
    if (file == files_.end()) return NotFound(StrCat("archive has no \"", name, "\""));
    return RequireRegular(sys::OpenAt(directory_.get(), std::to_string(file->second),
                                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
                          name);
  }

 private:
  std::string Resolve(const std::string& name) const {
    std::string current = Lexical("", name);
    for (int i = 0; i < kMaxLinks; ++i) {
      const auto link = links_.find(current);
      if (link == links_.end()) break;
      current = link->second;
    }
    return current;
  }

  DirFd directory_;
  std::map<std::string, size_t> files_;
  std::map<std::string, std::string> links_;
};

class OpenDirectoryContent : public ArchiveContent {
 public:
  explicit OpenDirectoryContent(DirFd directory) : directory_(std::move(directory)) {}

  bool Has(const std::string& name) const override { return Open(name).has_value(); }

  Result<UniqueFd> Open(const std::string& name) const override {
    return RequireRegular(
        sys::OpenInside(directory_.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0,
                        sys::Resolve::kBeneath),
        name);
  }

 private:
  DirFd directory_;
};

}  // namespace

Result<std::string> ArchiveContent::Read(const std::string& name, size_t limit) const {
  ASSIGN_OR_RETURN(UniqueFd fd, Open(name));
  return WithContext(sys::ReadFd(fd.get(), limit), name);
}

Result<Copied> ArchiveContent::CopyTo(const std::string& name, const Ingest& ingest,
                                      const std::string& as, const ImageLimits& limits) const {
  ASSIGN_OR_RETURN(UniqueFd from, Open(name));
  ASSIGN_OR_RETURN(UniqueFd to, ingest.Create(as));
  return WithContext(CopyIntoStore(from.get(), to.get(), limits.archive_bytes, limits.reserve),
                     name);
}

std::unique_ptr<ArchiveContent> SplitArchiveContent(DirFd directory,
                                                    const ArchiveMembers& members) {
  return std::make_unique<SplitContent>(std::move(directory), members);
}

std::unique_ptr<ArchiveContent> DirectoryContent(DirFd directory) {
  return std::make_unique<OpenDirectoryContent>(std::move(directory));
}

}  // namespace holdfast::runtime
