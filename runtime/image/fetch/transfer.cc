// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/fetch/transfer.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/image/fetch/challenge.h"

namespace holdfast::runtime::fetch {
namespace {

static_assert(CURL_ERROR_SIZE == 256);
constexpr long kFirstByteSeconds = 3600;  // the agent's stall limits end it long before
constexpr long kUploadPiece = 512 << 10;

curl_blob Blob(const std::string& text) {
  return {const_cast<char*>(text.data()), text.size(), CURL_BLOB_NOCOPY};
}

// "bytes 100-199/200"; -1 when it says nothing of the kind.
int64_t OffsetOf(std::string_view range) {
  constexpr std::string_view kUnit = "bytes ";
  if (!range.starts_with(kUnit)) return -1;
  range.remove_prefix(kUnit.size());
  int64_t offset = -1;
  const auto [end, code] = std::from_chars(range.data(), range.data() + range.size(), offset);
  const bool usable = code == std::errc() && end != range.data() + range.size() && *end == '-';
  return usable ? offset : -1;
}

// What a Location means to who asked for `url`; "" for what is no URL.
std::string Resolved(const char* url, const std::string& location) {
  CURLU* const parsed = ::curl_url();
  char* text = nullptr;
  std::string resolved;
  if (parsed != nullptr &&
      ::curl_url_set(parsed, CURLUPART_URL, url, CURLU_PATH_AS_IS) == CURLUE_OK &&
      ::curl_url_set(parsed, CURLUPART_URL, location.c_str(), CURLU_PATH_AS_IS) == CURLUE_OK &&
      ::curl_url_get(parsed, CURLUPART_URL, &text, 0) == CURLUE_OK) {
    resolved = text;
  }
  ::curl_free(text);
  ::curl_url_cleanup(parsed);
  return resolved;
}

bool IsTrustFailure(int code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_ISSUER_ERROR;
}

}  // namespace

Transfer::Transfer(Request request, UniqueFd pipe, UniqueFd upload,
                   const std::string& system_authorities, std::function<void(const Fields&)> tell)
    : request_(std::move(request)),
      pipe_(std::move(pipe)),
      upload_(std::move(upload)),
      tell_(std::move(tell)),
      authorities_(StrCat(system_authorities, "\n", request_.trust.authorities)),
      easy_(::curl_easy_init()) {
  // A pipe takes these flags always.
  (void)::fcntl(pipe_.get(), F_SETFL, O_NONBLOCK | O_WRONLY);
  SetUp();
  SetBody();
  SetTrust();
  SetLimits();
}

Transfer::~Transfer() {
  ::curl_easy_cleanup(easy_);
  ::curl_slist_free_all(static_cast<curl_slist*>(headers_));
}

void Transfer::SetUp() {
  CURL* const easy = easy_;
  ::curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
  ::curl_easy_setopt(easy, CURLOPT_URL, request_.url.c_str());
  ::curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // With TLS one connection carries all downloads from a host that speaks HTTP/2: who comes while it is
  // set up waits for it. Uploads have one each.
  ::curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                     upload_ ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS);
  ::curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
  ::curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);  // the agent says where to go
  ::curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  ::curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  ::curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_);
  ::curl_easy_setopt(easy, CURLOPT_USERAGENT, "holdfast");
  if (request_.method == "HEAD") ::curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  curl_slist* list = nullptr;
  for (const std::string& header : request_.headers) {
    list = ::curl_slist_append(list, header.c_str());
  }
  headers_ = list;
  ::curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
  ::curl_easy_setopt(easy, CURLOPT_HEADEROPT, static_cast<long>(CURLHEADER_SEPARATE));
  ::curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  ::curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  ::curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::OnHeader);
  ::curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
}

void Transfer::SetBody() {
  CURL* const easy = easy_;
  if (upload_) {
    ::curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    ::curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE,
                       static_cast<curl_off_t>(request_.upload_bytes));
    ::curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kUploadPiece);
    ::curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Transfer::OnUpload);
    ::curl_easy_setopt(easy, CURLOPT_READDATA, this);
    ::curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &Transfer::OnSeek);
    ::curl_easy_setopt(easy, CURLOPT_SEEKDATA, this);
  } else if (request_.method == "POST" || request_.method == "PUT") {
    ::curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(request_.body.size()));
    ::curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.body.c_str());
    ::curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  }
}

void Transfer::SetTrust() {
  CURL* const easy = easy_;
  ::curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  ::curl_easy_setopt(easy, CURLOPT_CAINFO, nullptr);
  ::curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  const curl_blob authorities = Blob(authorities_);
  ::curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &authorities);
  ::curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO_BLOB, &authorities);
  const Trust& trust = request_.trust;
  ::curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, trust.verify ? 1L : 0L);
  ::curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, trust.verify ? 2L : 0L);
  if (trust.certificate.empty()) return;
  const curl_blob certificate = Blob(trust.certificate);
  const curl_blob key = Blob(trust.key.empty() ? trust.certificate : trust.key);
  ::curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, &certificate);
  ::curl_easy_setopt(easy, CURLOPT_SSLKEY_BLOB, &key);
}

void Transfer::SetLimits() {
  CURL* const easy = easy_;
  ::curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_ms));
  ::curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request_.total_ms));
  ::curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(request_.slow_bytes));
  ::curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request_.slow_seconds));
  ::curl_easy_setopt(easy, CURLOPT_SERVER_RESPONSE_TIMEOUT, kFirstByteSeconds);
}

size_t Transfer::OnHeader(char* /*data*/, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.moved_ = std::chrono::steady_clock::now();
  transfer.header_bytes_ += size * count;
  transfer.too_many_headers_ = transfer.header_bytes_ > kMaxHeaderBytes;
  return transfer.too_many_headers_ ? 0 : size * count;
}

size_t Transfer::OnUpload(char* data, size_t size, size_t count, void* self) {
  const auto& transfer = *static_cast<Transfer*>(self);
  ssize_t n = 0;
  do {
    n = ::read(transfer.upload_.get(), data, size * count);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? CURL_READFUNC_ABORT : static_cast<size_t>(n);
}

// A connection that was kept too long is found dead after its first bytes: they go once more.
int Transfer::OnSeek(void* self, int64_t offset, int from) {
  const auto& transfer = *static_cast<Transfer*>(self);
  return ::lseek(transfer.upload_.get(), offset, from) < 0 ? CURL_SEEKFUNC_FAIL : CURL_SEEKFUNC_OK;
}

// All of a piece is taken, or none of it: what the pipe does not take at once is kept.
size_t Transfer::OnBody(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.moved_ = std::chrono::steady_clock::now();
  transfer.TellHead();
  if (!transfer.Flush()) return 0;
  if (!transfer.rest_.empty()) {
    transfer.paused_ = true;
    return CURL_WRITEFUNC_PAUSE;
  }
  transfer.rest_.assign(data, size * count);
  return transfer.Flush() ? size * count : 0;
}

bool Transfer::Flush() {
  size_t done = 0;
  while (done < rest_.size()) {
    const ssize_t n = ::write(pipe_.get(), rest_.data() + done, rest_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return false;
    done += static_cast<size_t>(n);
  }
  rest_.erase(0, done);
  return true;
}

int Transfer::Socket() const {
  curl_socket_t socket = CURL_SOCKET_BAD;
  ::curl_easy_getinfo(easy_, CURLINFO_ACTIVESOCKET, &socket);
  return socket;
}

bool Transfer::MovedWithin(std::chrono::seconds time) const {
  return paused_ || std::chrono::steady_clock::now() - moved_ < time;
}

bool Transfer::OnRoom() {
  if (!Flush()) return false;
  if (!rest_.empty()) return true;
  if (ended_) {
    pipe_.Reset();
  } else if (std::exchange(paused_, false)) {
    ::curl_easy_pause(easy_, CURLPAUSE_CONT);
  }
  return true;
}

void Transfer::OnEnd(int code) {
  TellHead();
  TellEnd(code);
  ended_ = true;
  if (!Flush()) rest_.clear();
  if (rest_.empty()) pipe_.Reset();
}

// libcurl keeps the first text of a transfer. That of a connection which its host has closed while libcurl asks whose it
// is says nothing of why, and the alert that comes after it is not told. TLS 1.3 servers close so when they miss a
// client's certificate: for the client the handshake is over by then.
std::string Transfer::Reason(int code) const {
  const std::string_view said(error_);
  const char* const general = ::curl_easy_strerror(static_cast<CURLcode>(code));
  if (said.starts_with("getpeername() failed") || said.starts_with("getsockname() failed")) {
    const bool secure = request_.url.starts_with("https:");
    return StrCat(general, ": the host closed the connection as soon as it was made",
                  secure ? "; perhaps it wants a client certificate" : "");
  }
  return said.empty() ? std::string(general) : std::string(said);
}

std::string Transfer::HeaderOf(const char* name) const {
  curl_header* header = nullptr;
  const CURLHcode code = ::curl_easy_header(easy_, name, 0, CURLH_HEADER, -1, &header);
  return code == CURLHE_OK ? header->value : "";
}

std::string Transfer::Location() const {
  char* redirect = nullptr;
  ::curl_easy_getinfo(easy_, CURLINFO_REDIRECT_URL, &redirect);
  if (redirect != nullptr) return redirect;
  const std::string location = HeaderOf("location");
  return location.empty() ? "" : Resolved(request_.url.c_str(), location);
}

void Transfer::ReadChallenges(Head& head) const {
  curl_header* header = nullptr;
  for (size_t i = 0; head.challenges.size() < kMaxChallenges; ++i) {
    const CURLHcode code =
        ::curl_easy_header(easy_, "www-authenticate", i, CURLH_HEADER, -1, &header);
    if (code != CURLHE_OK) return;
    for (Challenge& challenge : ParseChallenges(header->value)) {
      head.challenges.push_back(std::move(challenge));
    }
  }
}

void Transfer::TellHead() {
  if (std::exchange(head_told_, true)) return;
  long status = 0;
  curl_off_t length = -1;
  ::curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  ::curl_easy_getinfo(easy_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  Head head;
  head.id = request_.id;
  head.status = status;
  head.length = length;
  head.offset = OffsetOf(HeaderOf("content-range"));
  head.content_type = HeaderOf("content-type");
  head.digest = HeaderOf("docker-content-digest");
  head.retry_after = HeaderOf("retry-after");
  if (status == 401) ReadChallenges(head);
  tell_(FieldsOf(head));
}

void Transfer::TellEnd(int code) {
  End end;
  end.id = request_.id;
  end.certificate = IsTrustFailure(code);
  if (code != CURLE_OK) {
    end.error = Reason(code);
  }
  if (too_many_headers_) end.error = StrCat("more than ", kMaxHeaderBytes, " bytes of headers");
  end.location = Location();
  tell_(FieldsOf(end));
}

}  // namespace holdfast::runtime::fetch
