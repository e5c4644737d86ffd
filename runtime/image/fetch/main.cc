// SPDX-License-Identifier: Apache-2.0
// holdfast-fetch: speaks to registries so that the agent need not. Started per pull, with the proxy
// variables as its environment: fd 0 is the agent's socket (wire.h), 1 and 2 lead nowhere.
#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "holdfast/base/address_sanitizer.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/socket.h"
#include "runtime/image/fetch/fetch_cage.h"
#include "runtime/image/fetch/serve.h"
#include "runtime/image/wire/wire.h"

#if HOLDFAST_ADDRESS_SANITIZER
// The leak checker starts a thread and traces the process, which the cage forbids.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace holdfast::runtime::fetch {
namespace {

constexpr int kSocket = 0;
constexpr size_t kMaxAuthorities = 16 << 20;

// Where distributions keep the bundle; the first that is there.
constexpr const char* kBundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                    "/etc/ssl/cert.pem"};

// No bundle: only registries with authorities of their own, or without TLS, can be reached.
std::string SystemAuthorities() {
  if (const char* given = ::getenv("SSL_CERT_FILE")) {
    return sys::ReadFileAt(AT_FDCWD, given, kMaxAuthorities).value_or("");
  }
  for (const char* path : kBundles) {
    if (auto text = sys::ReadFileAt(AT_FDCWD, path, kMaxAuthorities)) return std::move(*text);
  }
  return {};
}

// What the libraries would load by path on first use.
void LoadLibraries() {
  ::OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CONFIG, nullptr);
  ::curl_global_init(CURL_GLOBAL_ALL);
}

int Main() {
  ::close_range(3, ~0U, 0);
  (void)::signal(SIGPIPE, SIG_IGN);  // an agent that went is seen by what is written
  const std::string authorities = SystemAuthorities();
  LoadLibraries();
  Result<void> result = EnterCage();
  if (result) result = Serve(kSocket, authorities);
  if (result) return 0;
  // An end with the id 0 is the helper's own.
  End end;
  end.error = result.error().message();
  (void)sys::SendPacket(kSocket, Encode(FieldsOf(end)));  // the exit code says it too
  return 1;
}

}  // namespace
}  // namespace holdfast::runtime::fetch

int main() {
  (void)holdfast::sys::ResetScheduling();  // unlike the agent, this is bulk work
  try {
    return holdfast::runtime::fetch::Main();
  } catch (const std::exception&) {
    return 2;  // out of memory, in practice: RLIMIT_AS
  }
}
