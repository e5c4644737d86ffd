// SPDX-License-Identifier: Apache-2.0
// Pulls one image into a store, or pushes one out of it, for tests that bring the registry:
//   image_pull_driver STORE HOSTS_DIRECTORY REFERENCE [--login USER:PASSWORD] [--stall SECONDS]
//                     [--cancel-after MS] [--policy FILE] [--push DESTINATION]
// Prints "id …", "layer DIRECTORY", "size N"; of a push "digest …", "index …", "sent DIGEST STATE"; or
// the error's code and text, and exits with 1.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/thread.h"
#include "runtime/image/pull/registry_puller.h"
#include "runtime/image/push/registry_pusher.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {
namespace {

std::string Beside(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

int Complain(const Error& error) {
  std::printf("error %d %s\n", static_cast<int>(error.code()), error.message().c_str());
  return 1;
}

const char* StateName(PushedLayer::State state) {
  switch (state) {
    case PushedLayer::State::kWaiting:
      return "waiting";
    case PushedLayer::State::kUploading:
      return "uploading";
    case PushedLayer::State::kDone:
      return "done";
    case PushedLayer::State::kPresent:
      return "present";
    case PushedLayer::State::kMounted:
      return "mounted";
    case PushedLayer::State::kForeign:
      return "foreign";
  }
  return "?";
}

int Main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 4; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  ImageStoreOptions options;
  options.root = std::string(argv[1]) + "/images";
  options.aside = std::string(argv[1]) + "/aside";
  options.helper = Beside("holdfast-unpack");
  auto store = DiskImageStore::Open(options);
  if (!store) return Complain(store.error());
  PullerOptions puller_options;
  puller_options.helper = Beside("holdfast-fetch");
  puller_options.environment = ProxyEnvironment();
  puller_options.hosts_directory = argv[2];
  if (flags.contains("--policy")) {
    const auto text = sys::ReadFileAt(AT_FDCWD, flags["--policy"], 1 << 20);
    if (!text) return Complain(text.error());
    auto policy = SignaturePolicy::Parse(*text);
    if (!policy) return Complain(policy.error());
    puller_options.policy = std::move(*policy);
  }
  if (flags.contains("--stall")) {
    puller_options.stall = std::chrono::seconds(std::stoi(flags["--stall"]));
  }
  RegistryPuller puller(**store, puller_options);
  PullRequest request;
  request.reference = argv[3];
  const std::string login = flags["--login"];
  if (!login.empty()) {
    request.logins = [login](const std::string&) {
      const size_t colon = login.find(':');
      return std::vector{RegistryLogin{login.substr(0, colon), login.substr(colon + 1)}};
    };
  }
  const auto push = [&](const std::atomic<bool>& cancelled) {
    PusherOptions pusher_options;
    pusher_options.helper = puller_options.helper;
    pusher_options.environment = puller_options.environment;
    pusher_options.hosts_directory = puller_options.hosts_directory;
    if (flags.contains("--stall")) pusher_options.stall = puller_options.stall;
    RegistryPusher pusher(**store, pusher_options);
    PushProgress last;
    PushRequest outgoing{request.reference, flags["--push"], request.logins,
                         [&](const PushProgress& progress) { last = progress; }};
    auto pushed = pusher.Push(outgoing, cancelled);
    if (!pushed) return Complain(pushed.error());
    std::printf("digest %s\n", pushed->digest.c_str());
    if (pushed->index) std::printf("index %s\n", pushed->index->value.c_str());
    if (pushed->was_there) std::printf("there %s\n", pushed->name.c_str());
    for (const PushedLayer& layer : last.layers) {
      std::printf("sent %s %s %llu\n", layer.digest.c_str(), StateName(layer.state),
                  static_cast<unsigned long long>(layer.bytes));
    }
    return 0;
  };
  std::atomic<bool> cancelled = false;
  std::thread canceller;
  if (flags.contains("--cancel-after")) {
    auto thread = sys::StartThread("canceller", [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(flags["--cancel-after"])));
      cancelled = true;
    });
    if (!thread) return Complain(thread.error());
    canceller = std::move(*thread);
  }
  if (flags.contains("--push")) {
    const int code = push(cancelled);
    if (canceller.joinable()) canceller.join();
    return code;
  }
  auto pulled = puller.Pull(request, cancelled);
  if (canceller.joinable()) canceller.join();
  if (!pulled) return Complain(pulled.error());
  std::printf("id %s\nsize %llu\n", pulled->image.id.value.c_str(),
              static_cast<unsigned long long>(pulled->image.size_bytes));
  for (const std::string& name : pulled->image.repo_digests)
    std::printf("digest %s\n", name.c_str());
  for (const std::string& layer : pulled->image.layers) std::printf("layer %s\n", layer.c_str());
  return 0;
}

}  // namespace
}  // namespace holdfast::runtime

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return holdfast::runtime::Main(argc, argv);
}
