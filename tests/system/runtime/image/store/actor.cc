// SPDX-License-Identifier: Apache-2.0
// One action on an image store in a process of its own, for kill_test.cc to kill:
//   test-image-actor ROOT HELPER import ARCHIVE | remove NAME | use NAME | drop-partial all
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "holdfast/sys/files.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {
namespace {

Result<void> Act(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4)
    return InvalidArgument("usage: ROOT HELPER import ARCHIVE | remove NAME | use NAME | …");
  ImageStoreOptions options;
  options.root = arguments[0];
  options.helper = arguments[1];
  options.limits.reserve = {{0, 0}, {0, 0}};  // a full disk is no matter of these tests
  ASSIGN_OR_RETURN(const auto store, DiskImageStore::Open(std::move(options)));
  if (arguments[2] == "remove") return store->Remove(arguments[3]);
  if (arguments[2] == "use") {
    ASSIGN_OR_RETURN(const Image image, store->Get(arguments[3]));
    return store->NoteUse({image.id}, {std::chrono::seconds(1'000'000'000)});
  }
  if (arguments[2] == "drop-partial") {
    RETURN_IF_ERROR(store->RemovePartial(std::chrono::seconds(0)));
    return {};
  }
  ASSIGN_OR_RETURN(const UniqueFd archive, sys::OpenAt(AT_FDCWD, arguments[3], O_RDONLY));
  ASSIGN_OR_RETURN(const auto added, store->Import(archive.get(), {}));
  return {};
}

}  // namespace
}  // namespace holdfast::runtime

int main(int argc, char** argv) {
  const auto done = holdfast::runtime::Act({argv + 1, argv + argc});
  if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
