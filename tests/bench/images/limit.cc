// SPDX-License-Identifier: Apache-2.0
// bench_images_limit CA DIRECTORY URL…: what a pull cannot do without. Each gzip layer is fetched, inflated and
// unpacked into a directory of its own, three at a time: no hash, no cage, no process apart, no blob kept, no sync.
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/unpack/inflate.h"
#include "runtime/image/unpack/layer_unpacker.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

constexpr int kAtATime = 3;

struct Pipe {
  UniqueFd out, in;
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) Die("pipe");
    out = UniqueFd(fds[0]);
    in = UniqueFd(fds[1]);
    (void)::fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
  }
};

size_t OnBody(char* data, size_t size, size_t count, void* fd) {
  return sys::WriteAll(*static_cast<int*>(fd), {data, size * count}) ? size * count : 0;
}

void Fetch(const std::string& authorities, const std::string& url, int into) {
  CURL* const easy = ::curl_easy_init();
  ::curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(easy, CURLOPT_CAINFO, authorities.c_str());
  ::curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
  ::curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
  ::curl_easy_setopt(easy, CURLOPT_WRITEDATA, &into);
  const CURLcode code = ::curl_easy_perform(easy);
  if (code != CURLE_OK) Die(StrCat(url, ": ", ::curl_easy_strerror(code)));
  ::curl_easy_cleanup(easy);
}

void Unpack(const std::string& authorities, const std::string& url, const std::string& directory) {
  if (::mkdir(directory.c_str(), 0755) != 0) Die("mkdir " + directory);
  Pipe packed, plain;
  std::thread fetch([&] {
    Fetch(authorities, url, packed.in.get());
    packed.in.Reset();
  });
  std::thread inflate([&] {
    OrDie(runtime::unpack::InflateGzip(packed.out.get(), plain.in.get()));
    plain.in.Reset();
  });
  OrDie(runtime::unpack::UnpackLayer(plain.out.get(), OrDie(sys::OpenDir(directory)), {}));
  inflate.join();
  fetch.join();
}

int Main(const std::string& authorities, const std::string& directory,
         const std::vector<std::string>& urls) {
  ::umask(0);
  ::curl_global_init(CURL_GLOBAL_DEFAULT);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> workers;
  for (int i = 0; i < kAtATime; ++i) {
    workers.emplace_back([&] {
      for (size_t n = next++; n < urls.size(); n = next++)
        Unpack(authorities, urls[n], StrCat(directory, "/", n));
    });
  }
  for (std::thread& worker : workers) worker.join();
  return 0;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  if (argc < 4) holdfast::bench::Die("usage: bench_images_limit CA DIRECTORY URL…");
  return holdfast::bench::Main(argv[1], argv[2], {argv + 3, argv + argc});
}
