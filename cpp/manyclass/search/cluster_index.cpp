// Building and updating the index: see the header; its queries are in cluster_search.cpp.
#include "manyclass/search/cluster_index.hpp"

#include <algorithm>
#include <numeric>

#include "manyclass/weights/coded_lines.hpp"

namespace manyclass {

namespace {

// Centroids whose numbers the labels are.
std::vector<float> checked(std::vector<float> centroids, std::size_t width, std::span<const Index> labels,
                           std::size_t n_rows) {
  const std::size_t n = centroids.size() / width;
  if (n < 1) throw std::invalid_argument("there are no centroids");
  if (!labels.empty() && labels.size() != n_rows) throw std::invalid_argument("each row needs a label");
  for (const Index label : labels) {
    if (label < -1 || label >= static_cast<Index>(n)) throw std::invalid_argument("a label is out of range");
  }
  return centroids;
}

std::size_t n_codes(std::span<const std::byte> codes, const Coding& coding) {
  return codes.size() / CodeBlock::bytes_of_code(coding);
}

// The rows that codes stand for.
std::vector<float> decoded(std::span<const std::byte> codes, const Coding& coding, int n_threads, Isa isa) {
  CodeBlock one(coding);
  const std::size_t n = n_codes(codes, coding), width = coding.n_features;
  std::vector<float> rows(n * width);
  for (std::size_t id = 0; id < n; ++id) {
    one.append(0, codes.data() + id * CodeBlock::bytes_of_code(coding), isa);
    one.decode(0, std::span(rows).subspan(id * width, width));
    one.remove(0);
  }
  check_rows({rows.data(), width}, n, n_threads, isa);
  return rows;
}

}  // namespace

ClusterIndex::ClusterIndex(const RowsView& rows, std::size_t n, const Coding& coding, Directions directions,
                           std::vector<float> centroids, std::span<const Index> labels, int n_threads, Isa isa)
    : coding_(coding),
      clusters_(coding, (check_rows(rows, n, n_threads, isa), rows), n, directions,
                checked(std::move(centroids), directions.n_features(), labels, n), labels, n_threads, isa,
                [&](CodeBlock& block, Index id) { block.append(id, rows[id], isa); }) {
  std::vector<Index> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  keep(ids, rows);
}

ClusterIndex::ClusterIndex(std::span<const std::byte> codes, const Coding& coding, Directions directions,
                           std::vector<float> centroids, std::span<const Index> labels, int n_threads, Isa isa)
    : ClusterIndex(decoded(codes, coding, n_threads, isa), codes, coding, directions, std::move(centroids), labels,
                   n_threads, isa) {}

ClusterIndex::ClusterIndex(const std::vector<float>& rows, std::span<const std::byte> codes, const Coding& coding,
                           Directions directions, std::vector<float> centroids, std::span<const Index> labels,
                           int n_threads, Isa isa)
    : coding_(coding),
      clusters_(coding, RowsView{rows.data(), coding.n_features}, n_codes(codes, coding), directions,
                checked(std::move(centroids), directions.n_features(), labels, n_codes(codes, coding)), labels,
                n_threads, isa, [&, width = CodeBlock::bytes_of_code(coding)](CodeBlock& block, Index id) {
                  block.append(id, codes.data() + static_cast<std::size_t>(id) * width, isa);
                }) {}

void ClusterIndex::read(Index id, std::span<float> row) const {
  const auto i = static_cast<std::size_t>(id);
  if (label(i) < 0) return std::ranges::fill(row, 0.0F), void();
  if (coding_.alone())
    return clusters_[static_cast<std::size_t>(label(i))].decode(static_cast<std::size_t>(clusters_.slot(i)), row);
  read_row(rows(), id, best_isa(), row);
}

std::vector<std::byte> ClusterIndex::codes() const {
  const std::size_t width = CodeBlock::bytes_of_code(coding_);
  std::vector<std::byte> codes(n_rows() * width);
  for (std::size_t id = 0; id < n_rows(); ++id) {
    if (label(id) < 0) continue;
    clusters_[static_cast<std::size_t>(label(id))].write(static_cast<std::size_t>(clusters_.slot(id)),
                                                         codes.data() + id * width);
  }
  return codes;
}

std::size_t ClusterIndex::n_bytes() const {
  std::size_t bytes = sizeof(std::uint16_t) * halves_.size() +
                      sizeof(float) * (rows_.size() + n_clusters() * clusters_.directions().n_features()) +
                      clusters_.centroids().codes().capacity_bytes() + n_rows() * 2 * sizeof(Index);
  for (std::size_t c = 0; c < n_clusters(); ++c) bytes += clusters_[c].capacity_bytes() + sizeof(CodeBlock);
  return bytes;
}

void ClusterIndex::update(std::span<const Index> ids, const RowsView& rows, int n_threads, Isa isa) {
  const int threads = threads_to_update(ids.size(), n_clusters(), n_features(), n_threads);
  check_rows(rows, ids.size(), threads, isa);
  replace(ids, rows, clusters_.nearest(rows, ids.size(), threads, isa), isa);
}

void ClusterIndex::replace(std::span<const Index> ids, const RowsView& rows, std::span<const Scored> found, Isa isa) {
  clusters_.replace(ids, rows, found, isa);
  keep(ids, rows);
}

void ClusterIndex::keep(std::span<const Index> ids, const RowsView& rows) {
  const std::size_t width = n_features(), size = n_rows() * width;
  if (coding_.row_bits == 32) rows_.resize(size);
  if (coding_.row_bits == 16) halves_.resize(size);
  for (std::size_t i = 0; i < ids.size() && !coding_.alone(); ++i) {
    const DenseRow row = rows[static_cast<Index>(i)];
    const std::size_t begin = static_cast<std::size_t>(ids[i]) * width;
    if (coding_.row_bits == 32) std::ranges::copy(row, rows_.data() + begin);
    if (coding_.row_bits == 16) std::ranges::transform(row, halves_.data() + begin, half_of);
  }
}

}  // namespace manyclass
