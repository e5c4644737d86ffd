// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/wire/spdy_headers.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <utility>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

// An 8 KiB window and small tables: a connection has few and short headers.
constexpr int kWindowBits = 11;
constexpr int kMemoryLevel = 1;

std::string Number(size_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

std::string Counted(std::string_view text) { return StrCat(Number(text.size()), text); }

constexpr const char* kDictionaryWords[] = {"options",
                                            "head",
                                            "post",
                                            "put",
                                            "delete",
                                            "trace",
                                            "accept",
                                            "accept-charset",
                                            "accept-encoding",
                                            "accept-language",
                                            "accept-ranges",
                                            "age",
                                            "allow",
                                            "authorization",
                                            "cache-control",
                                            "connection",
                                            "content-base",
                                            "content-encoding",
                                            "content-language",
                                            "content-length",
                                            "content-location",
                                            "content-md5",
                                            "content-range",
                                            "content-type",
                                            "date",
                                            "etag",
                                            "expect",
                                            "expires",
                                            "from",
                                            "host",
                                            "if-match",
                                            "if-modified-since",
                                            "if-none-match",
                                            "if-range",
                                            "if-unmodified-since",
                                            "last-modified",
                                            "location",
                                            "max-forwards",
                                            "pragma",
                                            "proxy-authenticate",
                                            "proxy-authorization",
                                            "range",
                                            "referer",
                                            "retry-after",
                                            "server",
                                            "te",
                                            "trailer",
                                            "transfer-encoding",
                                            "upgrade",
                                            "user-agent",
                                            "vary",
                                            "via",
                                            "warning",
                                            "www-authenticate",
                                            "method",
                                            "get",
                                            "status",
                                            "200 OK",
                                            "version",
                                            "HTTP/1.1",
                                            "url",
                                            "public",
                                            "set-cookie",
                                            "keep-alive",
                                            "origin"};

// Section 2.6.10.1: names with their lengths, then values as they are likely to come.
std::string MakeDictionary() {
  std::string out;
  for (const char* word : kDictionaryWords) out += Counted(word);
  return out +
         "10010120120220520630030230330430530630740240540640740840941041141241341441541641750250450"
         "5"
         "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 "
         "Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 "
         "Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
         "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
         "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
         "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
}

const std::string& Dictionary() {
  static const std::string kDictionary = MakeDictionary();
  return kDictionary;
}

const Bytef* BytesOf(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

// Cuts counted texts off the front of a block.
class BlockReader {
 public:
  explicit BlockReader(std::string_view block) : rest_(block) {}
  Result<size_t> Size() {
    if (rest_.size() < 4) return InvalidArgument("SPDY headers: cut short");
    size_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(4);
    return value;
  }
  Result<std::string> Text() {
    ASSIGN_OR_RETURN(const size_t size, Size());
    if (size > rest_.size())
      return InvalidArgument("SPDY headers: a text is longer than its block");
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view rest_;
};

}  // namespace

struct SpdyHeaderReader::State {
  z_stream stream{};
  bool ready = ::inflateInit(&stream) == Z_OK;
  State() = default;
  State(const State&) = delete;
  ~State() {
    if (ready) ::inflateEnd(&stream);
  }
};

SpdyHeaderReader::SpdyHeaderReader() = default;
SpdyHeaderReader::~SpdyHeaderReader() = default;
SpdyHeaderReader::SpdyHeaderReader(SpdyHeaderReader&&) noexcept = default;

Result<SpdyHeaders> SpdyHeaderReader::Read(std::string_view block) {
  ASSIGN_OR_RETURN(const std::string plain, Unpack(block));
  BlockReader reader(plain);
  ASSIGN_OR_RETURN(const size_t count, reader.Size());
  if (count > kMaxHeaders) return InvalidArgument(StrCat("SPDY headers: ", count, " of them"));
  SpdyHeaders headers;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string name, reader.Text());
    ASSIGN_OR_RETURN(headers[ToLower(name)], reader.Text());
  }
  return headers;
}

Result<std::string> SpdyHeaderReader::Unpack(std::string_view block) {
  if (!state_) state_ = std::make_unique<State>();
  if (!state_->ready) return Error(Code::kResourceExhausted, "inflateInit: out of memory");
  z_stream& stream = state_->stream;
  stream.next_in = const_cast<Bytef*>(BytesOf(block));
  stream.avail_in = static_cast<uInt>(block.size());
  std::string plain;
  std::array<char, 4096> piece;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = piece.size();
    int result = ::inflate(&stream, Z_SYNC_FLUSH);
    if (result == Z_NEED_DICT) {
      const std::string& words = Dictionary();
      result = ::inflateSetDictionary(&stream, BytesOf(words), static_cast<uInt>(words.size()));
      if (result == Z_OK) continue;
    }
    if (result == Z_BUF_ERROR) break;  // all of it is out already
    if (result != Z_OK) return InvalidArgument(StrCat("SPDY headers: inflate fails with ", result));
    plain.append(piece.data(), piece.size() - stream.avail_out);
    if (plain.size() > kMaxBlock) return InvalidArgument("SPDY headers: more than 256 KiB");
  } while (stream.avail_in > 0 || stream.avail_out == 0);
  return plain;
}

struct SpdyHeaderWriter::State {
  z_stream stream{};
  bool ready = ::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits, kMemoryLevel,
                              Z_DEFAULT_STRATEGY) == Z_OK &&
               ::deflateSetDictionary(&stream, BytesOf(Dictionary()),
                                      static_cast<uInt>(Dictionary().size())) == Z_OK;
  State() = default;
  State(const State&) = delete;
  ~State() { ::deflateEnd(&stream); }
};

SpdyHeaderWriter::SpdyHeaderWriter() = default;
SpdyHeaderWriter::~SpdyHeaderWriter() = default;
SpdyHeaderWriter::SpdyHeaderWriter(SpdyHeaderWriter&&) noexcept = default;

Result<std::string> SpdyHeaderWriter::Write(const SpdyHeaders& headers) {
  if (!state_) state_ = std::make_unique<State>();
  if (!state_->ready) return Error(Code::kResourceExhausted, "deflateInit: out of memory");
  std::string plain = Number(headers.size());
  for (const auto& [name, value] : headers) plain += Counted(name) + Counted(value);
  z_stream& stream = state_->stream;
  std::string packed(::deflateBound(&stream, plain.size()) + 16, '\0');
  stream.next_in = const_cast<Bytef*>(BytesOf(plain));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (::deflate(&stream, Z_SYNC_FLUSH) != Z_OK || stream.avail_in > 0 || stream.avail_out == 0) {
    return Internal("SPDY headers: deflate fails");
  }
  packed.resize(packed.size() - stream.avail_out);
  return packed;
}

}  // namespace holdfast::agent::streams
