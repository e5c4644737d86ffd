// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/fetch/serve.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/socket.h"
#include "runtime/image/fetch/transfer.h"
#include "runtime/image/wire/wire.h"

namespace holdfast::runtime::fetch {
namespace {

constexpr int kLongestWaitMs = 1000;

Error MultiError(CURLMcode code) { return Internal(StrCat("curl: ", ::curl_multi_strerror(code))); }

class Server {
 public:
  Server(int socket, const std::string& authorities)
      : socket_(socket), authorities_(authorities), multi_(::curl_multi_init()) {}
  ~Server() {
    while (!transfers_.empty()) Remove(transfers_.begin()->first);
    ::curl_multi_cleanup(multi_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Result<void> Run() {
    while (!done_) {
      int running = 0;
      const CURLMcode code = ::curl_multi_perform(multi_, &running);
      if (code != CURLM_OK) return MultiError(code);
      NoteEnds();
      RemoveOver();
      RETURN_IF_ERROR(Wait());
    }
    return {};
  }

 private:
  void NoteEnds() {
    int left = 0;
    while (const CURLMsg* message = ::curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      Transfer* transfer = nullptr;
      ::curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      if (message->data.result == CURLE_OPERATION_TIMEDOUT) EndDeadConnection(*transfer);
      transfer->OnEnd(message->data.result);
    }
  }

  // A connection of HTTP/2 outlives a stream that stood still, and new tries would go there again. Where no
  // other stream of it moves either it is shut: libcurl finds it dead and makes another.
  void EndDeadConnection(const Transfer& stalled) {
    const int socket = stalled.Socket();
    if (socket < 0) return;
    for (const auto& [id, other] : transfers_) {
      const bool shares = other.get() != &stalled && other->Socket() == socket;
      if (shares && other->MovedWithin(stalled.stall())) return;
    }
    (void)::shutdown(socket, SHUT_RDWR);  // ENOTCONN: it is dead already
  }

  void RemoveOver() {
    std::vector<uint64_t> over;
    for (const auto& [id, transfer] : transfers_) {
      if (transfer->IsOver()) over.push_back(id);
    }
    for (const uint64_t id : over) Remove(id);
  }

  void Remove(uint64_t id) {
    const auto found = transfers_.find(id);
    if (found == transfers_.end()) return;
    ::curl_multi_remove_handle(multi_, found->second->handle());
    transfers_.erase(found);
  }

  Result<void> Wait() {
    std::vector<curl_waitfd> fds = {{socket_, CURL_WAIT_POLLIN, 0}};
    std::vector<uint64_t> waiting;
    for (const auto& [id, transfer] : transfers_) {
      if (transfer->WaitsFor() < 0) continue;
      fds.push_back({transfer->WaitsFor(), CURL_WAIT_POLLOUT, 0});
      waiting.push_back(id);
    }
    const CURLMcode code = ::curl_multi_poll(multi_, fds.data(), static_cast<unsigned>(fds.size()),
                                             kLongestWaitMs, nullptr);
    if (code != CURLM_OK) return MultiError(code);
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (fds[i + 1].revents != 0 && !transfers_.at(waiting[i])->OnRoom()) Remove(waiting[i]);
    }
    return fds[0].revents != 0 ? Listen() : Result<void>();
  }

  Result<void> Listen() {
    ASSIGN_OR_RETURN(sys::Packet packet, sys::ReceivePacket(socket_));
    done_ = packet.data.empty();
    if (done_) return {};
    ASSIGN_OR_RETURN(const Fields fields, Decode(packet.data));
    if (fields[0] == kStop && fields.size() == 2) {
      ASSIGN_OR_RETURN(const uint64_t id, Number(fields[1]));
      Remove(id);
      return {};
    }
    const size_t files = packet.fds.size();
    if (fields[0] != kGet || files < 2 || files > 3) return InvalidArgument("unknown message");
    ASSIGN_OR_RETURN(const std::string text, sys::ReadFd(packet.fds[0].get(), kMaxRequestBytes));
    ASSIGN_OR_RETURN(Request request, DecodeRequest(text));
    return Begin(std::move(request), std::move(packet.fds[1]),
                 files == 3 ? std::move(packet.fds[2]) : UniqueFd());
  }

  Result<void> Begin(Request request, UniqueFd pipe, UniqueFd upload) {
    if (transfers_.size() == kMaxTransfers || transfers_.contains(request.id)) {
      return InvalidArgument("too many requests");
    }
    const uint64_t id = request.id;
    auto transfer =
        std::make_unique<Transfer>(std::move(request), std::move(pipe), std::move(upload),
                                   authorities_, [this](const Fields& fields) {
                                     // The agent has gone: the loop ends with the socket's end-of-file.
                                     (void)sys::SendPacket(socket_, Encode(fields));
                                   });
    const CURLMcode code = ::curl_multi_add_handle(multi_, transfer->handle());
    if (code != CURLM_OK) return MultiError(code);
    transfers_.emplace(id, std::move(transfer));
    return {};
  }

  const int socket_;
  const std::string& authorities_;
  CURLM* const multi_;
  std::map<uint64_t, std::unique_ptr<Transfer>> transfers_;
  bool done_ = false;
};

}  // namespace

Result<void> Serve(int socket, const std::string& system_authorities) {
  return Server(socket, system_authorities).Run();
}

}  // namespace holdfast::runtime::fetch
