// SPDX-License-Identifier: Apache-2.0
#include "agent/http/serving_certificate.h"

#include <fcntl.h>
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <string_view>

#include "agent/http/cipher_suites.h"
#include "agent/http/self_signed.h"
#include "agent/openssl/openssl.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr char kOwnChain[] = "kubelet.crt", kOwnKey[] = "kubelet.key";
constexpr char kOwnTemporaries[] = "kubelet.";  // what a killed agent left of a key is no use
constexpr std::chrono::hours kOwnLife{365 * 24};
constexpr std::chrono::hours kOwnMargin{30 * 24};  // less than that left: made anew
constexpr size_t kMostOfAPair = 1u << 20;

// "http/1.1", as ALPN writes it.
constexpr unsigned char kProtocol[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// A client that offers other protocols only is served as well, without one being agreed on.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* offered, unsigned int offered_size, void*) {
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_size, kProtocol, sizeof kProtocol, offered, offered_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

// Whatever certificate a client shows, the handshake goes on: who he is, is decided request by request, against the
// authorities of that moment.
int TakeAnyClient(X509_STORE_CTX*, void*) { return 1; }

// No sessions and no tickets: a client proves each time who he is. No renegotiation: it is for free to ask for.
void SetProtocol(SSL_CTX* context, const ServingCertificateOptions& options) {
  SSL_CTX_set_min_proto_version(
      context, options.min_version == "VersionTLS13" ? TLS1_3_VERSION : TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context, TakeAnyClient, nullptr);
}

Result<void> SetClientAuthorities(SSL_CTX* context, const std::string& pem) {
  if (pem.empty()) return {};
  ASSIGN_OR_RETURN(const auto authorities, openssl::ReadCertificates(pem));
  for (const auto& one : authorities) SSL_CTX_add_client_CA(context, one.get());
  return {};
}

Result<void> SetCiphers(SSL_CTX* context, const std::vector<std::string>& suites) {
  if (suites.empty()) return {};
  ASSIGN_OR_RETURN(const std::string list, CipherList(suites));
  // Go's TLS 1.3 suites cannot be chosen either.
  if (!list.empty() && SSL_CTX_set_cipher_list(context, list.c_str()) != 1) {
    return openssl::LastError(StrCat("tlsCipherSuites ", list));
  }
  return {};
}

// Whether it changed.
Result<bool> ReadInto(ChangedFile& file, const char* setting, std::string& text) {
  if (file.path().empty()) return false;
  ASSIGN_OR_RETURN(auto fresh, WithContext(file.ReadIfChanged(), setting));
  if (!fresh) return false;
  text = std::move(*fresh);
  return true;
}

}  // namespace

Result<std::shared_ptr<ssl::context>> MakeServerContext(const ServingCertificateOptions& options,
                                                        const KeyPair& pair,
                                                        const std::string& client_ca_pem) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = context->native_handle();
  SetProtocol(native, options);
  RETURN_IF_ERROR(SetCiphers(native, options.cipher_suites));
  RETURN_IF_ERROR(WithContext(SetClientAuthorities(native, client_ca_pem), "clientCAFile"));
  error_code error;
  // (Both return nothing but `error`.)
  (void)context->use_certificate_chain(asio::buffer(pair.chain_pem), error);
  if (error) return InvalidArgument(StrCat("serving certificate: ", error.message()));
  (void)context->use_private_key(asio::buffer(pair.key_pem), ssl::context::pem, error);
  if (error) return InvalidArgument(StrCat("key of the serving certificate: ", error.message()));
  if (SSL_CTX_check_private_key(native) != 1) {
    return openssl::LastError("the serving certificate and its key");
  }
  return context;
}

ServingCertificate::ServingCertificate(ServingCertificateOptions options)
    : options_(std::move(options)),
      cert_(options_.cert_file),
      key_(options_.key_file),
      client_ca_(options_.client_ca_file) {}

Result<std::unique_ptr<ServingCertificate>> ServingCertificate::Open(
    ServingCertificateOptions options) {
  std::unique_ptr<ServingCertificate> made(new ServingCertificate(std::move(options)));
  RETURN_IF_ERROR(made->Read());
  if (made->options_.cert_file.empty()) RETURN_IF_ERROR(made->OpenOwn());
  return made;
}

// The one that was kept, or another one when that is not good any more.
Result<void> ServingCertificate::OpenOwn() {
  ASSIGN_OR_RETURN(const DirFd directory, sys::MakeDirs(AT_FDCWD, options_.directory, 0700));
  RETURN_IF_ERROR(
      sys::RemoveTemporariesAt(directory.get(), ".", sys::Writer::kAny, kOwnTemporaries));
  auto chain = sys::ReadFileAt(directory.get(), kOwnChain, kMostOfAPair);
  auto key = sys::ReadFileAt(directory.get(), kOwnKey, kMostOfAPair);
  KeyPair pair;
  if (chain && key) pair = {std::move(*chain), std::move(*key)};
  if (!IsUsable(pair, kOwnMargin)) {
    ASSIGN_OR_RETURN(pair, MakeSelfSigned(options_.names, kOwnLife));
    // Of a pair that is cut short nothing is used.
    RETURN_IF_ERROR(sys::WriteFileAtomicAt(directory.get(), kOwnKey, pair.key_pem, 0600));
    RETURN_IF_ERROR(sys::WriteFileAtomicAt(directory.get(), kOwnChain, pair.chain_pem, 0644));
  }
  return Replace(pair.chain_pem, pair.key_pem);
}

// What changed of the files. A pair of which one half is there only is not used, and the next look finds the other.
Result<void> ServingCertificate::Read() {
  const std::lock_guard lock(changing_);
  ASSIGN_OR_RETURN(const bool cert, ReadInto(cert_, "tlsCertFile", pair_.chain_pem));
  ASSIGN_OR_RETURN(const bool key, ReadInto(key_, "tlsPrivateKeyFile", pair_.key_pem));
  ASSIGN_OR_RETURN(const bool client_ca, ReadInto(client_ca_, "clientCAFile", authorities_));
  const bool changed = cert || key || client_ca;
  return changed && !pair_.chain_pem.empty() ? Use(pair_) : Result<void>();
}

Result<void> ServingCertificate::Replace(const std::string& chain_pem, const std::string& key_pem) {
  const std::lock_guard lock(changing_);
  return Use({chain_pem, key_pem});
}

Result<void> ServingCertificate::Use(KeyPair pair) {  // changing_ held
  ASSIGN_OR_RETURN(auto context, MakeServerContext(options_, pair, authorities_));
  pair_ = std::move(pair);
  const std::lock_guard lock(mutex_);
  context_ = std::move(context);
  return {};
}

void ServingCertificate::Refresh() {
  const auto read = Read();
  const std::string trouble = read ? "" : read.error().message();
  const std::lock_guard lock(changing_);
  if (!trouble.empty() && trouble != trouble_ && options_.log) options_.log(trouble);
  trouble_ = trouble;
}

std::shared_ptr<ssl::context> ServingCertificate::Context() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

}  // namespace holdfast::agent
