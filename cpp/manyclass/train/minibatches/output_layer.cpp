// Sampled gradients of a last layer: see the header.
#include "manyclass/train/minibatches/output_layer.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>

#include "manyclass/core/parallel.hpp"
#include "manyclass/model/linear.hpp"
#include "manyclass/objective/double_sum.hpp"
#include "manyclass/weights/class_rows.hpp"

namespace manyclass {

namespace {

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// Coefficients of the classes of all points: w_k gets coefficients times x_i, and x_i coefficients times w_k.
struct Touched {
  std::size_t width;               // room of a point: its label and the classes drawn
  std::vector<std::size_t> sizes;  // of a point's list
  std::vector<Index> classes;
  std::vector<float> coefficients;

  Touched(std::size_t n, std::size_t room) : width(room), sizes(n), classes(n * room), coefficients(n * room) {}

  // Calls f(point, class, coefficient), in the order of the points.
  template <class F>
  void each(const F& f) const {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t c = i * width; c < i * width + sizes[i]; ++c) f(i, classes[c], coefficients[c]);
    }
  }
};

// What a draw and its scores need, kept between the points of a thread.
struct Room {
  std::size_t most;
  std::vector<Index> list;
  std::vector<Index> drawn;
  std::vector<float> floats;

  explicit Room(std::size_t capacity) : most(capacity), list(capacity), drawn(capacity), floats(4 * capacity) {}
  std::span<float> part(std::size_t p) { return std::span(floats).subspan(p * most, most); }
};

std::size_t capacity_of(const AnySelect& any_select) {
  return std::visit([](const auto& select) { return select.capacity(); }, any_select);
}

// The classes of a point, their alpha in part 0 of the room. Listed whatever the selection, so that what follows is
// compiled once for all: their rows are read one by one in any case.
ClassList draw(const LayerBatch& batch, std::size_t i, const AnySelect& any_select, Room& room) {
  const Rng rng(batch.key, static_cast<std::uint64_t>(batch.items[i]));
  const std::span<const Index> label(&batch.labels[i], 1);
  return std::visit(
      [&](const auto& select) {
        const auto classes = select.draw(rng, static_cast<Index>(i), label, {room.list, room.part(0), room.part(1)});
        for (std::size_t c = 0; c < classes.size(); ++c) room.drawn[c] = classes[c];
        return ClassList(room.drawn).first(classes.size());
      },
      any_select);
}

// One point: its list in `touched`, the u at which its gradient is taken and its slope, and its part of n times value.
template <class Rule>
double look(const LayerBatch& batch, std::size_t i, ClassList drawn, const DoubleSum<Rule>& objective,
            const Linear<ClassRows<const float>>& model, Room& room, Touched& touched, LayerGradient& out) {
  const DenseRow x = batch.x.row(static_cast<Index>(i));
  const Index label = batch.labels[i];
  const std::span<float> alpha = room.part(0), z = room.part(2), g = room.part(3).first(drawn.size());
  model.scores(x, drawn, z);
  SampledPoint point{};
  point.scores = z.first(drawn.size());
  point.alpha = alpha.first(drawn.size());
  point.label_score = static_cast<double>(model.score(x, label));
  double u = batch.u.empty() ? 0 : batch.u[i];
  const Gradient gradient = objective.gradient(point, u, g);

  const double share = 1 / static_cast<double>(batch.labels.size());
  std::size_t at_end = i * touched.width;
  const auto touch = [&](Index k, double coefficient) {
    touched.classes[at_end] = k;
    touched.coefficients[at_end++] = static_cast<float>(coefficient);
  };
  touch(label, -share * gradient.label);
  for (std::size_t c = 0; c < drawn.size(); ++c) {
    if (g[c] != 0) touch(drawn[c], share * static_cast<double>(g[c]));  // 0: the label in its own block, for one
  }
  touched.sizes[i] = at_end - i * touched.width;
  out.u[i] = u;
  out.u_slopes[i] = share * -std::expm1(gradient.loss - u);
  return u + std::expm1(gradient.loss - u);
}

// Appends rows of W's gradient, a class at a time, each the sum over its points in their order.
void gather(const LayerBatch& batch, const Touched& touched, Index n_classes, int n_threads, Isa isa,
            LayerGradient& out) {
  const auto width = at(batch.x.n_cols);
  std::vector<Index> slots(at(n_classes), -1);
  touched.each([&](std::size_t, Index k, float) { slots[at(k)] = 0; });
  for (Index k = 0; k < n_classes; ++k) {
    if (slots[at(k)] < 0) continue;
    slots[at(k)] = static_cast<Index>(out.rows.size());
    out.rows.push_back(k);
  }
  std::vector<std::size_t> ends(out.rows.size() + 1);
  touched.each([&](std::size_t, Index k, float) { ++ends[at(slots[at(k)]) + 1]; });
  for (std::size_t r = 0; r < out.rows.size(); ++r) ends[r + 1] += ends[r];
  std::vector<std::pair<std::size_t, float>> points(ends.back());
  std::vector<std::size_t> next(ends.begin(), ends.end() - 1);
  touched.each([&](std::size_t i, Index k, float c) { points[next[at(slots[at(k)])]++] = {i, c}; });

  out.weights.assign(out.rows.size() * width, 0);
  out.intercept.assign(out.rows.size(), 0);
  constexpr std::size_t bite = 16;  // rows that a thread takes at a time
  parallel_for(n_threads, (out.rows.size() + bite - 1) / bite, [&](std::size_t b) {
    run_with(isa, [&] {
      for (std::size_t r = b * bite; r < std::min(out.rows.size(), (b + 1) * bite); ++r) {
        ClassRows<float> row(std::span(out.weights).subspan(r * width, width), batch.x.n_cols);
        for (std::size_t p = ends[r]; p < ends[r + 1]; ++p) {
          row.add(batch.x.row(static_cast<Index>(points[p].first)), 0, points[p].second);
          out.intercept[r] += points[p].second;
        }
      }
    });
  });
}

template <class Rule>
LayerGradient gradient_by(const LayerBatch& batch, const AnySelect& select, const DoubleSum<Rule>& objective,
                          const OutputLayer& layer, int n_threads, Isa isa) {
  const Linear<ClassRows<const float>> model{ClassRows(layer.weights, layer.n_features), layer.intercept, {}};
  const std::size_t n = batch.labels.size(), width = at(batch.x.n_cols);
  LayerGradient out;
  out.x.assign(n * width, 0);
  out.u.assign(n, 0);
  out.u_slopes.assign(n, 0);
  Touched touched(n, capacity_of(select) + 1);
  std::vector<double> values(n);
  constexpr std::size_t bite = 8;  // points that a thread takes at a time
  parallel_for(n_threads, (n + bite - 1) / bite, [&](std::size_t b) {
    Room room(capacity_of(select));
    for (std::size_t i = b * bite; i < std::min(n, (b + 1) * bite); ++i) {
      const ClassList drawn = draw(batch, i, select, room);
      run_with(isa, [&] {
        values[i] = look(batch, i, drawn, objective, model, room, touched, out);
        ClassRows<float> dx(std::span(out.x).subspan(i * width, width), batch.x.n_cols);
        for (std::size_t c = i * touched.width; c < i * touched.width + touched.sizes[i]; ++c) {
          dx.add(layer.weights.subspan(at(touched.classes[c]) * width, width), 0, touched.coefficients[c]);
        }
      });
    }
  });
  for (const double value : values) out.value += value / static_cast<double>(n);
  gather(batch, touched, layer.n_classes, n_threads, isa, out);
  return out;
}

}  // namespace

LayerGradient sampled_gradient(const LayerBatch& batch, const AnySelect& select, const OutputLayer& layer,
                               int n_threads, Isa isa) {
  const std::size_t n = batch.labels.size();
  if (batch.x.n_cols != layer.n_features || at(batch.x.n_rows()) != n || batch.items.size() != n ||
      (!batch.u.empty() && batch.u.size() != n)) {
    throw std::invalid_argument(
        "a batch must have the layer's features, and a label, an item and a u, or none, a point");
  }
  for (const Index y : batch.labels) {
    if (y < 0 || y >= layer.n_classes) throw std::invalid_argument("a label is out of range");
  }
  if (batch.u.empty()) return gradient_by(batch, select, DoubleSum<MovingAverage>{0, {1}}, layer, n_threads, isa);
  return gradient_by(batch, select, DoubleSum<UMax>{0, {batch.delta}}, layer, n_threads, isa);
}

}  // namespace manyclass
