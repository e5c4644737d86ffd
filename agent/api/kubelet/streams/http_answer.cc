// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/http_answer.h"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>

namespace holdfast::agent::streams {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::chrono::seconds kLimit{10};

template <class Body>
struct Answering {
  UpgradedConnection connection;
  http::response<Body> answer;
};

template <class Body>
std::shared_ptr<Answering<Body>> Make(UpgradedConnection connection, unsigned status,
                                      const HeaderLines& headers) {
  http::response<Body> answer(http::int_to_status(status), 11);
  for (const auto& [name, value] : headers) answer.insert(name, value);
  beast::get_lowest_layer(connection.stream).expires_after(kLimit);
  return std::make_shared<Answering<Body>>(
      Answering<Body>{std::move(connection), std::move(answer)});
}

}  // namespace

void Answer(UpgradedConnection connection, unsigned status, const std::string& type,
            std::string body, const HeaderLines& headers) {
  const auto doing = Make<http::string_body>(std::move(connection), status, headers);
  doing->answer.set(http::field::content_type, type);
  doing->answer.keep_alive(false);
  doing->answer.body() = std::move(body);
  doing->answer.prepare_payload();
  http::async_write(doing->connection.stream, doing->answer, [doing](const auto& error, size_t) {
    if (error) return;
    doing->connection.stream.async_shutdown([doing](const auto&) {});
  });
}

void SwitchProtocols(UpgradedConnection connection, const HeaderLines& headers,
                     std::function<void(UpgradedConnection)> then) {
  const auto doing = Make<http::empty_body>(std::move(connection), 101, headers);
  http::async_write(doing->connection.stream, doing->answer,
                    [doing, then = std::move(then)](const auto& error, size_t) {
                      if (!error) then(std::move(doing->connection));
                    });
}

}  // namespace holdfast::agent::streams
