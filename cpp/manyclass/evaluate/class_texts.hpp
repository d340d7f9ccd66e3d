// How much the texts of classes say: the scales s_k by which the row of a class's text is added to its weights, as rows
// tell that a model was not trained on.
//
// The loss of a row is that of the decoupled softmax, whose labels do not compete; of one label it is the log-loss. A
// class with n rows has s c / (c + n), where s and c have the least loss. Classes without rows have a scale of their
// own, of least sum of two losses: that of the rows as they are, from whose probability such classes take, and that of
// the same rows with the class of each taken for one without rows, whose scores are on the line that fits those of such
// classes best over the similarity of row and text. The share of the second one is Good's estimate of the probability
// that a row is of a class not yet seen (Biometrika 40, 1953): the share of classes of one row among all rows.
#pragma once

#include <span>
#include <vector>

#include "manyclass/core/csr.hpp"
#include "manyclass/core/lists.hpp"

namespace manyclass {

struct ClassTextRows {
  std::span<const float> scores;    // rows of K each
  CsrView alike;                    // products of rows and texts, K columns
  Excluded labels;                  // one or several for each row
  std::span<const double> counts;   // rows of each class
  std::span<const bool> has_text;   // of each class
  std::span<const double> weights;  // of the rows
};

struct ClassTextScales {
  std::vector<double> of_classes;
  double none = 0, loss = 0;  // mean losses without texts and with those of classes that have rows
  double scale = 0;           // s; 0: texts do not count, as their gain is no more than chance
  double shrinkage = 0;       // c, in rows; may be infinite
  double of_unseen = 0;       // of classes without rows
};

// Throws std::invalid_argument where sizes do not fit.
ClassTextScales class_text_scales(const ClassTextRows& rows);

// Which rows are not the very text of a class of theirs, as new rows seldom are. Row k of `texts` is the text of class
// k.
void unlike_texts(const CsrView& x, const Excluded& labels, const CsrView& texts, std::span<bool> unlike);

}  // namespace manyclass
