// Reference of kernels/attention.h: processes one query row of one head at a time.
#pragma once

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/reference/group_codes.h"
#include "kernels/reference/scalar.h"

namespace comera::kernels::reference {

// One query row: sequence b, query t, head h, its range of keys, and the offsets of its vectors.
struct AttentionRow {
  std::int64_t b, t, h, key_head, first, last;

  AttentionRow(const AttentionShape& s, std::int64_t b, std::int64_t t, std::int64_t h)
      : b(b), t(t), h(h), key_head(h / (s.heads / s.key_heads)), first(0), last(s.keys) {
    if (s.key_begin) first = std::max<std::int64_t>(0, s.key_begin[b * s.queries + t]);
    if (s.key_end) last = std::min<std::int64_t>(s.keys, s.key_end[b * s.queries + t]);
  }
  std::int64_t query_at(const AttentionShape& s, std::int64_t ld) const {
    return (b * s.queries + t) * ld + h * s.head_size;
  }
  std::int64_t key_at(const AttentionShape& s, std::int64_t ld, std::int64_t key) const {
    return (b * s.keys + key) * ld + key_head * s.head_size;
  }
  std::int64_t bias_at(const AttentionShape& s, std::int64_t key) const {
    return s.bias_row[key - t + s.queries - 1] * s.heads + h;
  }
  std::int64_t lse_at(const AttentionShape& s) const { return (b * s.heads + h) * s.queries + t; }
  double factor(const Dropout& dropout, std::int64_t key) const {
    return dropout.probability > 0 ? DropoutRule(dropout).factor(dropout.samples[b], t, attention_feature(h, key)) : 1;
  }
};

template <class Visit>
void for_each_row(const AttentionShape& s, Visit visit) {
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t t = 0; t < s.queries; ++t) visit(AttentionRow(s, b, t, h));
}

template <class T>
T dot(const T* x, const T* y, std::int64_t count) {
  T sum(0);
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * y[i];
  return sum;
}

// The score of the row's query q and a key k.
template <class T>
T score_of(const AttentionShape& s, const AttentionRow& row, const T* q, const T* k, std::int64_t key) {
  const T scaled = T(s.scale) * dot(q, k, s.head_size);
  return s.biased() ? scaled + in<T>(s.bias)[row.bias_at(s, key)] : scaled;
}

template <class T>
void compute(const AttentionForward& a) {
  using std::exp;
  using std::log;
  const AttentionShape& s = a.shape;
  for_each_row(s, [&](const AttentionRow& row) {
    const T* q = in<T>(a.q) + row.query_at(s, a.ldq);
    T* result = a.out ? out<T>(a.out) + row.query_at(s, a.ld_out) : nullptr;
    for (std::int64_t i = 0; result && i < s.head_size; ++i) result[i] = T(0);
    if (row.first >= row.last) return;
    std::vector<T> score;
    for (std::int64_t j = row.first; j < row.last; ++j)
      score.push_back(score_of(s, row, q, in<T>(a.k) + row.key_at(s, a.ldk, j), j));
    const T maximum = *std::max_element(score.begin(), score.end(),
                                        [](const T& x, const T& y) { return real_part(x) < real_part(y); });
    T sum(0);
    for (T& x : score) sum += x = exp(x - maximum);
    for (std::int64_t j = row.first; result && j < row.last; ++j) {
      const T weight = score[j - row.first] / sum * T(row.factor(a.dropout, j));
      for (std::int64_t i = 0; i < s.head_size; ++i) result[i] += weight * in<T>(a.v)[row.key_at(s, a.ldv, j) + i];
    }
    if (a.lse) out<T>(a.lse)[row.lse_at(s)] = maximum + log(sum);
  });
}

template <class T>
void zero_rows(T* x, std::int64_t rows, std::int64_t columns, std::int64_t ld) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill(x + i * ld, x + i * ld + columns, T(0));
}

// With probabilities P and dropout factors F: dV = (P F)^T dO, dP = F (dO V^T), dS = P (dP - rows of dO . O),
// dQ = scale dS K, dK = scale dS^T Q, and an entry of the bias has the sum of all dS that it is added to.
template <class T>
void compute(const AttentionBackward& a) {
  using std::exp;
  const AttentionShape& s = a.shape;
  if (!a.lse) {
    std::vector<T> lse(static_cast<std::size_t>(s.batch * s.heads * s.queries));
    AttentionForward only_lse;
    only_lse.shape = s, only_lse.lse = lse.data();
    only_lse.q = a.q, only_lse.ldq = a.ldq, only_lse.k = a.k, only_lse.ldk = a.ldk;
    compute<T>(only_lse);
    AttentionBackward with_lse = a;
    with_lse.lse = lse.data();
    return compute<T>(with_lse);
  }
  zero_rows(out<T>(a.dq), s.batch * s.queries, s.heads * s.head_size, a.ldq);
  zero_rows(out<T>(a.dk), s.batch * s.keys, s.key_heads * s.head_size, a.ldk);
  zero_rows(out<T>(a.dv), s.batch * s.keys, s.key_heads * s.head_size, a.ldv);
  for_each_row(s, [&](const AttentionRow& row) {
    const std::int64_t at = row.query_at(s, a.ldq);
    const T *q = in<T>(a.q) + at, *o = in<T>(a.out) + row.query_at(s, a.ld_out),
            *d_o = in<T>(a.d_out) + row.query_at(s, a.ld_out);
    const T delta = dot(d_o, o, s.head_size);
    for (std::int64_t j = row.first; j < row.last; ++j) {
      const std::int64_t k_at = row.key_at(s, a.ldk, j), v_at = row.key_at(s, a.ldv, j);
      const T p = exp(score_of(s, row, q, in<T>(a.k) + k_at, j) - in<T>(a.lse)[row.lse_at(s)]);
      const T factor(row.factor(a.dropout, j));
      const T d_score = p * (factor * dot(d_o, in<T>(a.v) + v_at, s.head_size) - delta), ds = T(s.scale) * d_score;
      if (a.d_bias) out<T>(a.d_bias)[row.bias_at(s, j)] += d_score;
      for (std::int64_t i = 0; i < s.head_size; ++i) {
        out<T>(a.dq)[at + i] += ds * in<T>(a.k)[k_at + i];
        out<T>(a.dk)[k_at + i] += ds * q[i];
        out<T>(a.dv)[v_at + i] += p * factor * d_o[i];
      }
    }
  });
}

// The numbers of the codes, with `columns` columns at ld.
template <class T>
std::vector<T> restored(const CodedAttentionBackward::Columns& x, std::int64_t columns, std::int64_t ld) {
  const CodedRows& rows = x.rows;
  std::vector<T> all(rows.shape.rows * rows.shape.columns, T(0)), part(rows.shape.rows * ld, T(0));
  compute<T>(GroupRestore{.shape = rows.shape, .codes = rows.codes, .ranges = rows.ranges, .x = all.data()});
  for (std::int64_t i = 0; i < rows.shape.rows; ++i)
    std::copy_n(all.data() + i * rows.shape.columns + x.first, columns, part.data() + i * ld);
  return part;
}

template <class T>
void compute(const CodedAttentionBackward& a) {
  AttentionBackward attention = a.attention;
  const AttentionShape& s = attention.shape;
  const std::int64_t wide = s.heads * s.head_size, narrow = s.key_heads * s.head_size;
  const std::vector<T> q = restored<T>(a.q, wide, attention.ldq), k = restored<T>(a.k, narrow, attention.ldk),
                       v = restored<T>(a.v, narrow, attention.ldv), out = restored<T>(a.out, wide, attention.ld_out);
  attention.q = q.data(), attention.k = k.data(), attention.v = v.data(), attention.out = out.data();
  compute<T>(attention);
}

}  // namespace comera::kernels::reference
