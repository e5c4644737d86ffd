// SPDX-License-Identifier: Apache-2.0
#include "agent/source/directory_watch.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_TO |
                             IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

bool SameDirectory(int a, int b) {
  struct stat first{};
  struct stat second{};
  return a >= 0 && ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 &&
         first.st_ino == second.st_ino && first.st_dev == second.st_dev;
}

void Note(const inotify_event& event, DirectoryWatch::News& news) {
  using Deed = DirectoryWatch::Deed;
  // The kernel pads the name with NUL bytes. Of another name: what a manifest's link leads through
  // may have changed.
  const std::string name(event.len == 0 ? "" : event.name);
  if (sys::IsTemporaryName(name)) return;
  if ((event.mask & IN_Q_OVERFLOW) != 0 || !IsManifestName(name)) {
    news.all = true;
    return;
  }
  news.files.insert(name);
  if ((event.mask & IN_MOVED_TO) != 0) {
    news.deeds.emplace_back(name, Deed::kRenamedIn);
  } else if ((event.mask & (IN_CREATE | IN_MODIFY)) != 0) {
    news.deeds.emplace_back(name, (event.mask & IN_MODIFY) != 0 ? Deed::kWritten : Deed::kMade);
  } else if ((event.mask & IN_CLOSE_WRITE) != 0) {
    news.deeds.emplace_back(name, Deed::kClosed);
  }
}

}  // namespace

Result<bool> DirectoryWatch::Refresh() {
  auto directory = sys::OpenAt(AT_FDCWD, path_, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  if (!directory) {
    directory_.Reset();
    Unfollow();
    return std::move(directory.error());
  }
  if (SameDirectory(directory_.get(), directory->get())) {
    if (follows()) return false;
  } else {
    Unfollow();
    directory_ = std::move(*directory);
  }
  Follow();
  return true;
}

void DirectoryWatch::Follow() {
  if (!inotify_) inotify_.Reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_) return;
  // By descriptor, so that what is watched is what is listed.
  const std::string opened = StrCat("/proc/self/fd/", directory_.get());
  watch_ = ::inotify_add_watch(inotify_.get(), opened.c_str(), kEvents);
}

void DirectoryWatch::Unfollow() {
  if (follows()) ::inotify_rm_watch(inotify_.get(), watch_);
  watch_ = -1;
}

DirectoryWatch::News DirectoryWatch::ReadEvents() {
  News news;
  alignas(inotify_event) std::array<char, 64 * 1024> buffer;
  for (;;) {
    const ssize_t n = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (n <= 0) return news;
    for (size_t at = 0; at < static_cast<size_t>(n);) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      Note(*event, news);
      at += sizeof(inotify_event) + event->len;
    }
  }
}

Result<ManifestTable::Sightings> DirectoryWatch::Look(const std::set<std::string>& files) const {
  ManifestTable::Sightings sightings;
  for (const std::string& name : files) {
    ASSIGN_OR_RETURN(sightings[name], StatManifest(directory_.get(), name));
  }
  return sightings;
}

Result<ManifestTable::Listing> DirectoryWatch::List() const {
  ManifestTable::Listing listing;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(directory_.get(), "."));
  for (const std::string& name : names) {
    if (!IsManifestName(name)) continue;
    ASSIGN_OR_RETURN(const std::optional<FileSignature> signature,
                     StatManifest(directory_.get(), name));
    if (!signature) continue;
    if (listing.size() == kMaxManifestFiles) {
      return Error(Code::kResourceExhausted,
                   StrCat(path_, ": more than ", kMaxManifestFiles, " manifests"));
    }
    listing.emplace(name, *signature);
  }
  return listing;
}

}  // namespace holdfast::agent
