// SPDX-License-Identifier: Apache-2.0
// LoopDevice: a block device of the test's own, backed by a file without a name. It is detached at the latest with the object.
#pragma once

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "holdfast/base/unique_fd.h"

namespace holdfast::test_support {

class LoopDevice {
 public:
  // Null where this machine has no loop devices for us.
  static std::unique_ptr<LoopDevice> Make(const std::string& text = "", off_t bytes = 1 << 20) {
    std::string name = "/var/tmp/holdfast-loop-XXXXXX";
    UniqueFd file(::mkstemp(name.data()));
    if (!file) return nullptr;
    ::unlink(name.c_str());
    if (::ftruncate(file.get(), bytes) != 0) return nullptr;
    if (::pwrite(file.get(), text.data(), text.size(), 0) < 0) return nullptr;
    const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    loop_config config{};
    config.fd = static_cast<uint32_t>(file.get());
    // Somebody else may take the one that was free.
    for (int tries = 0; control && tries < 100; ++tries) {
      const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
      if (number < 0) break;
      std::string path = "/dev/loop" + std::to_string(number);
      UniqueFd device(::open(path.c_str(), O_RDWR | O_CLOEXEC));
      if (device && ::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
        return std::unique_ptr<LoopDevice>(
            new LoopDevice(number, std::move(path), std::move(file)));
      }
      if (errno != EBUSY) break;
    }
    return nullptr;
  }
  ~LoopDevice() { Detach(); }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;

  const std::string& path() const { return path_; }
  uint32_t major() const { return ::major(number_); }
  uint32_t minor() const { return ::minor(number_); }
  // Of what lies on it, once who wrote has closed it.
  std::string Text(size_t bytes) const {
    std::string text(bytes, '\0');
    const ssize_t n = ::pread(file_.get(), text.data(), bytes, 0);
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }
  // It goes with the last who has it open.
  void Detach() {
    if (std::exchange(detached_, true)) return;
    const UniqueFd device(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    if (device) (void)::ioctl(device.get(), LOOP_CLR_FD);
  }
  // Until then nobody else gets its number.
  bool IsAttached() const {
    const std::string backing = "/sys/block/loop" + std::to_string(index_) + "/loop/backing_file";
    return ::access(backing.c_str(), F_OK) == 0;
  }

 private:
  LoopDevice(int index, std::string path, UniqueFd file)
      : index_(index), path_(std::move(path)), file_(std::move(file)) {
    struct stat st{};
    if (::stat(path_.c_str(), &st) == 0) number_ = st.st_rdev;
  }

  const int index_;
  const std::string path_;
  const UniqueFd file_;
  dev_t number_ = 0;
  bool detached_ = false;
};

}  // namespace holdfast::test_support
