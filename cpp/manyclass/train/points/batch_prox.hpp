// Training by implicit steps of whole batches (Fagan & Iyengar 2018, F.3, with a ridge that is part of the step).
//
// A fixed partition splits the points once into J batches, and each pass visits every batch once, in a random order. A
// visit draws m classes, without replacement, from the K - n_Y that are no labels of batch j, and takes the proximal
// point of
//
//   f_jC = J/N sum_{i in S_j} (u_i + e^-u_i d_i) + alpha/2 sum_{k in C and Y_j} b_k |w_k|^2,
//   d_i = 1 + sum_{k in Y_j, k != y_i} e^{z_k - z_{y_i}} + (K - n_Y)/m sum_{k in C} e^{z_k - z_{y_i}},
//
// Y_j being the distinct labels of the batch, n_Y their number and b_k the inverse of the probability that a visit of a
// uniform batch touches k. Its mean over j and C is the objective itself, also where the last batch is short.
//
// A random partition (arXiv version, E.4) draws n points I for each visit, and m of all K classes, labels or not, both
// without replacement; a pass is as many visits. Then
//
//   f_IC = 1/n sum_{i in I} (u_i + e^-u_i d_i) + alpha/2 sum_{k in C and Y_I} b_k |w_k|^2,
//   d_i = 1 + K/m sum_{k in C, k != y_i} e^{z_k - z_{y_i}},
//   1/b_k = 1 - (1 - m/K) P(no point of k is in I),
//
// the last being hypergeometric. Labels of other points count only where they are drawn. (E.4 writes weights N/n for
// the sum over points, which is N times the mean here, and solves another problem, its eq. 28; this is F.3's.)
//
// With weights of points the terms of both sums over i are multiplied by them.
#pragma once

#include <array>
#include <memory>

#include "manyclass/core/facts.hpp"
#include "manyclass/train/common/trainer.hpp"

namespace manyclass {

enum class Partition { fixed, random };
inline constexpr std::array<Facts, 2> partition_facts{{
    {.name = "fixed",
     .sentence = "Batches are made once; a visit sees all labels of its batch, and some of the other classes.",
     .source = "Fagan & Iyengar 2018, F.3.1"},
    {.name = "random",
     .sentence = "Each visit draws its points anew, and some of all classes.",
     .source = "Fagan & Iyengar 2018, arXiv, E.4"},
}};

template <class Rows>
std::unique_ptr<Trainer> batch_prox_trainer(const Problem<Rows>& problem, Partition partition, Index n_negatives,
                                            Settings settings);

}  // namespace manyclass
