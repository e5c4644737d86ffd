// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/wire/wire.h"

#include <charconv>
#include <cstring>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::fetch {
namespace {

constexpr size_t kRequestFields = 13;  // before the headers
constexpr size_t kHeadFields = 8;      // with the kind, before the challenges
constexpr size_t kChallengeFields = 5;
constexpr size_t kEndFields = 5;

Error Unusable() { return InvalidArgument("holdfast-fetch: unusable message"); }

template <class T>
Result<T> NumberOf(std::string_view text) {
  T value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return Unusable();
  return value;
}

}  // namespace

std::string Encode(const Fields& fields) {
  std::string out;
  for (const std::string& field : fields) {
    const auto size = static_cast<uint32_t>(field.size());
    out.append(reinterpret_cast<const char*>(&size), sizeof size);
    out.append(field);
  }
  return out;
}

Result<Fields> Decode(std::string_view data) {
  Fields fields;
  while (!data.empty()) {
    uint32_t size = 0;
    if (data.size() < sizeof size || fields.size() == kMaxFields) return Unusable();
    std::memcpy(&size, data.data(), sizeof size);
    data.remove_prefix(sizeof size);
    if (data.size() < size) return Unusable();
    fields.emplace_back(data.substr(0, size));
    data.remove_prefix(size);
  }
  return fields;
}

Result<uint64_t> Number(std::string_view text) { return NumberOf<uint64_t>(text); }

std::string EncodeRequest(const Request& r) {
  Fields fields = {std::to_string(r.id),
                   r.method,
                   r.url,
                   r.body,
                   r.trust.authorities,
                   r.trust.certificate,
                   r.trust.key,
                   r.trust.verify ? "1" : "0",
                   std::to_string(r.connect_ms),
                   std::to_string(r.total_ms),
                   std::to_string(r.slow_bytes),
                   std::to_string(r.slow_seconds),
                   std::to_string(r.upload_bytes)};
  fields.insert(fields.end(), r.headers.begin(), r.headers.end());
  return Encode(fields);
}

Result<Request> DecodeRequest(std::string_view text) {
  ASSIGN_OR_RETURN(const Fields f, Decode(text));
  if (f.size() < kRequestFields) return Unusable();
  Request r;
  ASSIGN_OR_RETURN(r.id, Number(f[0]));
  r.method = f[1];
  r.url = f[2];
  r.body = f[3];
  r.trust = {f[4], f[5], f[6], f[7] != "0"};
  ASSIGN_OR_RETURN(r.connect_ms, Number(f[8]));
  ASSIGN_OR_RETURN(r.total_ms, Number(f[9]));
  ASSIGN_OR_RETURN(r.slow_bytes, Number(f[10]));
  ASSIGN_OR_RETURN(r.slow_seconds, Number(f[11]));
  ASSIGN_OR_RETURN(r.upload_bytes, Number(f[12]));
  r.headers.assign(f.begin() + kRequestFields, f.end());
  return r;
}

Fields FieldsOf(const Head& h) {
  Fields fields = {std::string(kHead),
                   std::to_string(h.id),
                   std::to_string(h.status),
                   std::to_string(h.length),
                   std::to_string(h.offset),
                   h.content_type,
                   h.digest,
                   h.retry_after};
  for (const Challenge& c : h.challenges) {
    fields.insert(fields.end(), {c.scheme, c.realm, c.service, c.scope, c.error});
  }
  return fields;
}

Result<Head> DecodeHead(const Fields& f) {
  if (f.size() < kHeadFields || (f.size() - kHeadFields) % kChallengeFields != 0) return Unusable();
  Head h;
  ASSIGN_OR_RETURN(h.id, Number(f[1]));
  ASSIGN_OR_RETURN(h.status, NumberOf<int64_t>(f[2]));
  ASSIGN_OR_RETURN(h.length, NumberOf<int64_t>(f[3]));
  ASSIGN_OR_RETURN(h.offset, NumberOf<int64_t>(f[4]));
  h.content_type = f[5];
  h.digest = f[6];
  h.retry_after = f[7];
  for (size_t i = kHeadFields; i < f.size(); i += kChallengeFields) {
    h.challenges.push_back({f[i], f[i + 1], f[i + 2], f[i + 3], f[i + 4]});
  }
  return h;
}

Fields FieldsOf(const End& e) {
  return {std::string(kEnd), std::to_string(e.id), e.error, e.certificate ? "1" : "0", e.location};
}

Result<End> DecodeEnd(const Fields& f) {
  if (f.size() != kEndFields) return Unusable();
  End e;
  ASSIGN_OR_RETURN(e.id, Number(f[1]));
  e.error = f[2];
  e.certificate = f[3] != "0";
  e.location = f[4];
  return e;
}

}  // namespace holdfast::runtime::fetch
