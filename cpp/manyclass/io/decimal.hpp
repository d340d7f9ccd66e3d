// Reading of decimal text to the nearest float.
#pragma once

#include <charconv>
#include <cstdint>
#include <system_error>

// The standard library of Apple's compilers lacks std::from_chars of floats before LLVM 20.
#if defined(__APPLE__) && defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
#define MANYCLASS_NO_FROM_CHARS
#include <xlocale.h>

#include <cmath>
#include <cstdlib>
#include <string>
#endif

namespace manyclass {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

struct Decimal {
  const char* end = nullptr;  // where reading stopped; nullptr: no finite decimal number begins here
  float value = 0.0F;
  bool overflow = false;  // the number is beyond the largest float
};

namespace detail {

// 10^0 ... 10^10, the powers of ten that float holds exactly (5^10 < 2^24).
inline constexpr float exact_powers[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};

}  // namespace detail

// Reads [+-] digits [. digits] [e [+-] digits] from [p, end). The value is the float nearest to the decimal number
// (ties to even). A number that is too small for a subnormal float becomes a signed zero.
//
// Nearly every number of a data file has a mantissa <= 2^24 and a power of ten <= 10^10. It takes one correctly rounded
// operation on two exact floats (Clinger, PLDI 1990). The rest go to std::from_chars, which rounds correctly too. So
// nothing is rounded twice by way of double.
inline Decimal read_decimal(const char* p, const char* end) {
  const bool negative = p != end && *p == '-';
  if (p != end && (*p == '-' || *p == '+')) ++p;
  const char* const unsigned_begin = p;

  std::uint64_t mantissa = 0;  // wraps beyond 19 digits, and is then not used
  for (; p != end && is_digit(*p); ++p) mantissa = 10 * mantissa + static_cast<std::uint64_t>(*p - '0');
  std::int64_t n_digits = p - unsigned_begin;
  std::int64_t exponent = 0;
  if (p != end && *p == '.') {
    const char* const fraction = ++p;
    for (; p != end && is_digit(*p); ++p) mantissa = 10 * mantissa + static_cast<std::uint64_t>(*p - '0');
    exponent = fraction - p;
    n_digits -= exponent;
  }
  if (n_digits == 0) return {};
  if (p != end && (*p == 'e' || *p == 'E')) {
    ++p;
    const bool small = p != end && *p == '-';
    if (p != end && (*p == '-' || *p == '+')) ++p;
    if (p == end || !is_digit(*p)) return {};
    std::int64_t e = 0;
    constexpr std::int64_t huge = 1'000'000'000'000;  // beyond any file's number of digits
    for (; p != end && is_digit(*p); ++p) {
      if (e < huge) e = 10 * e + (*p - '0');
    }
    exponent += small ? -e : e;
  }

  float value = 0.0F;
  constexpr std::uint64_t exact_mantissa = 1ULL << 24;
  if (n_digits <= 19 && mantissa <= exact_mantissa && exponent >= -10 && exponent <= 10) {
    const auto m = static_cast<float>(mantissa);
    value = exponent < 0 ? m / detail::exact_powers[-exponent] : m * detail::exact_powers[exponent];
#ifdef MANYCLASS_NO_FROM_CHARS
  } else {
    value = strtof_l(std::string(unsigned_begin, p).c_str(), nullptr, nullptr);  // without a locale, that of C
    if (std::isinf(value)) return {p, 0.0F, true};
  }
#else
  } else if (std::from_chars(unsigned_begin, p, value).ec == std::errc::result_out_of_range) {
    // The number is too large or too small for a float. It is < 10^(exponent + n_digits) and at least
    // 10^(exponent + n_digits - 1 - leading zeros).
    std::int64_t magnitude = exponent + n_digits;
    for (const char* c = unsigned_begin; *c == '0' || *c == '.'; ++c) magnitude -= *c == '0';
    if (magnitude > 0) return {p, 0.0F, true};
    value = 0.0F;
  }
#endif
  return {p, negative ? -value : value, false};
}

}  // namespace manyclass
