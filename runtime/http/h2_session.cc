// SPDX-License-Identifier: Apache-2.0
#include "runtime/http/h2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::http {
namespace {

// Larger than all streams' windows together: one that is not read stops no other.
constexpr int32_t kConnectionWindow = 32 << 20;

struct FreeCallbacks {
  void operator()(nghttp2_session_callbacks* callbacks) const {
    nghttp2_session_callbacks_del(callbacks);
  }
};
struct FreeOptions {
  void operator()(nghttp2_option* options) const { nghttp2_option_del(options); }
};

Error Failed(const char* call, int code) {
  return Unavailable(StrCat("HTTP/2: ", call, ": ", nghttp2_strerror(code)));
}

Error NoMemory() { return Error(Code::kResourceExhausted, "HTTP/2: make a session: no memory"); }

// The pieces are copied by libnghttp2.
nghttp2_nv NameValue(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

StreamEnd EndOf(StreamEnd::How how, Code code, std::string text) {
  return {how, Error(code, std::move(text))};
}

int StatusOf(const Headers& headers) {
  const std::string_view text = Find(headers, ":status");
  int status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return status;
}

}  // namespace

// Called by libnghttp2 from Receive() and TakeOutput().
struct H2Session::Callbacks {
  static H2Session& Of(void* user) { return *static_cast<H2Session*>(user); }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* user) {
    H2Session& self = Of(user);
    Stream* stream = self.FindStream(frame->hd.stream_id);
    if (stream == nullptr || stream->failure) return 0;
    stream->header_bytes += name_size + value_size;
    if (stream->header_bytes > kHeaderLimit) {
      self.Fail(frame->hd.stream_id, *stream,
                EndOf(StreamEnd::How::kFailed, Code::kResourceExhausted,
                      StrCat("the answer has more than ", kHeaderLimit, " bytes of headers")));
      return 0;
    }
    Headers& headers = stream->head_seen ? stream->trailers : stream->head.headers;
    headers.emplace_back(std::string(reinterpret_cast<const char*>(name), name_size),
                         std::string(reinterpret_cast<const char*>(value), value_size));
    return 0;
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    H2Session& self = Of(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      self.went_away_ = true;
      self.in_order_ = frame->goaway.error_code == NGHTTP2_NO_ERROR;
      return 0;
    }
    Stream* stream = self.FindStream(frame->hd.stream_id);
    if (stream == nullptr || stream->failure) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !stream->head_seen)
      self.TakeHead(frame->hd.stream_id, *stream);
    const bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (may_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->end_seen = true;
    return 0;
  }

  static int OnData(nghttp2_session*, uint8_t, StreamId id, const uint8_t* data, size_t size,
                    void* user) {
    H2Session& self = Of(user);
    Stream* stream = self.FindStream(id);
    if (stream == nullptr || stream->failure) {
      nghttp2_session_consume_connection(self.session_, size);
      return 0;
    }
    stream->received += size;
    if (stream->received > stream->body_limit) {
      nghttp2_session_consume_connection(self.session_, size);
      self.Fail(id, *stream,
                EndOf(StreamEnd::How::kFailed, Code::kResourceExhausted,
                      StrCat("the answer's body has more than ", stream->body_limit, " bytes")));
      return 0;
    }
    self.events_.push_back({.kind = Event::Kind::kBody,
                            .stream = id,
                            .bytes = {reinterpret_cast<const char*>(data), size}});
    return 0;
  }

  static int OnClose(nghttp2_session*, StreamId id, uint32_t code, void* user) {
    H2Session& self = Of(user);
    Stream* stream = self.FindStream(id);
    if (stream == nullptr) return 0;
    if (stream->failure) {
      self.End(id, std::move(*stream->failure));
    } else if (stream->end_seen && stream->head_seen) {
      self.End(id, {.trailers = std::move(stream->trailers)});
    } else if (code == NGHTTP2_REFUSED_STREAM) {
      self.End(id, EndOf(StreamEnd::How::kNotProcessed, Code::kUnavailable,
                         "the server did not process the request (REFUSED_STREAM)"));
    } else {
      self.End(id, EndOf(StreamEnd::How::kFailed, Code::kUnavailable,
                         StrCat("the stream was reset (", nghttp2_http2_strerror(code), ")")));
    }
    return 0;
  }

  // A request that was queued when GOAWAY came.
  static int OnNotSent(nghttp2_session*, const nghttp2_frame* frame, int code, void* user) {
    H2Session& self = Of(user);
    if (frame->hd.type != NGHTTP2_HEADERS || self.FindStream(frame->hd.stream_id) == nullptr)
      return 0;
    self.End(frame->hd.stream_id,
             EndOf(StreamEnd::How::kNotProcessed, Code::kUnavailable,
                   StrCat("the request was not sent: ", nghttp2_strerror(code))));
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session*, StreamId id, uint8_t* out, size_t size, uint32_t* flags,
                          nghttp2_data_source*, void* user) {
    Stream* stream = Of(user).FindStream(id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const size_t count = std::min(size, stream->body.size() - stream->sent);
    std::memcpy(out, stream->body.data() + stream->sent, count);
    stream->sent += count;
    if (stream->sent == stream->body.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      stream->body = {};
      stream->sent = 0;
    }
    return static_cast<ssize_t>(count);
  }
};

Result<std::unique_ptr<H2Session>> H2Session::Make() {
  std::unique_ptr<H2Session> made(new H2Session());
  nghttp2_session_callbacks* raw_callbacks = nullptr;
  nghttp2_option* raw_options = nullptr;
  if (nghttp2_session_callbacks_new(&raw_callbacks) != 0) return NoMemory();
  const std::unique_ptr<nghttp2_session_callbacks, FreeCallbacks> callbacks(raw_callbacks);
  if (nghttp2_option_new(&raw_options) != 0) return NoMemory();
  const std::unique_ptr<nghttp2_option, FreeOptions> options(raw_options);
  nghttp2_session_callbacks_set_on_header_callback(raw_callbacks, Callbacks::OnHeader);
  nghttp2_session_callbacks_set_on_frame_recv_callback(raw_callbacks, Callbacks::OnFrame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(raw_callbacks, Callbacks::OnData);
  nghttp2_session_callbacks_set_on_stream_close_callback(raw_callbacks, Callbacks::OnClose);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(raw_callbacks, Callbacks::OnNotSent);
  nghttp2_option_set_no_auto_window_update(raw_options, 1);
  int error = nghttp2_session_client_new2(&made->session_, raw_callbacks, made.get(), raw_options);
  if (error != 0) return Failed("make a session", error);
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kHeaderLimit},
  }};
  error =
      nghttp2_submit_settings(made->session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  if (error == 0) {
    error = nghttp2_session_set_local_window_size(made->session_, NGHTTP2_FLAG_NONE, 0,
                                                  kConnectionWindow);
  }
  if (error != 0) return Failed("settings", error);
  return made;
}

H2Session::~H2Session() { nghttp2_session_del(session_); }

Result<StreamId> H2Session::Submit(Request request) {
  std::vector<nghttp2_nv> headers = {
      NameValue(":method", request.method), NameValue(":scheme", request.scheme),
      NameValue(":authority", request.authority), NameValue(":path", request.path)};
  for (const auto& [name, value] : request.headers) headers.push_back(NameValue(name, value));
  const std::string length = StrCat(request.body.size());
  nghttp2_data_provider body{};
  body.read_callback = Callbacks::ReadBody;
  if (!request.body.empty()) headers.push_back(NameValue("content-length", length));
  const StreamId id = nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(),
                                             request.body.empty() ? nullptr : &body, nullptr);
  if (id < 0) return Failed("submit a request", id);
  Stream& stream = streams_[id];
  stream.body = std::move(request.body);
  stream.body_limit = request.body_limit;
  return id;
}

Result<void> H2Session::Receive(std::string_view bytes) {
  const ssize_t used = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (used < 0) return Failed("read", static_cast<int>(used));
  return {};
}

std::vector<H2Session::Event> H2Session::TakeEvents() { return std::exchange(events_, {}); }

Result<std::string> H2Session::TakeOutput(size_t most) {
  std::string out;
  while (out.size() < most) {
    const uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) return Failed("write", static_cast<int>(size));
    if (size == 0) break;
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  }
  return out;
}

void H2Session::Consume(StreamId stream, size_t bytes) {
  (void)nghttp2_session_consume(session_, stream,
                                bytes);  // only memory can run out; then mem_send fails, too
}

void H2Session::Reset(StreamId stream) {
  if (streams_.erase(stream) == 0) return;
  std::erase_if(events_, [this, stream](const Event& event) {
    if (event.stream == stream) nghttp2_session_consume_connection(session_, event.bytes.size());
    return event.stream == stream;
  });
  (void)nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);  // as above
}

void H2Session::Ping() {
  (void)nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
}  // as above

bool H2Session::finished() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

size_t H2Session::peer_limit() const {
  return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

H2Session::Stream* H2Session::FindStream(StreamId stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

// A head of 1xx is followed by another.
void H2Session::TakeHead(StreamId id, Stream& stream) {
  ResponseHead head = std::exchange(stream.head, {});
  head.status = StatusOf(head.headers);
  if (head.status < 100) {  // to libnghttp2 this is an answer like any other
    return Fail(id, stream,
                EndOf(StreamEnd::How::kFailed, Code::kUnavailable,
                      StrCat("the answer's status is ", head.status)));
  }
  if (head.status < 200) return;
  std::erase_if(head.headers, [](const Header& header) { return header.first.starts_with(':'); });
  stream.head_seen = true;
  events_.push_back({.kind = Event::Kind::kHead, .stream = id, .head = std::move(head)});
}

// The end is told when libnghttp2 closes the stream.
void H2Session::Fail(StreamId id, Stream& stream, StreamEnd failure) {
  stream.failure = std::move(failure);
  (void)nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
}

void H2Session::End(StreamId id, StreamEnd end) {
  streams_.erase(id);
  events_.push_back({.kind = Event::Kind::kEnd, .stream = id, .end = std::move(end)});
}

}  // namespace holdfast::runtime::http
