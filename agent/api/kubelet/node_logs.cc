// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/node_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kPiece = 64u << 10;

HttpAnswer NoSuchFile() { return {.status = 404, .body = "404 page not found\n"}; }

std::string HtmlEscaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string UrlEscaped(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-_.~$&+,/:;=@";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 128 && std::isalnum(byte) != 0) || kPlain.find(c) != std::string_view::npos) {
      out.push_back(c);
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

HttpAnswer Listing(int dir) {
  const auto names = sys::ListDirAt(dir, ".");
  if (!names) return {.status = 500, .body = "Error reading directory\n"};
  std::string body =
      "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n";
  for (const std::string& name : *names) {
    struct stat entry{};
    const bool is_dir =
        ::fstatat(dir, name.c_str(), &entry, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(entry.st_mode);
    const std::string shown = name + (is_dir ? "/" : "");
    // A name with a colon would be read as a scheme.
    const bool colon = name.find(':') != std::string::npos;
    body += StrCat("<a href=\"", colon ? "./" : "", UrlEscaped(shown), "\">", HtmlEscaped(shown),
                   "</a>\n");
  }
  return {.body = body + "</pre>\n", .content_type = "text/html; charset=utf-8"};
}

// What stands at `path`, for reading; a fifo does not make anybody wait.
Result<UniqueFd> OpenBelow(const std::string& root, const std::string& path) {
  ASSIGN_OR_RETURN(const DirFd top, sys::OpenDir(root));
  return sys::OpenInside(top.get(), path.empty() ? "." : path,
                         O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0, sys::Resolve::kBeneath);
}

}  // namespace

// One reader of one file. Its pieces are read on the pool and passed on by the server's thread.
class NodeLogs::Body : public std::enable_shared_from_this<Body> {
 public:
  Body(NodeLogs& logs, ExchangePtr exchange) : logs_(logs), exchange_(std::move(exchange)) {}

  void Open(const std::string& path) {
    auto file = OpenBelow(logs_.root_, path);
    struct stat found{};
    if (!file || ::fstat(file->get(), &found) != 0) return Finish(NoSuchFile());
    if (S_ISDIR(found.st_mode)) {
      const bool named_so = path.empty() || path.ends_with('/');
      const std::string last = path.substr(path.rfind('/') + 1);
      return Finish(named_so ? Listing(file->get())
                             : HttpAnswer{.status = 301,
                                          .body = "",
                                          .headers = {{"Location", UrlEscaped(last) + "/"}}});
    }
    if (!S_ISREG(found.st_mode)) return Finish({.status = 403, .body = "403 Forbidden\n"});
    file_ = std::move(*file);
    left_ = found.st_size;  // what is appended meanwhile is not waited for
    Post([](Body& body) { body.Begin(); });
  }

  void Done() { done_ = true; }

 private:
  void Post(std::function<void(Body&)> work) {
    exchange_->Post([self = shared_from_this(), work = std::move(work)] {
      if (!self->done_) work(*self);
    });
  }
  void Finish(HttpAnswer answer) {
    exchange_->Answer(std::move(answer));
    Post([](Body& body) { body.Leave(); });
  }
  void Begin() {
    const std::weak_ptr<Body> weak = weak_from_this();
    exchange_->Begin({}, {.passed =
                              [weak] {
                                if (const auto body = weak.lock()) body->ReadNext();
                              },
                          .gone =
                              [weak] {
                                if (const auto body = weak.lock()) body->Leave();
                              }});
  }
  void ReadNext() {
    const auto posted = logs_.pool_.TryPost([self = shared_from_this()] { self->Read(); });
    if (!posted) End();
  }
  void Read() {
    std::string piece(static_cast<size_t>(std::min<off_t>(left_, kPiece)), '\0');
    const ssize_t size = piece.empty() ? 0 : ::pread(file_.get(), piece.data(), piece.size(), at_);
    if (size <= 0) return Post([](Body& body) { body.End(); });
    piece.resize(static_cast<size_t>(size));
    at_ += size;
    left_ -= size;
    Post([piece = std::move(piece)](Body& body) { body.exchange_->Write(piece); });
  }
  void End() {
    exchange_->End();
    Leave();
  }
  void Leave() {
    const auto self = shared_from_this();
    Done();
    logs_.open_.erase(self);
  }

  NodeLogs& logs_;
  const ExchangePtr exchange_;
  UniqueFd file_;
  off_t at_ = 0, left_ = 0;
  bool done_ = false;  // of the server's thread
};

NodeLogs::NodeLogs(std::string root, WorkerPool& pool) : root_(std::move(root)), pool_(pool) {}

NodeLogs::~NodeLogs() {
  for (const auto& body : open_) body->Done();
}

void NodeLogs::Answer(const ExchangePtr& exchange, const std::string& path) {
  const auto body = std::make_shared<Body>(*this, exchange);
  const auto posted = pool_.TryPost([body, path] { body->Open(path); });
  if (!posted) return exchange->Answer({.status = 503, .body = posted.error().message() + "\n"});
  open_.insert(body);
}

}  // namespace holdfast::agent::api
