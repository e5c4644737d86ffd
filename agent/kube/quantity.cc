// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "agent/kube/diagnostic.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

__extension__ using Wide = __int128;

constexpr Wide kNanoPerUnit = 1'000'000'000;
constexpr Wide kNanoPerMilli = 1'000'000;
constexpr Wide kMaxNano = Wide{std::numeric_limits<int64_t>::max()} * kNanoPerUnit;

struct Suffix {
  std::string_view text;
  int exponent;
};
// Smallest first. Kubernetes has no upper-case kilo and no lower-case mega.
constexpr std::array<Suffix, 10> kDecimal = {{{"n", -9},
                                              {"u", -6},
                                              {"m", -3},
                                              {"", 0},
                                              {"k", 3},
                                              {"M", 6},
                                              {"G", 9},
                                              {"T", 12},
                                              {"P", 15},
                                              {"E", 18}}};
constexpr std::array<Suffix, 6> kBinary = {
    {{"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}, {"Pi", 50}, {"Ei", 60}}};

Wide Pow10(int exponent) {
  Wide value = 1;
  for (int i = 0; i < exponent; ++i) value *= 10;
  return value;
}

Wide Clamp(Wide nano) { return std::clamp(nano, -kMaxNano, kMaxNano); }

// Away from zero.
int64_t DivideUp(Wide nano, Wide unit) {
  const Wide quotient = nano / unit + (nano % unit > 0 ? 1 : nano % unit < 0 ? -1 : 0);
  const Wide max = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::clamp(quotient, -max, max));
}

std::string Digits(Wide value) {
  if (value == 0) return "0";
  std::string text;
  for (Wide rest = value < 0 ? -value : value; rest != 0; rest /= 10) {
    text += static_cast<char>('0' + static_cast<int>(rest % 10));
  }
  if (value < 0) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

struct Parts {
  bool negative = false;
  std::string digits;  // of the number without its point, no leading zeros
  int point = 0;       // how many of the digits stand behind the point
  std::string_view suffix;
};

bool Split(std::string_view text, Parts* parts) {
  size_t at = 0;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) parts->negative = text[at++] == '-';
  bool point = false;
  size_t count = 0;
  for (; at < text.size() && (IsDigit(text[at]) || (text[at] == '.' && !point)); ++at) {
    if (text[at] == '.') {
      point = true;
      continue;
    }
    ++count;
    if (point) ++parts->point;
    if (!parts->digits.empty() || text[at] != '0') parts->digits += text[at];
  }
  parts->suffix = text.substr(at);
  return count > 0;
}

// "e3", "E-2". An exponent far beyond what can be held is cut, which changes nothing.
bool ParseExponent(std::string_view suffix, int* exponent) {
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return false;
  suffix.remove_prefix(1);
  const bool negative = suffix[0] == '-';
  if (negative || suffix[0] == '+') suffix.remove_prefix(1);
  if (suffix.empty() || !std::all_of(suffix.begin(), suffix.end(), IsDigit)) return false;
  int value = 0;
  const auto [end, error] = std::from_chars(suffix.data(), suffix.data() + suffix.size(), value);
  if (error != std::errc() || value > 10'000'000) value = 10'000'000;
  *exponent = negative ? -value : value;
  return true;
}

template <class Table>
bool FindSuffix(const Table& table, std::string_view suffix, int* exponent) {
  for (const Suffix& known : table) {
    if (known.text != suffix) continue;
    *exponent = known.exponent;
    return true;
  }
  return false;
}

// digits × 10^exponent in nano, rounded away from zero; more than kMaxNano for all that is too
// much.
Wide ScaleDecimal(std::string digits, long exponent) {
  if (digits.empty()) return 0;
  exponent += 9;
  bool rest = false;
  while (exponent < 0 && !digits.empty()) {
    rest = rest || digits.back() != '0';
    digits.pop_back();
    ++exponent;
  }
  if (static_cast<long>(digits.size()) + exponent > 29 && !digits.empty()) return kMaxNano + 1;
  Wide value = 0;
  for (const char c : digits) value = value * 10 + (c - '0');
  if (!digits.empty()) value *= Pow10(static_cast<int>(exponent));
  return value + (rest ? 1 : 0);
}

// digits / 10^point × 2^power in nano. 2^60 × 10^9 leaves 37 bits, too few for all fractions, so
// whole and fractional part go separately.
Wide ScaleBinary(const std::string& digits, int point, int power) {
  const auto behind = static_cast<size_t>(std::max(point, 0));
  const std::string whole = behind < digits.size() ? digits.substr(0, digits.size() - behind) : "";
  if (whole.size() > 19) return kMaxNano;
  Wide value = 0;
  for (const char c : whole) value = value * 10 + (c - '0');
  const Wide unit = Wide{1} << power;
  if (value > kMaxNano / kNanoPerUnit / unit) return kMaxNano;
  value = value * unit * kNanoPerUnit;
  std::string fraction = behind > digits.size() ? std::string(behind - digits.size(), '0') : "";
  fraction += digits.substr(whole.size());
  const bool cut = fraction.size() > 18 && fraction.find_first_not_of('0', 18) < fraction.size();
  fraction.resize(18, '0');
  Wide parts = 0;
  for (const char c : fraction) parts = parts * 10 + (c - '0');
  // parts / 10^18 × unit × 10^9 = parts × unit / 10^9; parts < 2^60 and unit ≤ 2^60.
  const Wide product = parts * unit;
  const bool rest = cut || product % kNanoPerUnit != 0;
  return Clamp(value + product / kNanoPerUnit + (rest ? 1 : 0));
}

std::string FormatDecimal(Wide nano, bool exponent_form) {
  for (auto it = kDecimal.rbegin(); it != kDecimal.rend(); ++it) {
    const Wide unit = Pow10(it->exponent + 9);
    if (nano % unit != 0) continue;
    if (!exponent_form || it->exponent == 0) return Digits(nano / unit) + std::string(it->text);
    return StrCat(Digits(nano / unit), "e", it->exponent);
  }
  return Digits(nano);  // not reached: nano is a multiple of the smallest unit
}

std::string FormatBinary(Wide units) {
  for (auto it = kBinary.rbegin(); it != kBinary.rend(); ++it) {
    const Wide unit = Wide{1} << it->exponent;
    if (units % unit == 0) return Digits(units / unit) + std::string(it->text);
  }
  return Digits(units);
}

}  // namespace

Result<Amount> Amount::Parse(std::string_view text) {
  Parts parts;
  Amount amount;
  int exponent = 0;
  if (!Split(text, &parts)) {
    return InvalidArgument(StrCat("quantity ", Quoted(text), ": must be a number with a suffix"));
  }
  if (FindSuffix(kBinary, parts.suffix, &exponent)) {
    amount.format_ = Format::kBinarySi;
    amount.nano_ = ScaleBinary(parts.digits, parts.point, exponent);
  } else {
    if (!FindSuffix(kDecimal, parts.suffix, &exponent)) {
      if (!ParseExponent(parts.suffix, &exponent)) {
        return InvalidArgument(StrCat("quantity ", Quoted(text), ": unknown suffix ",
                                      Quoted(parts.suffix), ", known are n u m k M G T P E Ki Mi ",
                                      "Gi Ti Pi Ei and exponents"));
      }
      amount.format_ = Format::kDecimalExponent;
    }
    amount.nano_ = Clamp(ScaleDecimal(parts.digits, exponent - parts.point));
  }
  if (parts.negative) amount.nano_ = -amount.nano_;
  return amount;
}

Amount Amount::FromMilli(int64_t milli) {
  Amount amount;
  amount.nano_ = Wide{milli} * kNanoPerMilli;
  return amount;
}

Amount Amount::FromUnits(int64_t units, Format format) {
  Amount amount;
  amount.nano_ = Clamp(Wide{units} * kNanoPerUnit);
  amount.format_ = format;
  return amount;
}

int64_t Amount::Units() const { return DivideUp(nano_, kNanoPerUnit); }
int64_t Amount::Milli() const { return DivideUp(nano_, kNanoPerMilli); }

std::string Amount::ToString() const {
  if (nano_ == 0) return "0";
  const Wide magnitude = nano_ < 0 ? -nano_ : nano_;
  // Kubernetes prints amounts below 1 Ki in the decimal family and rounds others to whole bytes.
  if (format_ == Format::kBinarySi && magnitude >= 1024 * kNanoPerUnit) {
    return FormatBinary(DivideUp(nano_, kNanoPerUnit));
  }
  return FormatDecimal(nano_, format_ == Format::kDecimalExponent);
}

Amount& Amount::operator+=(const Amount& other) {
  if (nano_ == 0) format_ = other.format_;
  nano_ = Clamp(nano_ + other.nano_);
  return *this;
}

}  // namespace holdfast::agent::kube
