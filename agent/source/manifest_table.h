// SPDX-License-Identifier: Apache-2.0
// ManifestTable: what is known of each file, and the decision what to do about it. Pure but for its
// own state: no I/O, no clock; tested by tables. Single-thread.
//
//   a file is read   when its signature is new and it was renamed in, or has been the same for
//                    `quiet` and nobody is writing it (or its last change is that long ago)
//   a file is gone   when it has been away for `quiet`, so that an editor's delete-and-create is
//                    one change
//   a bad version    leaves the pods of the last good one, with the reason beside them
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/source/keys_in_use.h"
#include "agent/source/manifest_file.h"
#include "agent/source/pod_source.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

class ManifestTable {
 public:
  struct Moment {
    BootTime boot;
    WallTime wall;
  };
  using Listing = std::map<std::string, FileSignature>;  // manifest files that are there
  using Sightings = std::map<std::string, std::optional<FileSignature>>;  // nullopt: is not there

  struct Plan {
    Listing read;                        // answer each with Loaded or Failed
    std::optional<BootTime> look_again;  // when something becomes quiet
  };

  explicit ManifestTable(std::chrono::nanoseconds quiet);

  // From inotify; all concern the next observation.
  void NoteRenamedIn(const std::string& name);
  // Made, or (`open`) written to; until it is closed.
  void NoteWriting(const std::string& name, bool open, BootTime now);
  void NoteClosed(const std::string& name);
  // We ourselves have put it into its place, or removed it: there is nothing to wait for.
  void NoteEdited(const std::string& name);

  // Every file of the directory.
  Plan Observe(const Listing& listing, const Moment& now);
  // Some of them; the others are as they were. Costs what it names, and what is not settled yet.
  Plan ObserveSome(const Sightings& some, const Moment& now);
  // `objects` of the version with this signature.
  void Loaded(const std::string& name, const FileSignature& signature, FileObjects objects,
              const Moment& now);
  // It could not be read.
  void Failed(const std::string& name, const FileSignature& signature, const std::string& why,
              const Moment& now);
  // The directory itself; "" when it is well.
  void NoteDirectory(const std::string& why, const Moment& now);

  // The objects and errors of all files; `complete` and `generation` are the caller's. After new
  // versions of objects that were there before it costs little more than a copy of pointers.
  PodSnapshot Build();
  size_t size() const { return entries_.size(); }

 private:
  struct Message {
    std::string text;
    WallTime since;
  };
  struct Entry {
    Origin origin;                        // once it has objects
    std::optional<FileSignature> seen;    // last observed
    BootTime seen_since;                  // with this signature
    std::optional<FileSignature> loaded;  // what the objects or `error` come from
    std::optional<BootTime> gone_since;
    std::optional<BootTime> writing_since;
    bool renamed_in = false;
    bool edited = false;
    WallTime read_at;        // the version that the objects are from
    bool last_good = false;  // the objects are older than `loaded`
    std::vector<std::shared_ptr<const corev1::Pod>> pods;
    std::vector<std::shared_ptr<const corev1::Service>> services;
    std::vector<std::shared_ptr<const discoveryv1::EndpointSlice>> slices;
    std::vector<ConfigObjectPtr> configs;
    Message error;
    std::string content;  // of the version that `error` is about
    bool valid = true;    // that version
    // Of the first of each in what was built.
    size_t pod_at = 0;
    size_t service_at = 0;
    size_t slice_at = 0;
    size_t config_at = 0;
  };

  void See(const std::string& name, const std::optional<FileSignature>& signature, BootTime now);
  Plan Settle(const Moment& now);
  // True when nothing more is to be decided about it.
  bool SettleGone(const std::string& name, Entry& entry, const Moment& now, Plan& plan);
  bool IsReady(const Entry& entry, const Moment& now, Plan& plan) const;
  void SetError(Message& message, const std::string& text, WallTime now);
  void BuildAll();

  std::chrono::nanoseconds quiet_;
  std::map<std::string, Entry> entries_;
  std::set<std::string> unsettled_;  // a version that is not loaded, or gone a moment ago
  KeysInUse keys_;                   // names and UIDs of all objects
  PodSnapshot built_;
  bool rebuild_ = true;            // not only objects in place of others
  std::set<std::string> renewed_;  // files of which objects have taken the place of others
  Message directory_;
};

}  // namespace holdfast::agent
