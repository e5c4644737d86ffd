// SPDX-License-Identifier: Apache-2.0
#include "agent/image_archives/image_archives.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

// A file is whole when it was closed or renamed.
constexpr uint32_t kArchiveEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;
constexpr size_t kMostArchives = 10'000;
constexpr std::chrono::milliseconds kUnfollowedPeriod{1'000};

ArchiveStamp StampOf(const struct stat& st) {
  return {st.st_ino, st.st_size, st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec};
}

// The kernel grants a lease to read only while nobody has the file open for writing. Who opens it so
// at that moment has us told by a signal, SIGIO by itself, which would end the agent; SIGURG is
// ignored.
bool IsBeingWritten(int fd) {
  if (::fcntl(fd, F_SETSIG, SIGURG) != 0 || ::fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
    return errno == EAGAIN;
  }
  (void)::fcntl(fd, F_SETLEASE, F_UNLCK);
  return false;
}

// Whether it can only go when the file is another, or the policy, which this agent has read.
bool IsOfTheFile(const Error& error) {
  const Code code = error.code();
  return code == Code::kInvalidArgument || code == Code::kUnsupported || code == Code::kNotFound ||
         code == Code::kPermissionDenied;
}

std::string NamesOf(const std::vector<Image>& images) {
  std::string names;
  for (const Image& image : images) {
    for (const std::string& name : image.repo_tags) names += (names.empty() ? "" : ", ") + name;
    if (image.repo_tags.empty()) names += (names.empty() ? "" : ", ") + image.id.value;
  }
  return names;
}

}  // namespace

ImageArchives::~ImageArchives() {
  if (stop_.valid()) stop_.Set();
  if (thread_.joinable()) thread_.join();
}

Result<void> ImageArchives::Start(std::chrono::milliseconds period) {
  RETURN_IF_ERROR(WithContext(sys::MakeDirs(AT_FDCWD, parts_.directory, 0755), "imageDir"));
  ASSIGN_OR_RETURN(stop_, sys::Wakeup::Make());
  ASSIGN_OR_RETURN(thread_, sys::StartThread("image-archives", [this, period] { Run(period); }));
  return {};
}

// A container of this user can have taken all that the kernel gives it of inotify: then the directory is looked at more
// often, until there is some.
void ImageArchives::Follow() {
  if (!inotify_) inotify_.Reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  follows_ = inotify_.valid() && ::inotify_add_watch(inotify_.get(), parts_.directory.c_str(),
                                                     kArchiveEvents | IN_ONLYDIR) >= 0;
}

void ImageArchives::Run(std::chrono::milliseconds period) {
  std::array<char, 16 * 1024> buffer{};
  for (;;) {
    if (!follows_) Follow();
    Look();
    std::array<pollfd, 2> fds = {{{stop_.fd(), POLLIN, 0}, {inotify_.get(), POLLIN, 0}}};
    const auto wait = follows_ ? period : std::min(period, kUnfollowedPeriod);
    (void)::poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
    if (fds[0].revents != 0) return;
    // Only that something happened counts.
    while (::read(inotify_.get(), buffer.data(), buffer.size()) > 0) {
    }
  }
}

void ImageArchives::Look() {
  const auto files = List();
  if (!files) {
    if (std::exchange(told_, files.error().message()) != files.error().message()) {
      Tell(true, "ImageImportFailed", files.error().message());
    }
    return;  // what was there before stays pinned
  }
  told_.clear();
  NoteWritten(parts_.book.Retain(*files));
  const auto is_here = [this](const Digest& id) { return parts_.images.Get(id.value).has_value(); };
  for (const std::string& name : ArchivesToImport(*files, parts_.book.records(), is_here)) {
    Import(name, files->at(name));
  }
}

Result<ArchiveFiles> ImageArchives::List() const {
  const std::string what = "imageDir " + parts_.directory;
  auto directory = WithContext(sys::OpenDir(parts_.directory), what);
  if (!directory) return std::move(directory.error());
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   WithContext(sys::ListDirAt(directory->get(), "."), what));
  if (names.size() > kMostArchives) {
    return Error(Code::kResourceExhausted,
                 StrCat(what, ": ", names.size(), " files, the limit is ", kMostArchives));
  }
  ArchiveFiles files;
  for (const std::string& name : names) {
    struct stat st{};
    if (!IsArchiveName(name) || ::fstatat(directory->get(), name.c_str(), &st, 0) != 0) continue;
    if (!S_ISDIR(st.st_mode)) files.emplace(name, StampOf(st));
  }
  return files;
}

void ImageArchives::Import(const std::string& name, const ArchiveStamp& stamp) {
  auto added = ImportFile(name);
  if (!added && added.error().sys_errno() == ENOSPC && parts_.make_room()) {
    added = ImportFile(name);
  }
  if (!added) {
    const bool passing =
        added.error().code() == Code::kConflict || added.error().sys_errno() == ENOENT;
    if (!passing) Fail(name, stamp, added.error());
    return;
  }
  HOLDFAST_PAUSE_POINT("images.archive-imported");
  std::vector<Digest> ids;
  for (const Image& image : *added) ids.push_back(image.id);
  NoteWritten(parts_.book.NoteImported(name, stamp, std::move(ids)));
  HOLDFAST_PAUSE_POINT("images.archive-recorded");
  Tell(false, "ImageImported",
       StrCat("Imported image archive ", parts_.directory, "/", name, ": ", NamesOf(*added)));
}

// kConflict: it is being written, ENOENT: it has gone; both will be an event.
Result<std::vector<Image>> ImageArchives::ImportFile(const std::string& name) const {
  ASSIGN_OR_RETURN(const DirFd directory, sys::OpenDir(parts_.directory));
  ASSIGN_OR_RETURN(const UniqueFd file,
                   sys::OpenAt(directory.get(), name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  struct stat st{};
  if (::fstat(file.get(), &st) != 0) return Error::FromErrno(errno, "stat " + name);
  if (!S_ISREG(st.st_mode)) return InvalidArgument("no regular file");
  if (IsBeingWritten(file.get())) return Conflict("being written");
  return parts_.images.Import(file.get(), {});
}

// Once for each reason and each state of the file.
void ImageArchives::Fail(const std::string& name, const ArchiveStamp& stamp, const Error& error) {
  if (!parts_.book.NoteFailure(name, stamp, error.message(), IsOfTheFile(error))) return;
  Tell(true, "ImageImportFailed",
       StrCat("Failed to import image archive ", parts_.directory, "/", name, ": ",
              error.message()));
}

void ImageArchives::NoteWritten(const Result<void>& written) const {
  if (written) return;
  parts_.log(StrCat("records of image archives: ", written.error().message(), ", ignoring"));
}

void ImageArchives::Tell(bool warning, const std::string& reason, const std::string& message) {
  parts_.log(message);
  parts_.events.AddEvent(NodeSubject(parts_.node_name), {warning, reason, message, "", false});
}

}  // namespace holdfast::agent
