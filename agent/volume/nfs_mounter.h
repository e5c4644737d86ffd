// SPDX-License-Identifier: Apache-2.0
// NfsMounter: directories of NFS servers, mounted and unmounted by the node's own programs, mount(8) with mount.nfs(8) of
// nfs-common, and umount(8): they resolve names, settle the protocol's version and its transport, and start what locks need.
// A server may never answer. So whatever could wait for one is done by a process that is killed when its time is up, and no
// call here looks into a mount by itself. Thread-safe.
// Source: mount(8), umount(8), mount.nfs(8), nfs(5).
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

struct BoundedProgram;

// What is run, and how long it may take.
struct NfsPrograms {
  std::string mount = "mount";
  std::string umount = "umount";
  std::string stat = "stat";  // of coreutils
  std::string helper =
      "/sbin/mount.nfs";      // what `mount` runs; asked for before it, because it says less
  std::string owner = "nfs";  // by which a later agent knows what it was killed with
  std::chrono::milliseconds mounted{180'000};  // mount.nfs itself gives up after two minutes
  std::chrono::milliseconds unmounted{30'000};
  std::chrono::milliseconds answered{10'000};
  std::chrono::milliseconds patience{
      60'000};  // with processes that were killed and wait for a server
  std::chrono::milliseconds given_up{3'000};  // for each program that ends that
};

struct NfsSource {
  std::string server;  // a name or an address
  std::string path;
  std::vector<std::string> options;  // of the PersistentVolume
  bool read_only = false;
};

class NfsMounter {
 public:
  static Result<std::unique_ptr<NfsMounter>> Make(NfsPrograms programs = {});
  // Ends what runs for it; afterwards everything fails.
  void Stop() { stop_.Set(); }

  // Makes the directory `path` and mounts there, unless something is. Nothing is left when it fails. Ends soon when
  // `cancelled`. The error is a kubelet's.
  Result<void> Mount(const NfsSource& source, const std::string& path,
                     const std::atomic<bool>& cancelled);
  // Lazily: it is off the tree at once, whoever still waits for its server. Then the directory is removed. Idempotent.
  Result<void> Unmount(const std::string& path);
  // To be called again and again while processes that use it were killed and do not end: the kernel first writes what they
  // wrote. After a minute, when its server does not answer, that fails for whoever waits for the server at that moment. True
  // when that was done now.
  bool GiveUpWaiting(const std::string& path);
  // Fails when the server of what is mounted there does not answer now.
  Result<void> Answers(const std::string& path, const std::atomic<bool>& cancelled);

 private:
  NfsMounter(NfsPrograms programs, sys::Wakeup stop)
      : programs_(std::move(programs)), stop_(std::move(stop)) {}
  Result<void> EndFormer();
  BoundedProgram Program(const std::string& command, std::vector<std::string> args) const;
  BoundedProgram StatOf(const std::string& path) const;
  Result<void> RunMount(const NfsSource& source, const std::string& path,
                        const std::atomic<bool>& cancelled);
  Result<void> UnmountAll(const std::string& path);

  const NfsPrograms programs_;
  const sys::Wakeup stop_;
  std::mutex mutex_;
  bool former_ended_ = false;
  std::map<std::string, std::chrono::steady_clock::time_point> waiting_;  // until when, by path
};

}  // namespace holdfast::agent
