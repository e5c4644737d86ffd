// SPDX-License-Identifier: Apache-2.0
// ImageArchives: the images of a node without a registry. Archives of a directory are imported, at
// the start and when one appears whole, and their images stay as long as the archive lies there. One
// thread; inotify for speed, a look every minute for safety, the same function for both.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/events/event_sink.h"
#include "agent/image_archives/archive_records.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/image_store.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

// Borrowed, except what is a value.
struct ImageArchivesParts {
  std::string directory;  // made when it is not there
  ArchiveBook& book;
  ImageStore& images;
  std::string node_name;
  EventSink& events;
  std::function<bool()> make_room;              // whether any could be made
  std::function<void(const std::string&)> log;  // from any thread
};

class ImageArchives {
 public:
  explicit ImageArchives(ImageArchivesParts parts) : parts_(std::move(parts)) {}
  ~ImageArchives();
  ImageArchives(const ImageArchives&) = delete;
  ImageArchives& operator=(const ImageArchives&) = delete;

  // Begins, and ends with the object, which waits for an import that is under way.
  Result<void> Start(std::chrono::milliseconds period = std::chrono::minutes(1));

  // One look; for tests, and for the thread.
  void Look();

 private:
  void Follow();
  void Run(std::chrono::milliseconds period);
  Result<ArchiveFiles> List() const;
  void Import(const std::string& name, const ArchiveStamp& stamp);
  Result<std::vector<Image>> ImportFile(const std::string& name) const;
  void Fail(const std::string& name, const ArchiveStamp& stamp, const Error& error);
  void NoteWritten(const Result<void>& written) const;
  void Tell(bool warning, const std::string& reason, const std::string& message);

  const ImageArchivesParts parts_;
  std::string told_;  // why the directory cannot be looked at
  UniqueFd inotify_;
  bool follows_ = false;
  sys::Wakeup stop_;
  std::thread thread_;
};

}  // namespace holdfast::agent
