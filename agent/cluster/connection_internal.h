// SPDX-License-Identifier: Apache-2.0
// Connection: one TLS connection to the API server, on which requests follow each other. It has no
// time limit of its own: Close() ends whatever is under way. Kept alive by its own operations,
// hence a shared_ptr. One thread.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "agent/cluster/api_client.h"
#include "agent/cluster/kubeconfig.h"

namespace holdfast::agent {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Its own operations may outlive whoever made it, hence the shared_ptr.
  Connection(boost::asio::io_context& io, boost::asio::ssl::context context,
             std::shared_ptr<const KubeConfig> config);

  // Each calls `done` once, later; one at a time.
  void Open(std::function<void(Result<void>)> done);
  void Send(const ApiRequest& request, const std::string& token, ApiClient::Done done);
  void Close();

  // Another request may follow, as far as is known here.
  bool usable() const { return usable_; }

 private:
  using Tcp = boost::asio::ip::tcp;
  using Opened = std::function<void(Result<void>)>;

  void Resolve(Opened done);
  void Connect(const Tcp::resolver::results_type& addresses, Opened done);
  void ShakeHands(Opened done);
  void ReadHeader(ApiClient::Done done);
  void ReadBody(ApiClient::Done done);
  Error Failed(const char* what, const boost::system::error_code& error);

  const std::shared_ptr<const KubeConfig> config_;
  boost::asio::ssl::context context_;
  Tcp::resolver resolver_;
  boost::asio::ssl::stream<Tcp::socket> stream_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::request<boost::beast::http::string_body> request_;
  std::optional<boost::beast::http::response_parser<boost::beast::http::string_body>> parser_;
  bool usable_ = false;
};

}  // namespace holdfast::agent
