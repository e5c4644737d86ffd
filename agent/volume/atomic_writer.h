// SPDX-License-Identifier: Apache-2.0
// A directory whose files change all at once, laid out as a kubelet's:
//
//   ..2026_11_22_14_10_21.384112907/key    the files, with the directories in their paths
//   ..data -> ..2026_11_22_14_10_21.384112907
//   key -> ..data/key                     one link per first part of a path
//
// New content is a new directory; a rename over ..data is the moment at which it shows. What is there already is not
// written again. Killed at any instruction, a call leaves the old or the new content, whole; the next call finishes it.
// Everything is reached by descriptor and no link in the directory is followed. Not thread-safe for one directory.
#pragma once

#include <string>

#include "agent/volume/volume_file.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Makes the directory `name` of `parent` show exactly `content`. With a group everything belongs to it and is readable
// for it. kInvalidArgument for a path that a volume may not have; then nothing is changed.
Result<void> WriteAtomically(int parent, const std::string& name, const VolumeContent& content);

// Whether a file of a volume may be called that, in a kubelet's words. Pure.
Result<void> CheckVolumePath(const std::string& path);

}  // namespace holdfast::agent
